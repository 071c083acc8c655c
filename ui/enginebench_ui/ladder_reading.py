"""What the page of ladders reads, kept in memory until the store changes."""

from enginebench_controller.ladder.results import Ladder, ladder_of
from enginebench_controller.store.ladders import LadderEntry
from enginebench_ui.keeping import kept, place, store_at


def ladders() -> tuple[LadderEntry, ...]:
    """Return all ladders, newest first."""
    return _ladders(*place())


def ladder(benchmark_id: str) -> Ladder:
    """Return one ladder with all its rungs. Raises `InputError` when there is none."""
    return _ladder(*place(), benchmark_id)


@kept(2)
def _ladders(path: str, generation: str) -> tuple[LadderEntry, ...]:
    return store_at(path).ladders()


@kept(16)
def _ladder(path: str, generation: str, benchmark_id: str) -> Ladder:
    store = store_at(path)
    benchmark = store.benchmark(benchmark_id)
    return ladder_of(benchmark, store.measurements(benchmark.id, with_blocks=True), store.models())
