"""Searches in and out of the store. Their steps are benchmarks like all others, and name the search in their plans."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from enginebench_controller.records import Benchmark, Search
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.measurements import delete_measurements
from enginebench_controller.store.naming import meant, only, unknown
from enginebench_controller.store.rows import from_benchmark_row, from_search_row, to_json, to_search_row
from enginebench_controller.store.statements import insert, rows

_STEPS = """
    SELECT * FROM benchmarks WHERE plan->>'$.search.id' = ? AND NOT imported
    ORDER BY (plan->>'$.search.step')::INTEGER, created_at_unix_ns, id"""


def search_of(benchmark: Benchmark) -> str:
    """The id of the search that a benchmark is a step of; "" for none, and for what somebody else wrote there."""
    named = None if benchmark.imported else benchmark.plan.get("search")  # searches stay where they are
    return str(named.get("id", "")) if isinstance(named, Mapping) else ""


def digests_of(steps: Sequence[Benchmark]) -> dict[str, str]:
    """The model versions, by digest, that the names meant when a search of these steps began."""
    return {name: digest for one in steps for name, digest in (one.plan.get("digests") or {}).items()}


class SearchStore(StoreFile):
    """What is kept of searches."""

    def add_search(self, search: Search) -> bool:
        """Keep a search that begins; False when it is there already."""
        with self._writing() as connection:
            return insert(connection, "searches", to_search_row(search))

    def search(self, named: str) -> Search:
        """Return the search with this id, else this name, else this start of an id.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            return _meant(connection, named)

    def searches_meant(self, named: str) -> tuple[Search, ...]:
        """Return those that a name means in the same ways; none where it means none."""
        with self._reading() as connection:
            return tuple(map(from_search_row, meant(connection, "searches", named)))

    def searches(self) -> tuple[Search, ...]:
        """Return all searches, newest first."""
        with self._reading() as connection:
            found = rows(connection, "SELECT * FROM searches ORDER BY created_at_unix_ns DESC, id")
            return tuple(map(from_search_row, found))

    def steps_of(self, search_id: str) -> tuple[Benchmark, ...]:
        """Return the benchmarks of a search in the order of its steps; one that was begun twice is there twice."""
        with self._reading() as connection:
            return tuple(map(from_benchmark_row, rows(connection, _STEPS, search_id)))

    def skip_in_search(self, search_id: str, candidate: str, reason: str) -> None:
        """Keep why a candidate comes to no benchmark."""
        with self._writing() as connection:
            skipped = dict(_meant(connection, search_id).skipped) | {candidate: reason}
            connection.execute("UPDATE searches SET skipped = ? WHERE id = ?", [to_json(skipped), search_id])

    def answer_search(self, search_id: str, answer: Mapping[str, Any]) -> bool:
        """Set the answer, once; False when there is one already."""
        query = "UPDATE searches SET answer = ?, ended_at_unix_ns = ? WHERE id = ? AND answer IS NULL RETURNING id"
        with self._writing() as connection:
            return bool(connection.execute(query, [to_json(dict(answer)), time.time_ns(), search_id]).fetchall())

    def remove_search(self, search_id: str) -> None:
        """Remove a search with its steps and all their measurements. Raises `InputError` for an unknown id."""
        with self._writing() as connection:
            for step in rows(connection, _STEPS, search_id):
                delete_measurements(connection, step["id"])
                connection.execute("DELETE FROM benchmark_snapshots WHERE benchmark_id = ?", [step["id"]])
                connection.execute("DELETE FROM benchmarks WHERE id = ?", [step["id"]])
            removed = connection.execute("DELETE FROM searches WHERE id = ? RETURNING id", [search_id]).fetchall()
        if not removed:
            raise unknown(search_id, "search")


def _meant(connection: duckdb.DuckDBPyConnection, named: str) -> Search:
    return only(tuple(map(from_search_row, meant(connection, "searches", named))), named, "search", connection)
