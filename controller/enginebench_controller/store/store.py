"""The store as the rest of the controller sees it: records in, records out, one transaction a call."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from enginebench_controller.records import Benchmark, BlockSamples, Measurement, ModelVersion, TargetSnapshot
from enginebench_controller.store.backups import Upkeep
from enginebench_controller.store.benchmarks import BenchmarkStore, benchmark_meant, insert_benchmark, snapshots_of
from enginebench_controller.store.connection import DEFAULT_TIMEOUT_S
from enginebench_controller.store.lake.reading import OWN, only_read, open_all, reading_together
from enginebench_controller.store.measurements import MeasurementStore, insert_measurements, measurements_of
from enginebench_controller.store.models import ModelStore, with_ancestors
from enginebench_controller.store.naming import BY_ID, BY_NAME
from enginebench_controller.store.profiles import ProfileStore
from enginebench_controller.store.rows import to_model_row
from enginebench_controller.store.samples import SampleStore, samples_of
from enginebench_controller.store.searches import SearchStore
from enginebench_controller.store.sql_query import SqlStore
from enginebench_controller.store.statements import insert, rows
from enginebench_controller.store.tables import TableStore
from enginebench_controller.store.targets import TargetStore
from enginebench_controller.store.trends import TrendStore
from enginebench_proto.agreed.names import as_name

_NAMED = {"benchmark": "benchmarks", "profile": "profiles"}
_KINDS = {**_NAMED, "measurement": "measurements"}
"""Tables by the word for what is in them: what has a name, and all that has an id."""

_BEGUN = """
    SELECT id, name FROM {} WHERE starts_with(id, $1) OR starts_with(name, $1)
    ORDER BY created_at_unix_ns DESC, id LIMIT $2"""


@dataclass(frozen=True)
class BenchmarkBundle:
    """A benchmark with all that belongs to it, as it travels between stores; `samples` by measurement id.

    `models` are the versions that were measured and those they were made from: whose outputs are compared follows.
    """

    benchmark: Benchmark
    measurements: tuple[Measurement, ...]
    snapshots: tuple[TargetSnapshot, ...]
    samples: Mapping[str, tuple[BlockSamples, ...]] = field(default_factory=dict)
    models: tuple[ModelVersion, ...] = ()


class Store(
    TargetStore,
    ModelStore,
    BenchmarkStore,
    MeasurementStore,
    SampleStore,
    ProfileStore,
    SearchStore,
    TrendStore,
    SqlStore,
    TableStore,
    Upkeep,
):
    """Everything that is kept, each subject in a module of its own; here is what spans several of them.

    The file is made by the first write, and one that is not there reads as empty.
    """

    def add_bundles(self, bundles: Iterable[BenchmarkBundle]) -> tuple[str, ...]:
        """Keep whole benchmarks, all or none; return the ids that brought something new.

        What is imported adds nothing to a benchmark of one's own: whose numbers those are, nothing would tell.
        """
        with self._writing() as connection:
            new: dict[str, None] = {}
            for bundle in bundles:
                if bundle.benchmark.imported and _is_own(connection, bundle.benchmark.id):
                    continue
                is_new = insert_benchmark(connection, bundle.benchmark, bundle.snapshots)
                measured = [(one, bundle.samples.get(one.id, ())) for one in bundle.measurements]
                # A version that is there keeps its name: it is what the owner of this store calls it.
                new_models = [insert(connection, "models", to_model_row(one)) for one in bundle.models]
                if insert_measurements(connection, measured) or is_new or any(new_models):
                    new[bundle.benchmark.id] = None
            return tuple(new)

    def bundle(self, benchmark_id: str, *, with_samples: bool = True) -> BenchmarkBundle:
        """Return one benchmark with everything as of one moment, its samples where wanted. Raises like `benchmark`."""
        with self._reading() as connection:
            benchmark = benchmark_meant(connection, benchmark_id)
            found = measurements_of(connection, benchmark.id, with_blocks=True)
            return BenchmarkBundle(
                benchmark,
                found,
                snapshots_of(connection, benchmark.id),
                samples_of(connection, [one.id for one in found]) if with_samples else {},
                with_ancestors(connection, [one.model_digest for one in found]),
            )

    def ids_by_kind(self, named: str) -> Mapping[str, tuple[str, ...]]:
        """Return the ids that `named` can mean, by "benchmark", "profile" and "measurement", newest first.

        By id, else by name, else by the start of an id.
        """
        named = as_name(named)
        with self._reading() as connection:
            for way in BY_NAME if named else ():
                kinds = _KINDS if way in BY_ID else _NAMED
                found = {kind: _ids(connection, table, way, named) for kind, table in kinds.items()}
                if any(found.values()):
                    return {kind: ids for kind, ids in found.items() if ids}
        return {}

    def begun_with(self, typed: str, kinds: Sequence[str], most: int = 50) -> tuple[str, ...]:
        """Return the ids and names that begin so of the newest benchmarks or profiles: `kinds` of `ids_by_kind`."""
        with self._reading() as connection:
            found = [row for kind in kinds for row in rows(connection, _BEGUN.format(_NAMED[kind]), typed, most)]
        return tuple(one for row in found for one in (row["id"], row["name"]) if one.startswith(typed))

    def stored_ids(self, among: Sequence[str]) -> frozenset[str]:
        """Return which of these very ids are those of benchmarks, measurements or profiles that are there."""
        query = " UNION ALL ".join(
            f"SELECT id FROM {table} WHERE id IN (SELECT unnest($1))"  # noqa: S608
            for table in _KINDS.values()
        )
        with self._reading() as connection:
            return frozenset(row["id"] for row in rows(connection, query, list(among)))


class LakeStore(Store):
    """Reads from lakes, and from the own file where `reads` has the word `own`; nothing can be written through it."""

    def __init__(self, path: Path, reads: Sequence[str], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(path, timeout_s)
        self.reads = tuple(dict.fromkeys(reads))

    def generation(self) -> str:
        """As of a store; lakes are looked at once a second."""
        versions = [one.version for one in open_all(self.reads)]
        return " ".join([super().generation() if OWN in self.reads else "", *versions])

    def _reading(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        return reading_together(self.path, self.reads, self._timeout_s)

    def _writing(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        raise only_read(self.reads)


def _is_own(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> bool:
    return bool(rows(connection, "SELECT id FROM benchmarks WHERE id = ? AND NOT imported", benchmark_id))


def _ids(connection: duckdb.DuckDBPyConnection, table: str, way: str, named: str) -> tuple[str, ...]:
    newest = "started_at_unix_ns" if table == "measurements" else "created_at_unix_ns"
    query = f"SELECT id FROM {table} WHERE {way} ORDER BY {newest} DESC, id"  # noqa: S608
    return tuple(row["id"] for row in rows(connection, query, named))
