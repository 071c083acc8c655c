"""What the pages that order something read, kept in memory until the store changes."""

from collections.abc import Iterable, Mapping

from enginebench_controller.errors import InputError
from enginebench_controller.records import Benchmark
from enginebench_controller.store.cell_rows import Headline, MeasuredCell
from enginebench_ui.keeping import kept, place, store_at


def measured_cells(model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
    """Return the newest numbers of every configuration in which these versions were measured."""
    return _measured_cells(*place(), tuple(sorted(model_digests)))


def headlines(benchmark_ids: Iterable[str]) -> dict[str, Headline]:
    """Return what the measurements of benchmarks came to, by measurement id."""
    return {key: one for each in benchmark_ids for key, one in _headlines(*place(), each).items()}


def newest_benchmarks(most: int) -> tuple[Benchmark, ...]:
    """Return the newest benchmarks, the newest first."""
    return _newest_benchmarks(*place(), most)


def benchmark_or_none(named: str) -> Benchmark | None:
    """Return the benchmark that an address names; None where there is none."""
    return _benchmark_or_none(*place(), named)


@kept(16)
def _measured_cells(path: str, generation: str, model_digests: tuple[str, ...]) -> tuple[MeasuredCell, ...]:
    return store_at(path).measured_cells(model_digests)


@kept(16)
def _headlines(path: str, generation: str, benchmark_id: str) -> Mapping[str, Headline]:
    return store_at(path).headlines(benchmark_id)


@kept(16)
def _newest_benchmarks(path: str, generation: str, most: int) -> tuple[Benchmark, ...]:
    return tuple(one.entry.benchmark for one in store_at(path).benchmark_page("", most).listed)


@kept(16)
def _benchmark_or_none(path: str, generation: str, named: str) -> Benchmark | None:
    try:
        return store_at(path).benchmark(named)
    except InputError:
        return None
