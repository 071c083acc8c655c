"""The ladders among the benchmarks: those whose plan has rungs."""

from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Benchmark
from enginebench_controller.store.rows import from_benchmark_row
from enginebench_controller.store.statements import Row, rows


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
