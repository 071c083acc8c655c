"""What the page of ladders reads, kept in memory until the store changes."""

from pathlib import Path

from enginebench_controller.home import default_home
from enginebench_controller.ladder.results import Ladder, ladder_of
from enginebench_controller.store.ladders import LadderEntry
from enginebench_controller.store.store import Store
from enginebench_ui.keeping import kept
from enginebench_ui.reading import READ_TIMEOUT_S


def ladders() -> tuple[LadderEntry, ...]:
    """Return all ladders, newest first."""
    return _ladders(*_place())


def ladder(benchmark_id: str) -> Ladder:
    """Return one ladder with all its rungs. Raises `InputError` when there is none."""
    return _ladder(*_place(), benchmark_id)


def _store(path: str) -> Store:
    return Store(Path(path), timeout_s=READ_TIMEOUT_S)


def _place() -> tuple[str, str]:
    store = default_home().store
    return str(store.path), store.generation()


@kept(2)
def _ladders(path: str, generation: str) -> tuple[LadderEntry, ...]:
    return _store(path).ladders()


@kept(16)
def _ladder(path: str, generation: str, benchmark_id: str) -> Ladder:
    store = _store(path)
    benchmark = store.benchmark(benchmark_id)
    return ladder_of(benchmark, store.measurements(benchmark.id, with_blocks=False), store.models())
