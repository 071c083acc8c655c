"""Benchmarks in and out of the store: whole, by the page (searched and cut in SQL), and those that are ladders."""

from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Benchmark, Status
from enginebench_controller.store.measurements import BenchmarkEntry, to_entry
from enginebench_controller.store.rows import from_benchmark_row
from enginebench_controller.store.statements import Row, rows


@dataclass(frozen=True)
class Fastest:
    """The measurement of a benchmark with the largest throughput."""

    items_per_s: float
    model: str
    engine: str
    batch: int
    cores: int
    status: Status


@dataclass(frozen=True)
class ListedBenchmark:
    """A benchmark in a list; `fastest` is None where nothing has numbers."""

    entry: BenchmarkEntry
    fastest: Fastest | None


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


_MATCHING = """
    WITH said AS (
        SELECT benchmarks.id, created_at_unix_ns, lower(concat_ws(chr(10), benchmarks.id, name,
            string_agg(DISTINCT model_name, chr(10)), string_agg(DISTINCT engine, chr(10)),
            string_agg(DISTINCT target, chr(10)))) AS words
        FROM benchmarks LEFT JOIN measurements ON benchmark_id = benchmarks.id
        GROUP BY benchmarks.id, name, created_at_unix_ns
    ), matching AS (
        SELECT id, created_at_unix_ns, count(*) OVER () AS found
        FROM said WHERE coalesce(list_bool_and([contains(words, word) FOR word IN ?::VARCHAR[]]), true)
    )
    SELECT id, found, (SELECT count(*) FROM benchmarks) AS total
    FROM matching ORDER BY created_at_unix_ns DESC, id LIMIT ? OFFSET ?"""

# Ties go to the smallest id, so that the same store always gives the same answer.
_LISTED = """
    SELECT benchmarks.*, covered.* EXCLUDE (benchmark_id)
    FROM benchmarks LEFT JOIN (
        SELECT benchmark_id, histogram(status) AS counts,
            list(DISTINCT model_name ORDER BY model_name) AS models,
            list(DISTINCT engine ORDER BY engine) AS engines,
            list(DISTINCT target ORDER BY target) AS targets,
            first({'items_per_s': throughput_items_per_s, 'model': model_name, 'engine': engine, 'batch': batch,
                'cores': cores, 'status': status} ORDER BY throughput_items_per_s DESC, id)
                FILTER (throughput_items_per_s IS NOT NULL) AS fastest
        FROM measurements WHERE benchmark_id IN (SELECT unnest(?)) GROUP BY benchmark_id
    ) AS covered ON covered.benchmark_id = benchmarks.id
    WHERE benchmarks.id IN (SELECT unnest(?))
    ORDER BY created_at_unix_ns DESC, id"""

_RERUNS = "SELECT * FROM benchmarks WHERE rerun_of = ? ORDER BY created_at_unix_ns, id"

_COMPARABLE = """
    SELECT benchmarks.* FROM benchmarks JOIN (
        SELECT
            benchmark_id,
            bool_or(model_name IN (SELECT model_name FROM measurements WHERE benchmark_id = ?)) AS is_of_same_model
        FROM measurements WHERE throughput_items_per_s IS NOT NULL GROUP BY benchmark_id
    ) AS measured ON measured.benchmark_id = benchmarks.id
    WHERE id <> ? ORDER BY is_of_same_model DESC, created_at_unix_ns DESC, id LIMIT ?"""


def benchmark_page(connection: duckdb.DuckDBPyConnection, search: str, size: int, page: int) -> BenchmarkPage:
    """Return page `page`, counted from 1, of the benchmarks that contain every word of `search`, newest first.

    Searched are id, name, models, engines and targets; case does not matter.
    """
    words = search.lower().split()
    matching = rows(connection, _MATCHING, words, size, (page - 1) * size)
    if not matching:
        return BenchmarkPage((), 0, _total(connection))
    ids = [row["id"] for row in matching]
    listed = map(_listed, rows(connection, _LISTED, ids, ids))
    return BenchmarkPage(tuple(listed), matching[0]["found"], matching[0]["total"])


def relatives(connection: duckdb.DuckDBPyConnection, benchmark_id: str, most: int) -> Relatives:
    """Return the benchmarks that belong to one, of those that can be compared with it at most so many."""
    reruns = rows(connection, _RERUNS, benchmark_id)
    comparable = rows(connection, _COMPARABLE, benchmark_id, benchmark_id, most)
    return Relatives(tuple(map(from_benchmark_row, reruns)), tuple(map(from_benchmark_row, comparable)))


def _listed(row: Row) -> ListedBenchmark:
    found = row["fastest"]
    fastest = None if found is None else Fastest(**{**found, "status": Status(found["status"])})
    return ListedBenchmark(to_entry(row), fastest)


def _total(connection: duckdb.DuckDBPyConnection) -> int:
    return int(connection.execute("SELECT count(*) FROM benchmarks").fetchall()[0][0])


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


def ladders(connection: duckdb.DuckDBPyConnection) -> tuple[LadderEntry, ...]:
    """Return all ladders, newest first."""
    return tuple(map(_entry, rows(connection, _LADDERS)))


def _entry(row: Row) -> LadderEntry:
    return LadderEntry(
        benchmark=from_benchmark_row(row),
        kind=row["kind"],
        model=row["model"],
        target=row["target"],
        rungs=row["rungs"] or 0,
        numbered=row["numbered"],
    )
