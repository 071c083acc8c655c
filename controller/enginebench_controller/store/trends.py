"""The same model and configuration over time: in all benchmarks, on all engines, in one query.

What a clock dated that was wrong is no point: it would be the first or the newest for good. `misdated` tells of it.
"""

import json
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from enginebench_controller.records import Configuration, EngineRef, Interval, IntervalMethod, Status
from enginebench_controller.records.fields import CONFIGURATION
from enginebench_controller.records.possible import possible_dates
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.statements import TELLS_OF_OTHERS, Row, rows


@dataclass(frozen=True)
class TrendPoint:
    """A measurement among its like in other benchmarks. `at_unix_ns` is when it was, or its benchmark, begun.

    Times, rates and intervals are None where it failed or did not tell; `cpu_model` where the machine is unknown. The
    reference work's are medians over blocks; `disturbed` is the share of the time that lay in disturbed blocks, where
    paused ones do not count.
    """

    measurement_id: str
    benchmark_id: str
    benchmark_name: str
    imported: bool
    at_unix_ns: int
    engine: EngineRef
    options: Mapping[str, str]
    status: Status
    failure_kind: str | None
    median_ns: float | None
    median_interval: Interval | None
    mean_ns: float | None
    throughput_items_per_s: float | None
    throughput_interval: Interval | None
    effective_precision: str | None
    effective_threads: int | None
    input_set_sha256: str | None
    cpu_model: str | None
    reference_product_ns: float | None = None
    reference_stream_ns: float | None = None
    disturbed: float | None = None


@dataclass(frozen=True)
class TrendHistory:
    """The points of one configuration of a model version on an engine, on a target, oldest first.

    `configuration` is that of the newest; an environment is part of it, as two of them may have two versions. All are
    one's own, or were imported from targets of this name with one processor.
    """

    model_name: str
    model_digest: str
    target: str
    engine: str
    environment: str
    configuration: Configuration
    points: tuple[TrendPoint, ...]

    @property
    def imported(self) -> bool:
        """Whether it was measured elsewhere."""
        return self.points[-1].imported

    @property
    def processors(self) -> tuple[str, ...]:
        """Those that are known of its points, in their order: of one's own several, where a machine was replaced."""
        return tuple(dict.fromkeys(one.cpu_model for one in self.points if one.cpu_model))

    @property
    def versions(self) -> tuple[str, ...]:
        """The engine's, as far as they are known, in their order."""
        return tuple(dict.fromkeys(one.engine.version for one in self.points if one.engine.version))

    @property
    def since_oldest(self) -> float | None:
        """The newest median ÷ the oldest."""
        first, newest = self.points[0].median_ns, self.points[-1].median_ns
        return newest / first if first and newest else None


@dataclass(frozen=True)
class Misdated:
    """A benchmark of one's own that is dated when it cannot have been, or has so many `points` that are."""

    benchmark_id: str
    at_unix_ns: int
    points: int


def misdated_words(found: Sequence[Misdated]) -> str | None:
    """What to do about these, in a sentence that names the first; None without any."""
    if not found:
        return None
    first, count = found[0], len({one.benchmark_id for one in found})
    have = "1 benchmark has a date" if count == 1 else f"{count} benchmarks have dates"
    where = f"{'' if count == 1 else 'as '}{first.benchmark_id} at {_utc(first.at_unix_ns)}"
    return (
        f"{have} that cannot be, {where}, where it is {_utc(time.time_ns())} by this machine's clock: set the clock, "
        f"if it is wrong; else measure anew and `enginebench remove {first.benchmark_id}`"
    )


def left_out_words(found: Sequence[Misdated]) -> str | None:
    """The same, after how many points a trend has left out."""
    told, points = misdated_words(found), sum(one.points for one in found)
    if told is None or not points:
        return told
    return f"{'1 point is' if points == 1 else f'{points} points are'} left out: {told}"


def _utc(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns // 10**9, UTC):%Y-%m-%d %H:%M} UTC"


_CHOSEN = """one.id, one.benchmark_id, one.model_name, one.model_digest, one.target, one.engine, one.environment,
        one.engine_version, one.configuration, one.status, one.failure_kind, one.input_set_sha256,
        one.effective_precision, one.effective_threads, one.mean_ns, one.throughput_items_per_s,
        one.throughput_low_items_per_s, one.throughput_high_items_per_s,
        one.throughput_interval_level, one.throughput_interval_method,
        one.median_ns, one.median_low_ns, one.median_high_ns, one.median_interval_level, one.median_interval_method,
        benchmarks.name AS benchmark_name, imported, seen.cpu_model,
        coalesce(one.started_at_unix_ns, created_at_unix_ns) AS at_unix_ns"""
"""What is read of a measurement `one`: four in five of its columns are about something else."""

_SEEN = """JOIN benchmarks ON benchmarks.id = one.benchmark_id
        LEFT JOIN processors AS seen ON seen.benchmark_id = one.benchmark_id AND seen.target = one.target"""
"""What a measurement `one` belongs to, and which processor its target had then."""

_DATED = "(imported OR coalesce(one.started_at_unix_ns, created_at_unix_ns) BETWEEN ? AND ?)"
"""Whether a measurement `one` has a date that can be; what others have dated is theirs to put right."""

# Of each benchmark and target once: what all measurements are joined with is not to be parsed for each of them.
_PROCESSORS = """processors AS MATERIALIZED (
        SELECT benchmark_id, target, host->>'cpu_model' AS cpu_model FROM benchmark_snapshots
    )"""

# What was around those that are chosen; of the blocks of all others nothing is added up.
_POINTS = f"""
    SELECT chosen.*, machine.* EXCLUDE (measurement_id)
    FROM chosen
    LEFT JOIN (
        SELECT measurement_id, median(reference_product_ns) AS reference_product_ns,
            median(reference_stream_ns) AS reference_stream_ns,
            CASE WHEN bool_or({TELLS_OF_OTHERS}) FILTER (going_on)
                THEN coalesce(sum(duration_ns) FILTER (going_on AND len(disturbances) > 0), 0)
                    / nullif(sum(duration_ns) FILTER (going_on), 0) END AS disturbed
        FROM (SELECT *, coalesce(paused_ns, 0) = 0 AS going_on FROM blocks)
        WHERE measurement_id IN (SELECT id FROM chosen) GROUP BY measurement_id
    ) AS machine ON machine.measurement_id = chosen.id
    ORDER BY at_unix_ns DESC, chosen.id"""  # noqa: S608

# What an engine made of the request may differ from version to version, and is part of the answer.
_TREND = f"""
    WITH asked AS (SELECT * FROM measurements WHERE id = ?), {_PROCESSORS}, chosen AS MATERIALIZED (
        SELECT {_CHOSEN}
        FROM asked JOIN measurements AS one ON one.model_digest = asked.model_digest
            AND one.target = asked.target AND one.device = asked.device
            AND one.batch = asked.batch AND one.cores = asked.cores AND one.cluster = asked.cluster
            AND one.streams = asked.streams
            AND one.precision = asked.precision AND one.hint = asked.hint
            AND one.load = asked.load AND one.requests = asked.requests
            AND one.arrival_process IS NOT DISTINCT FROM asked.arrival_process
            AND one.arrival_rate_per_s IS NOT DISTINCT FROM asked.arrival_rate_per_s
        {_SEEN}
        WHERE {_DATED}
        ORDER BY at_unix_ns DESC, one.id LIMIT ?
    ) {_POINTS}"""  # noqa: S608

# A gate's processes are shorter than others, and it has been asked because of what the others said.
_HISTORIES = f"""
    WITH {_PROCESSORS}, chosen AS MATERIALIZED (
        SELECT {_CHOSEN}
        FROM measurements AS one {_SEEN}
        WHERE plan->>'gate' IS NULL AND one.median_ns IS NOT NULL
            AND (? IS NULL OR one.model_digest = ?) AND (? IS NULL OR one.target = ?)
            AND (? IS NULL OR one.engine = ?)
            AND {_DATED}
        QUALIFY row_number() OVER (
            PARTITION BY model_digest, one.target, engine, environment, device, batch, cores, cluster, streams,
                precision, hint, load, requests, arrival_process, arrival_rate_per_s,
                configuration->'$.inputs', configuration->'$.options',
                imported, CASE WHEN imported THEN seen.cpu_model END
            ORDER BY at_unix_ns DESC, one.id) <= ?
    ) {_POINTS}"""  # noqa: S608

_MISDATED = f"""
    SELECT benchmarks.id,
        max(CASE WHEN {_DATED} THEN created_at_unix_ns ELSE coalesce(started_at_unix_ns, created_at_unix_ns) END)
            AS at_unix_ns,
        count(*) FILTER (NOT {_DATED} AND plan->>'gate' IS NULL AND one.median_ns IS NOT NULL) AS points
    FROM benchmarks LEFT JOIN measurements AS one ON one.benchmark_id = benchmarks.id
    WHERE NOT imported AND NOT (created_at_unix_ns BETWEEN ? AND ? AND {_DATED})
        AND (? IS NULL OR one.model_digest = ?) AND (? IS NULL OR one.target = ?) AND (? IS NULL OR one.engine = ?)
    GROUP BY benchmarks.id ORDER BY at_unix_ns DESC, benchmarks.id"""  # noqa: S608

_MODELS = """
    SELECT model_digest, arg_max(model_name, coalesce(started_at_unix_ns, 0)) AS name
    FROM measurements AS one JOIN benchmarks ON benchmarks.id = one.benchmark_id
    WHERE plan->>'gate' IS NULL AND median_ns IS NOT NULL GROUP BY model_digest
    ORDER BY max(coalesce(started_at_unix_ns, 0)) DESC, model_digest"""
"""What has points: a model that was in gates only has none, as `_HISTORIES` has it."""


class TrendStore(StoreFile):
    """What was measured more than once, over all benchmarks."""

    def trend(self, measurement_id: str, most: int = 500) -> tuple[TrendPoint, ...]:
        """Return a measurement and its like in all benchmarks on all engines, oldest first; the newest `most`.

        Alike are those of the same model version, target, device and configuration, whatever the engine and its
        `options`, and whoever's target of that name it is.
        """
        with self._reading() as connection:
            found = rows(connection, _TREND, measurement_id, *possible_dates(time.time_ns()), most)
            return tuple(map(_point, reversed(found)))

    def histories(
        self,
        model_digest: str | None = None,
        target: str | None = None,
        engine: str | None = None,
        most: int = 500,
        fewest: int = 2,
    ) -> tuple[TrendHistory, ...]:
        """Return the histories of what has been measured `fewest` times or more, the newest `most` points of each.

        Of these only, where one is named; without gates. What differs in anything that was asked for is another
        history; only when to stop, and which values of inputs were drawn, may differ. So is what was imported, of each
        processor for itself. Of one's own the processor may differ: that a machine was replaced is to be told.
        """
        wanted = (model_digest, model_digest, target, target, engine, engine, *possible_dates(time.time_ns()), most)
        parted: dict[Hashable, list[tuple[Row, Configuration]]] = {}
        with self._reading() as connection:
            found = rows(connection, _HISTORIES, *wanted)
        for row in found:
            chosen = CONFIGURATION.from_text(row["configuration"])
            parted.setdefault(_likeness(row, chosen), []).append((row, chosen))
        return tuple(_history(alike) for alike in parted.values() if len(alike) >= fewest)

    def misdated(
        self, model_digest: str | None = None, target: str | None = None, engine: str | None = None
    ) -> tuple[Misdated, ...]:
        """Return the benchmarks of one's own that have dates that cannot be, the latest first; of these only, likewise.

        They were measured with a clock that was wrong, or the clock is wrong now.
        """
        with self._reading() as connection:
            return find_misdated(connection, model_digest, target, engine)

    def measured_models(self) -> Mapping[str, str]:
        """Return the names of the versions of which there are points, if only one, newest first, by digest."""
        with self._reading() as connection:
            return {row["model_digest"]: row["name"] for row in rows(connection, _MODELS)}


def find_misdated(
    connection: duckdb.DuckDBPyConnection,
    model_digest: str | None = None,
    target: str | None = None,
    engine: str | None = None,
) -> tuple[Misdated, ...]:
    """Return what `TrendStore.misdated` does."""
    dates = possible_dates(time.time_ns())
    wanted = (model_digest, model_digest, target, target, engine, engine)
    found = rows(connection, _MISDATED, *dates, *dates, *dates, *dates, *wanted)
    return tuple(Misdated(row["id"], row["at_unix_ns"], row["points"]) for row in found)


def _likeness(row: Row, chosen: Configuration) -> Hashable:
    """What tells histories apart; that a busy one takes no points of another, `_HISTORIES` parts by it as well."""
    machine = (row["target"], row["imported"], row["cpu_model"] if row["imported"] else None)
    place = (row["model_digest"], machine, row["engine"], row["environment"])
    asked = (chosen.device, chosen.batch, chosen.place, chosen.streams, chosen.precision, chosen.hint, chosen.load)
    return (*place, *asked, chosen.requests, chosen.arrivals, chosen.inputs, tuple(sorted(chosen.options.items())))


def _history(found: Sequence[tuple[Row, Configuration]]) -> TrendHistory:
    newest, chosen = found[0]
    return TrendHistory(
        model_name=newest["model_name"],
        model_digest=newest["model_digest"],
        target=newest["target"],
        engine=newest["engine"],
        environment=newest["environment"],
        configuration=chosen,
        points=tuple(_point(row) for row, _ in reversed(found)),
    )


def _point(row: Row) -> TrendPoint:
    return TrendPoint(
        measurement_id=row["id"],
        benchmark_id=row["benchmark_id"],
        benchmark_name=row["benchmark_name"],
        imported=row["imported"],
        at_unix_ns=row["at_unix_ns"],
        engine=EngineRef(row["engine"], row["environment"], row["engine_version"]),
        options=json.loads(row["configuration"])["options"],
        status=Status(row["status"]),
        failure_kind=row["failure_kind"],
        median_ns=row["median_ns"],
        median_interval=_interval(row, "median_{}_ns", "median_interval_{}"),
        mean_ns=row["mean_ns"],
        throughput_items_per_s=row["throughput_items_per_s"],
        throughput_interval=_interval(row, "throughput_{}_items_per_s", "throughput_interval_{}"),
        effective_precision=row["effective_precision"],
        effective_threads=row["effective_threads"],
        input_set_sha256=row["input_set_sha256"],
        cpu_model=row["cpu_model"],
        reference_product_ns=row["reference_product_ns"],
        reference_stream_ns=row["reference_stream_ns"],
        disturbed=row["disturbed"],
    )


def _interval(row: Row, end: str, about: str) -> Interval | None:
    low, high = row[end.format("low")], row[end.format("high")]
    if low is None or high is None:
        return None
    return Interval(low, high, row[about.format("level")], IntervalMethod(row[about.format("method")]))
