"""Targets, what they said of themselves, and their peaks: each calibration is kept, the last of each counts."""

from collections.abc import Iterable
from dataclasses import asdict

import duckdb

from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate
from enginebench_controller.store.statements import Row, insert_all, rows

_CALIBRATION = ("target", "engine", "environment", "engine_version", "device", "cores", "measured_at_unix_ns")
"""The columns that all peaks of one calibration have in common."""

_RATE = ("median_per_s", "low_per_s", "high_per_s", "blocks", "disturbed_blocks", "disturbed")


def insert_peaks(connection: duckdb.DuckDBPyConnection, peaks: Iterable[Peak]) -> bool:
    """Add the peaks of calibrations that are not there yet; False when all of them are."""
    by_calibration: dict[tuple[object, ...], list[Row]] = {}
    for row in map(to_peak_row, peaks):
        by_calibration.setdefault(tuple(row[column] for column in _CALIBRATION), []).append(row)
    new = [row for key, found in by_calibration.items() if not _is_known(connection, key) for row in found]
    insert_all(connection, "peaks", new)
    return bool(new)


def newest_peaks(connection: duckdb.DuckDBPyConnection, target: str | None) -> tuple[Peak, ...]:
    """Return the last calibration of each engine, version, device and number of cores; of one target, or of all."""
    query = f"""
        SELECT * FROM peaks WHERE target = coalesce(?, target)
        QUALIFY measured_at_unix_ns = max(measured_at_unix_ns) OVER (PARTITION BY {", ".join(_CALIBRATION[:-1])})
        ORDER BY target, engine, environment, engine_version, device, cores, kind DESC, precision, working_set_bytes,
            what"""  # noqa: S608
    return tuple(map(from_peak_row, rows(connection, query, target)))


def to_peak_row(peak: Peak) -> Row:
    """Give the row of `peaks`."""
    rate = dict.fromkeys(_RATE) if peak.rate is None else asdict(peak.rate)
    return {
        "target": peak.target,
        "engine": peak.engine.name,
        "environment": peak.engine.environment,
        "engine_version": peak.engine.version,
        "device": peak.device,
        "cores": peak.cores,
        "measured_at_unix_ns": peak.measured_at_unix_ns,
        "kind": peak.kind,
        "precision": peak.precision,
        "working_set_bytes": peak.working_set_bytes,
        "what": peak.what,
        "may_be_winograd": peak.may_be_winograd,
        "provider": peak.provider,
        "failure": peak.failure,
    } | rate


def from_peak_row(row: Row) -> Peak:
    """Read a row of `peaks`."""
    return Peak(
        target=row["target"],
        engine=EngineRef(row["engine"], row["environment"], row["engine_version"]),
        device=row["device"],
        cores=row["cores"],
        kind=PeakKind(row["kind"]),
        what=row["what"],
        measured_at_unix_ns=row["measured_at_unix_ns"],
        precision=row["precision"],
        working_set_bytes=row["working_set_bytes"],
        may_be_winograd=row["may_be_winograd"],
        provider=row["provider"],
        rate=None if row["median_per_s"] is None else Rate(**{name: row[name] for name in _RATE}),
        failure=row["failure"],
    )


def _is_known(connection: duckdb.DuckDBPyConnection, calibration: tuple[object, ...]) -> bool:
    same = " AND ".join(f"{column} IS NOT DISTINCT FROM ?" for column in _CALIBRATION)
    return bool(rows(connection, f"SELECT 1 FROM peaks WHERE {same} LIMIT 1", *calibration))  # noqa: S608
