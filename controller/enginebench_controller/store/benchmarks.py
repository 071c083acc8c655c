"""Benchmarks in and out of the store: whole, by the page (searched and cut in SQL), and those that are ladders."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Benchmark, Search, Status, TargetSnapshot
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.measurements import delete_measurements
from enginebench_controller.store.naming import meant, only, unknown
from enginebench_controller.store.rows import (
    from_benchmark_row,
    from_search_row,
    from_snapshot_row,
    to_benchmark_row,
    to_snapshot_row,
)
from enginebench_controller.store.statements import Row, insert, insert_all, rows


@dataclass(frozen=True)
class BenchmarkEntry:
    """A benchmark as it stands in a list: with what it covered, and how many measurements ended how."""

    benchmark: Benchmark
    counts: Mapping[Status, int]
    models: tuple[str, ...]
    engines: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def measurements(self) -> int:
        """Number of measurements, however they ended."""
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        """Number of measurements without numbers because they failed."""
        return self.counts.get(Status.FAILED, 0)

    @property
    def cancelled(self) -> int:
        """Number of measurements that were broken off, or not begun, when their benchmark was."""
        return self.counts.get(Status.CANCELLED, 0)


@dataclass(frozen=True)
class Fastest:
    """The measurement of a benchmark with the largest throughput, of those that count."""

    id: str
    benchmark_id: str
    items_per_s: float
    model: str
    engine: str
    batch: int
    cores: int
    status: Status
    cluster: str = ""


@dataclass(frozen=True)
class ListedBenchmark:
    """A benchmark in a list, or the newest of so many `steps` of a search, with what all of them covered.

    `fastest` is None where nothing that counts has numbers.
    """

    entry: BenchmarkEntry
    fastest: Fastest | None
    search: Search | None = None
    steps: int = 1


@dataclass(frozen=True)
class BenchmarkPage:
    """One page of a list: `found` benchmarks match the search, of `total` in the store."""

    listed: tuple[ListedBenchmark, ...]
    found: int
    total: int


@dataclass(frozen=True)
class Relatives:
    """What belongs to a benchmark: its re-runs, oldest first, and others with numbers to compare it with.

    Of these, those of a model of the same name come first, then the newest.
    """

    reruns: tuple[Benchmark, ...]
    comparable: tuple[Benchmark, ...]


@dataclass(frozen=True)
class LadderEntry:
    """A ladder as it stands in a list.

    `model` and `target` are None where nothing tells. Of its `rungs`, `numbered` have numbers.
    """

    benchmark: Benchmark
    kind: str
    model: str | None
    target: str | None
    rungs: int
    numbered: int


_COVERED = """
        SELECT benchmark_id, histogram(status) AS counts,
            list(DISTINCT model_name ORDER BY model_name) AS models,
            list(DISTINCT engine ORDER BY engine) AS engines,
            list(DISTINCT target ORDER BY target) AS targets"""

_ALL = f"""
    SELECT benchmarks.*, covered.* EXCLUDE (benchmark_id)
    FROM benchmarks LEFT JOIN ({_COVERED}
        FROM measurements GROUP BY benchmark_id
    ) AS covered ON covered.benchmark_id = benchmarks.id
    ORDER BY created_at_unix_ns DESC, id"""  # noqa: S608

# The steps of a search are one entry, which is as new as the newest of them. Of an import the search is elsewhere.
_MATCHING = """
    WITH said AS (
        SELECT coalesce(searches.id, benchmarks.id) AS id, any_value(searches.id) AS search,
            list(DISTINCT benchmarks.id) AS steps, max(benchmarks.created_at_unix_ns) AS created_at_unix_ns,
            lower(concat_ws(chr(10), any_value(searches.id), any_value(searches.name),
                string_agg(DISTINCT benchmarks.id, chr(10)), string_agg(DISTINCT benchmarks.name, chr(10)),
                string_agg(DISTINCT model_name, chr(10)), string_agg(DISTINCT engine, chr(10)),
                string_agg(DISTINCT target, chr(10)))) AS words
        FROM benchmarks
        LEFT JOIN searches ON searches.id = (plan->>'$.search.id') AND NOT imported
        LEFT JOIN measurements ON benchmark_id = benchmarks.id
        GROUP BY 1
    ), matching AS (
        SELECT id, search, steps, created_at_unix_ns, count(*) OVER () AS found
        FROM said WHERE coalesce(list_bool_and([contains(words, word) FOR word IN ?::VARCHAR[]]), true)
    )
    SELECT id, search, steps, found, (SELECT count(*) FROM said) AS total
    FROM matching ORDER BY created_at_unix_ns DESC, id LIMIT ? OFFSET ?"""

_ENTRIES = """
    SELECT count(DISTINCT coalesce(searches.id, benchmarks.id))
    FROM benchmarks LEFT JOIN searches ON searches.id = (plan->>'$.search.id') AND NOT imported"""

# Ties go to the smallest id, so that the same store always gives the same answer.
_LISTED = f"""
    SELECT benchmarks.*, covered.* EXCLUDE (benchmark_id)
    FROM benchmarks LEFT JOIN ({_COVERED},
            first({{'id': id, 'benchmark_id': benchmark_id, 'items_per_s': throughput_items_per_s, 'model': model_name,
                'engine': engine, 'batch': batch, 'cores': cores, 'cluster': cluster, 'status': status}}
                ORDER BY throughput_items_per_s DESC, id)
                FILTER (throughput_items_per_s IS NOT NULL AND NOT list_contains(?::VARCHAR[], id)) AS fastest
        FROM measurements WHERE benchmark_id IN (SELECT unnest(?)) GROUP BY benchmark_id
    ) AS covered ON covered.benchmark_id = benchmarks.id
    WHERE benchmarks.id IN (SELECT unnest(?))
    ORDER BY created_at_unix_ns DESC, id"""  # noqa: S608

_RERUNS = "SELECT * FROM benchmarks WHERE rerun_of = ? ORDER BY created_at_unix_ns, id"

_COMPARABLE = """
    SELECT benchmarks.* FROM benchmarks JOIN (
        SELECT
            benchmark_id,
            bool_or(model_name IN (SELECT model_name FROM measurements WHERE benchmark_id = ?)) AS is_of_same_model
        FROM measurements WHERE throughput_items_per_s IS NOT NULL GROUP BY benchmark_id
    ) AS measured ON measured.benchmark_id = benchmarks.id
    WHERE id <> ? ORDER BY is_of_same_model DESC, created_at_unix_ns DESC, id LIMIT ?"""

# The first model of the plan is the one as given; rungs run versions that were made from it.
_LADDERS = """
    SELECT benchmarks.*, plan->>'$.ladder' AS kind, json_array_length(plan, '$.rungs') AS rungs,
        coalesce(models.name, measured.model) AS model, coalesce(measured.target, plan->>'$.targets[0]') AS target,
        coalesce(numbered, 0) AS numbered
    FROM benchmarks
    LEFT JOIN models ON digest = plan->>'$.models[0]'
    LEFT JOIN (
        SELECT benchmark_id, first(model_name ORDER BY length(model_name), position) AS model,
            first(target ORDER BY position) AS target, count(throughput_items_per_s) AS numbered
        FROM measurements GROUP BY benchmark_id
    ) AS measured ON benchmark_id = benchmarks.id
    WHERE plan->>'$.ladder' IS NOT NULL
    ORDER BY benchmarks.created_at_unix_ns DESC, id"""

_ENGINES = """
    SELECT engine FROM (
        SELECT engine, created_at_unix_ns FROM measurements JOIN benchmarks ON benchmarks.id = benchmark_id
        UNION ALL SELECT engine, created_at_unix_ns FROM profiles
    ) GROUP BY engine ORDER BY min(created_at_unix_ns), engine"""


class BenchmarkStore(StoreFile):
    """What is kept of benchmarks; each is removed with its measurements."""

    def add_benchmark(self, benchmark: Benchmark, snapshots: Iterable[TargetSnapshot] = ()) -> bool:
        """Keep a benchmark and what its targets said of themselves as it began; False when it is there already."""
        with self._writing() as connection:
            return insert_benchmark(connection, benchmark, snapshots)

    def remove_benchmark(self, benchmark_id: str) -> None:
        """Remove a benchmark with its measurements, their blocks and samples. Raises `InputError` for an unknown id."""
        with self._writing() as connection:
            delete_measurements(connection, benchmark_id)
            connection.execute("DELETE FROM benchmark_snapshots WHERE benchmark_id = ?", [benchmark_id])
            query = "DELETE FROM benchmarks WHERE id = ? RETURNING id"
            removed = connection.execute(query, [benchmark_id]).fetchall()
        if not removed:
            raise unknown(benchmark_id)

    def benchmarks(self) -> tuple[BenchmarkEntry, ...]:
        """Return all benchmarks, newest first, with what they covered and how their measurements ended."""
        with self._reading() as connection:
            return tuple(map(_entry, rows(connection, _ALL)))

    def benchmark(self, named: str) -> Benchmark:
        """Return the benchmark with this id, else this name, else this start of an id.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            return benchmark_meant(connection, named)

    def benchmark_snapshots(self, benchmark_id: str) -> tuple[TargetSnapshot, ...]:
        """Return what the targets of a benchmark said when it ran, by target."""
        with self._reading() as connection:
            return snapshots_of(connection, benchmark_id)

    def benchmark_page(
        self, search: str = "", size: int = 20, page: int = 1, wrong: Collection[str] = ()
    ) -> BenchmarkPage:
        """Return page `page` of those that contain every word of `search`, newest first; only these are read.

        Pages count from 1. Searched are id, name, models, engines and targets; case does not matter. The steps of a
        search stand together. The measurements `wrong` are the fastest of nothing.
        """
        with self._reading() as connection:
            matching = rows(connection, _MATCHING, search.lower().split(), size, (page - 1) * size)
            if not matching:
                ((total,),) = connection.execute(_ENTRIES).fetchall()
                return BenchmarkPage((), 0, int(total))
            ids = [step for row in matching for step in row["steps"]]
            steps = [_listed(row) for row in rows(connection, _LISTED, list(wrong), ids, ids)]
            query = "SELECT * FROM searches WHERE id IN (SELECT unnest(?))"
            named = [row["search"] for row in matching if row["search"]]
            searches = {row["id"]: from_search_row(row) for row in rows(connection, query, named)}
        listed = (
            _together([one for one in steps if one.entry.benchmark.id in row["steps"]], searches.get(row["search"]))
            for row in matching
        )
        return BenchmarkPage(tuple(listed), matching[0]["found"], matching[0]["total"])

    def relatives(self, benchmark_id: str, most: int = 100) -> Relatives:
        """Return the re-runs of a benchmark, and the newest `most` others that it can be compared with."""
        with self._reading() as connection:
            reruns = rows(connection, _RERUNS, benchmark_id)
            comparable = rows(connection, _COMPARABLE, benchmark_id, benchmark_id, most)
        return Relatives(tuple(map(from_benchmark_row, reruns)), tuple(map(from_benchmark_row, comparable)))

    def engine_names(self) -> tuple[str, ...]:
        """Return the names of all engines that anything was measured or profiled with, the one met first first."""
        with self._reading() as connection:
            return tuple(row["engine"] for row in rows(connection, _ENGINES))

    def ladders(self) -> tuple[LadderEntry, ...]:
        """Return all ladders, newest first."""
        with self._reading() as connection:
            return tuple(map(_ladder, rows(connection, _LADDERS)))


def insert_benchmark(
    connection: duckdb.DuckDBPyConnection, benchmark: Benchmark, snapshots: Iterable[TargetSnapshot]
) -> bool:
    """Add a benchmark with what its targets said of themselves; False, and nothing done, when it is there."""
    if not insert(connection, "benchmarks", to_benchmark_row(benchmark)):
        return False
    seen = {one.target: {"benchmark_id": benchmark.id} | to_snapshot_row(one) for one in snapshots}
    insert_all(connection, "benchmark_snapshots", list(seen.values()))
    return True


def benchmark_meant(connection: duckdb.DuckDBPyConnection, named: str) -> Benchmark:
    """Return the benchmark that `named` means. Raises like `BenchmarkStore.benchmark`."""
    return only(tuple(map(from_benchmark_row, meant(connection, "benchmarks", named))), named, connection=connection)


def snapshots_of(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> tuple[TargetSnapshot, ...]:
    """Return what the targets of a benchmark said when it ran, by target."""
    query = "SELECT * FROM benchmark_snapshots WHERE benchmark_id = ? ORDER BY target"
    return tuple(map(from_snapshot_row, rows(connection, query, benchmark_id)))


def _entry(row: Row) -> BenchmarkEntry:
    counts: Mapping[str, int] = row["counts"] or {}
    return BenchmarkEntry(
        benchmark=from_benchmark_row(row),
        counts={Status(status): count for status, count in counts.items()},
        models=tuple(row["models"] or ()),
        engines=tuple(row["engines"] or ()),
        targets=tuple(row["targets"] or ()),
    )


def _listed(row: Row) -> ListedBenchmark:
    found = row["fastest"]
    fastest = None if found is None else Fastest(**{**found, "status": Status(found["status"])})
    return ListedBenchmark(_entry(row), fastest)


def _together(steps: Sequence[ListedBenchmark], search: Search | None) -> ListedBenchmark:
    """A benchmark as it is, or the steps of a search, newest first, as one."""
    if search is None:
        return steps[0]
    entries = [one.entry for one in steps]
    entry = BenchmarkEntry(
        benchmark=entries[0].benchmark,
        counts=sum((Counter(one.counts) for one in entries), Counter()),
        models=tuple(sorted({name for one in entries for name in one.models})),
        engines=tuple(sorted({name for one in entries for name in one.engines})),
        targets=tuple(sorted({name for one in entries for name in one.targets})),
    )
    fastest = max((one.fastest for one in steps if one.fastest), key=lambda one: one.items_per_s, default=None)
    return ListedBenchmark(entry, fastest, search, len(steps))


def _ladder(row: Row) -> LadderEntry:
    return LadderEntry(
        benchmark=from_benchmark_row(row),
        kind=row["kind"],
        model=row["model"],
        target=row["target"],
        rungs=row["rungs"] or 0,
        numbered=row["numbered"],
    )
