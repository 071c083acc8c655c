"""The store as the rest of the controller sees it: records in, records out, one transaction a call."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from enginebench_controller.records import (
    Benchmark,
    BlockSamples,
    Measurement,
    TargetSnapshot,
)
from enginebench_controller.store import benchmarks, measurements
from enginebench_controller.store.backups import Upkeep
from enginebench_controller.store.benchmarks import BenchmarkPage, LadderEntry, Relatives
from enginebench_controller.store.measurements import BenchmarkEntry, Headline, MeasuredCell
from enginebench_controller.store.models import ModelStore
from enginebench_controller.store.naming import only, unknown
from enginebench_controller.store.profiles import ProfileStore
from enginebench_controller.store.samples import SampleStore, samples_of
from enginebench_controller.store.sql_query import SqlStore
from enginebench_controller.store.tables import TableStore
from enginebench_controller.store.targets import TargetStore
from enginebench_controller.store.trends import TrendStore


@dataclass(frozen=True)
class BenchmarkBundle:
    """A benchmark with all that belongs to it, as it travels between stores; `samples` by measurement id."""

    benchmark: Benchmark
    measurements: tuple[Measurement, ...]
    snapshots: tuple[TargetSnapshot, ...]
    samples: Mapping[str, tuple[BlockSamples, ...]] = field(default_factory=dict)


class Store(TargetStore, ModelStore, SampleStore, ProfileStore, TrendStore, SqlStore, TableStore, Upkeep):
    """Everything that is kept, in the DuckDB file at `path`.

    Making a Store touches nothing; the file is made by the first write, and one that is not there reads as empty.
    Nothing stays open between calls, so any number of processes and threads may use stores on one path. Every method
    raises `StoreError` when the file cannot be used, after waiting at most `timeout_s` for others.
    """

    def add_benchmark(self, benchmark: Benchmark, snapshots: Iterable[TargetSnapshot] = ()) -> bool:
        """Keep a benchmark and what its targets said of themselves as it began; False when it is there already."""
        with self._writing() as connection:
            return measurements.insert_benchmark(connection, benchmark, snapshots)

    def add_measurement(self, measurement: Measurement, samples: Iterable[BlockSamples] = ()) -> bool:
        """Keep a measurement with its raw samples; durable on return. False when it is there already.

        Samples are taken from the iterable block by block: memory does not grow with their number. Raises
        `StoreError` also when its benchmark is not there.
        """
        with self._writing() as connection:
            return measurements.insert_measurement(connection, measurement, samples)

    def add_bundles(self, bundles: Iterable[BenchmarkBundle]) -> tuple[str, ...]:
        """Keep whole benchmarks, all or none; return the ids that brought something new."""
        with self._writing() as connection:
            new: dict[str, None] = {}
            for bundle in bundles:
                added = [measurements.insert_benchmark(connection, bundle.benchmark, bundle.snapshots)]
                added += [
                    measurements.insert_measurement(connection, one, bundle.samples.get(one.id, ()))
                    for one in bundle.measurements
                ]
                new.update({bundle.benchmark.id: None} if any(added) else {})
            return tuple(new)

    def benchmarks(self) -> tuple[BenchmarkEntry, ...]:
        """Return all benchmarks, newest first, with what they covered and how their measurements ended."""
        with self._reading() as connection:
            return measurements.benchmarks(connection)

    def benchmark(self, named: str) -> Benchmark:
        """Return the benchmark with this id, else this name, else this start of an id.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            found = measurements.matching_benchmarks(connection, named) if named else ()
        return only(found, named)

    def benchmark_snapshots(self, benchmark_id: str) -> tuple[TargetSnapshot, ...]:
        """Return what the targets of a benchmark said when it ran, by target."""
        with self._reading() as connection:
            return measurements.benchmark_snapshots(connection, benchmark_id)

    def measurements(self, benchmark_id: str, *, with_blocks: bool = True) -> tuple[Measurement, ...]:
        """Return the measurements of a benchmark in the order they were stored, their blocks only where wanted."""
        with self._reading() as connection:
            return measurements.measurements(connection, benchmark_id, with_blocks=with_blocks)

    def measurement(self, named: str) -> Measurement:
        """Return the measurement with this id, else this start of an id, with its blocks.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            found = measurements.matching_measurements(connection, named) if named else ()
        return only(found, named, "measurement")

    def ids_by_kind(self, named: str) -> Mapping[str, tuple[str, ...]]:
        """Return the ids that `named` can mean, by "benchmark", "profile" and "measurement", newest first."""
        with self._reading() as connection:
            return measurements.ids_by_kind(connection, named) if named else {}

    def stored_ids(self, among: Sequence[str]) -> frozenset[str]:
        """Return which of these very ids are those of benchmarks, measurements or profiles that are there."""
        with self._reading() as connection:
            return measurements.stored_ids(connection, among)

    def bundle(self, benchmark_id: str, *, with_samples: bool = True) -> BenchmarkBundle:
        """Return one benchmark with everything as of one moment, its samples where wanted. Raises like `benchmark`."""
        with self._reading() as connection:
            benchmark = only(measurements.matching_benchmarks(connection, benchmark_id), benchmark_id)
            found = measurements.measurements(connection, benchmark.id, with_blocks=True)
            return BenchmarkBundle(
                benchmark,
                found,
                measurements.benchmark_snapshots(connection, benchmark.id),
                {one.id: samples_of(connection, one.id) for one in found} if with_samples else {},
            )

    def benchmark_page(self, search: str = "", size: int = 20, page: int = 1) -> BenchmarkPage:
        """Return page `page` of those that contain every word of `search`, newest first; only these are read."""
        with self._reading() as connection:
            return benchmarks.benchmark_page(connection, search, size, page)

    def relatives(self, benchmark_id: str, most: int = 100) -> Relatives:
        """Return the re-runs of a benchmark, and the newest `most` others that it can be compared with."""
        with self._reading() as connection:
            return benchmarks.relatives(connection, benchmark_id, most)

    def measured_cells(self, model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
        """Return the newest numbers of every configuration in which these versions were measured."""
        with self._reading() as connection:
            return measurements.measured_cells(connection, model_digests)

    def headlines(self, benchmark_id: str) -> Mapping[str, Headline]:
        """Return how the measurements of a benchmark ended, with their first numbers, by id; none for an unknown id."""
        with self._reading() as connection:
            return measurements.headlines(connection, benchmark_id)

    def remove_benchmark(self, benchmark_id: str) -> None:
        """Remove a benchmark with its measurements, their blocks and samples. Raises `InputError` for an unknown id."""
        with self._writing() as connection:
            removed = measurements.delete_benchmark(connection, benchmark_id)
        if not removed:
            raise unknown(benchmark_id)

    def ladders(self) -> tuple[LadderEntry, ...]:
        """Return all ladders, newest first."""
        with self._reading() as connection:
            return benchmarks.ladders(connection)
