"""Targets, what they said of themselves, and their peaks: each calibration is kept, the last of each counts."""

from collections.abc import Iterable
from dataclasses import asdict

import duckdb

from enginebench_controller.errors import InputError
from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate, Target, TargetSnapshot
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.rows import from_snapshot_row, from_target_row, to_snapshot_row, to_target_row
from enginebench_controller.store.statements import Row, insert, insert_all, rows, upsert

_CALIBRATION = ("target", "engine", "environment", "engine_version", "device", "cores", "measured_at_unix_ns")
"""The columns that all peaks of one calibration have in common."""

_RATE = ("median_per_s", "low_per_s", "high_per_s", "blocks", "disturbed_blocks", "disturbed")


class TargetStore(StoreFile):
    """What is kept of targets."""

    def add_target(self, target: Target) -> None:
        """Remember a target. Raises `InputError` when the name is taken."""
        with self._writing() as connection:
            added = insert(connection, "targets", to_target_row(target))
        if not added:
            raise InputError(
                f"there is a target {target.name!r} already; choose another name, "
                f"or remove it first with `enginebench targets remove {target.name}`"
            )

    def remove_target(self, name: str) -> None:
        """Forget a target and what it said last; what was measured on it stays.

        Raises `InputError` for an unknown name.
        """
        with self._writing() as connection:
            connection.execute("DELETE FROM snapshots WHERE target = ?", [name])
            removed = connection.execute("DELETE FROM targets WHERE name = ? RETURNING name", [name]).fetchall()
        if not removed:
            raise InputError(f"there is no target {name!r}; see `enginebench targets list`")

    def targets(self) -> tuple[Target, ...]:
        """Return the targets by name."""
        with self._reading() as connection:
            return tuple(map(from_target_row, rows(connection, "SELECT * FROM targets ORDER BY name")))

    def save_snapshot(self, snapshot: TargetSnapshot) -> None:
        """Keep what a target said of itself, in place of what it said before, but not of what it said later."""
        newest = "WHERE excluded.seen_at_unix_ns >= snapshots.seen_at_unix_ns"
        with self._writing() as connection:
            upsert(connection, "snapshots", "target", to_snapshot_row(snapshot), newest)

    def snapshots(self) -> tuple[TargetSnapshot, ...]:
        """Return what each target said last, by target."""
        with self._reading() as connection:
            return tuple(map(from_snapshot_row, rows(connection, "SELECT * FROM snapshots ORDER BY target")))

    def add_peaks(self, peaks: Iterable[Peak]) -> bool:
        """Keep what calibrations found; False when nothing of it is new."""
        by_calibration: dict[tuple[object, ...], list[Row]] = {}
        for row in map(to_peak_row, peaks):
            by_calibration.setdefault(tuple(row[column] for column in _CALIBRATION), []).append(row)
        with self._writing() as connection:
            new = [row for key, found in by_calibration.items() if not _is_known(connection, key) for row in found]
            insert_all(connection, "peaks", new)
        return bool(new)

    def peaks(self, target: str | None = None) -> tuple[Peak, ...]:
        """Return what the last calibration of each engine, version, device and number of cores found.

        Of one target, or of all.
        """
        query = f"""
            SELECT * FROM peaks WHERE target = coalesce(?, target)
            QUALIFY measured_at_unix_ns = max(measured_at_unix_ns) OVER (PARTITION BY {", ".join(_CALIBRATION[:-1])})
            ORDER BY target, engine, environment, engine_version, device, cores, kind DESC, precision,
                working_set_bytes, what"""  # noqa: S608
        with self._reading() as connection:
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
