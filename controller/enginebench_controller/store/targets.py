"""Targets, what they said of themselves, and their peaks: each calibration is kept, the last of each counts."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import NoReturn

import duckdb

from enginebench_controller.errors import InputError
from enginebench_controller.records import EngineRef, Noise, Peak, PeakKind, Rate, Target, TargetSnapshot
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.rows import (
    from_snapshot_row,
    from_target_row,
    to_json,
    to_snapshot_row,
    to_target_row,
)
from enginebench_controller.store.statements import TELLS_OF_OTHERS, Row, insert, insert_all, rows, upsert_all

_CALIBRATION = ("target", "engine", "environment", "engine_version", "device", "cores", "measured_at_unix_ns")
"""The columns that all peaks of one calibration have in common."""

_RATE = ("median_per_s", "low_per_s", "high_per_s", "blocks", "disturbed_blocks", "disturbed")

_OF_ONE = " AND ".join(f"{column} IS NOT DISTINCT FROM ?" for column in _CALIBRATION)
"""The condition that a peak is of a calibration."""

_NAME_PROCESSOR = f"UPDATE peaks SET cpu_model = ? WHERE cpu_model IS NULL AND {_OF_ONE}"  # noqa: S608
_PROCESSORS = "SELECT target, host->>'cpu_model' AS cpu_model FROM snapshots"

# A name that was given to another machine is not to have what the one before it did.
_NOISE = f"""
    WITH recent AS (
        SELECT measurements.id, target, process_spread FROM measurements
        JOIN benchmarks ON benchmarks.id = benchmark_id
        LEFT JOIN targets ON targets.name = target
        WHERE NOT imported AND started_at_unix_ns >= greatest($1, coalesce(added_at_unix_ns, 0))
    ), seen AS (
        SELECT measurement_id, sum(duration_ns) AS going_on_ns,
            coalesce(sum(duration_ns) FILTER (len(disturbances) > 0), 0) AS disturbed_ns
        FROM blocks WHERE measurement_id IN (SELECT id FROM recent) AND coalesce(paused_ns, 0) = 0
        GROUP BY measurement_id HAVING bool_or({TELLS_OF_OTHERS})
    )
    SELECT target, count(*) AS measurements, sum(disturbed_ns) / nullif(sum(going_on_ns), 0) AS disturbed,
        median(process_spread) AS spread
    FROM recent LEFT JOIN seen ON measurement_id = recent.id GROUP BY target"""  # noqa: S608


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
        """Forget a target, what it said last and its peaks; of what was measured on it, all that is stored stays.

        Another machine may get its name. Added again, its agent tells its last calibrations. Raises `InputError` for an
        unknown name.
        """
        with self._writing() as connection:
            for table in ("snapshots", "peaks"):
                connection.execute(f"DELETE FROM {table} WHERE target = ?", [name])  # noqa: S608  # names of ours
            removed = connection.execute("DELETE FROM targets WHERE name = ? RETURNING name", [name]).fetchall()
        if not removed:
            _no_target(name)

    def label_targets(self, names: Iterable[str], changes: Mapping[str, str | None]) -> tuple[Target, ...]:
        """Give these targets labels, and take away those whose value is None: all or none. Returns what they are then.

        Raises `InputError` for an unknown name.
        """
        with self._writing() as connection:
            known = {one.name: one for one in _targets(connection)}
            chosen = [known[name] if name in known else _no_target(name) for name in names]
            labelled = [replace(one, labels=_changed(one.labels, changes)) for one in chosen]
            for one in labelled:
                connection.execute("UPDATE targets SET labels = ? WHERE name = ?", [to_json(one.labels), one.name])
        return tuple(labelled)

    def noise(self, since_unix_ns: int) -> Mapping[str, Noise]:
        """Return how noisy each target was that has measured since then, by its name.

        What was imported is left out, and what was measured before the target was added.
        """
        with self._reading() as connection:
            found = (Noise(**row) for row in rows(connection, _NOISE, since_unix_ns))
            return {one.target: one for one in found}

    def targets(self) -> tuple[Target, ...]:
        """Return the targets by name."""
        with self._reading() as connection:
            return _targets(connection)

    def save_snapshot(self, *snapshots: TargetSnapshot) -> None:
        """Keep what targets said of themselves, in place of what they said before, but not of what they said later.

        What was seen at a time that is yet to come was seen before this machine's clock was set right.
        """
        known = "snapshots.seen_at_unix_ns"
        with self._writing() as connection:
            # Now, and not before: while one waits for the store, others save what they have seen since.
            newest = f"WHERE excluded.seen_at_unix_ns >= {known} OR {known} > {time.time_ns()}"
            upsert_all(connection, "snapshots", "target", [to_snapshot_row(one) for one in snapshots], newest)

    def snapshots(self) -> tuple[TargetSnapshot, ...]:
        """Return what each target said last, by target."""
        with self._reading() as connection:
            return tuple(map(from_snapshot_row, rows(connection, "SELECT * FROM snapshots ORDER BY target")))

    def add_peaks(self, peaks: Iterable[Peak]) -> bool:
        """Keep what calibrations found; False when nothing of it is new.

        Those of an unknown processor are of the one that their target had when it was seen last, as agents tell of
        their own machine; and so are those that are known here without it.
        """
        by_calibration: dict[tuple[object, ...], list[Row]] = {}
        for row in map(to_peak_row, peaks):
            by_calibration.setdefault(tuple(row[column] for column in _CALIBRATION), []).append(row)
        with self._writing() as connection:
            new = []
            processors = {row["target"]: row["cpu_model"] for row in rows(connection, _PROCESSORS)}
            for key, found in by_calibration.items():
                seen = processors.get(found[0]["target"])
                told = [row | {"cpu_model": row["cpu_model"] or seen} for row in found]
                if rows(connection, f"SELECT 1 FROM peaks WHERE {_OF_ONE} LIMIT 1", *key):  # noqa: S608
                    connection.execute(_NAME_PROCESSOR, [told[0]["cpu_model"], *key])
                else:
                    new += told
            insert_all(connection, "peaks", new)
        return bool(new)

    def peaks(self, target: str | None = None) -> tuple[Peak, ...]:
        """Return what the last calibration of each engine, version, device, number of cores and processor found.

        Of one target, or of all. The last is the one that came here last: a target's clock may have been set back.
        """
        query = f"""
            SELECT * FROM peaks WHERE target = coalesce(?, target)
            QUALIFY measured_at_unix_ns = arg_max(measured_at_unix_ns, rowid)
                OVER (PARTITION BY {", ".join(_CALIBRATION[:-1])}, cpu_model)
            ORDER BY target, engine, environment, engine_version, device, cores, kind DESC, precision,
                working_set_bytes, what"""  # noqa: S608
        with self._reading() as connection:
            return tuple(map(from_peak_row, rows(connection, query, target)))


def _targets(connection: duckdb.DuckDBPyConnection) -> tuple[Target, ...]:
    return tuple(map(from_target_row, rows(connection, "SELECT * FROM targets ORDER BY name")))


def _no_target(name: str) -> NoReturn:
    raise InputError(f"there is no target {name!r}; see `enginebench targets list`")


def _changed(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**labels, **changes}.items() if value is not None}


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
        "cpu_model": peak.cpu_model,
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
        cpu_model=row["cpu_model"],
    )
