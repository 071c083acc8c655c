"""Which lines are looked at together: the one that a page is based on, and those beside it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from enginebench_controller.records import Benchmark
from enginebench_ui.views.benchmark.lines import Line, alike, labelled
from enginebench_ui.views.benchmark.whole import WholeBenchmark
from enginebench_ui.views.magnitudes import benchmark_title
from enginebench_ui.views.text import instant

MOST_BESIDE = 7
"""So many lines stand beside the base unasked: with more, colours repeat and nothing is seen."""

_OF_THE_OTHER = "b"


@dataclass(frozen=True)
class Lines:
    """The lines to choose from, by key: those of the benchmark, and those of another one that it is compared with."""

    own: tuple[Line, ...]
    others: tuple[Line, ...]

    @property
    def by_key(self) -> Mapping[str, Line]:
        """All of them."""
        return {line.key: line for line in (*self.own, *self.others)}


def lines_to_choose(benchmark: WholeBenchmark, other: WholeBenchmark | None) -> Lines:
    """Return the lines with names under which they can stand beside each other."""
    theirs = other.lines if other else ()
    marked = tuple(replace(line, key=f"{_OF_THE_OTHER}{line.key}") for line in theirs)
    names = {other.id: _name(other.bundle.benchmark)} if other else {}
    named = labelled((*benchmark.lines, *marked), names)
    return Lines(named[: len(benchmark.lines)], named[len(benchmark.lines) :])


def default_base(lines: Sequence[Line]) -> Line:
    """Return the first line that has numbers, else the first one."""
    return next((line for line in lines if line.has_numbers), lines[0])


def default_beside(base: Line, lines: Lines) -> tuple[Line, ...]:
    """Return what stands beside the base unasked: its like in the other benchmark, else its own rivals.

    Its like is the same engine with the same settings, else the same engine, else whatever there is.
    """
    if not lines.others:
        return _first(line for line in alike(base, lines.own) if line.has_numbers)
    rest = lines.own if base in lines.others else lines.others
    same = [line for line in rest if line.key.removeprefix(_OF_THE_OTHER) == base.key.removeprefix(_OF_THE_OTHER)]
    same_engine = [line for line in rest if line.first.engine.name == base.first.engine.name]
    return _first(same or same_engine or rest)


def benchmark_options(benchmarks: Iterable[Benchmark]) -> dict[str, str]:
    """Return what to call benchmarks in a drop-down, by id."""
    return {one.id: f"{_name(one)} · {instant(one.created_at_unix_ns)} · {one.id}" for one in benchmarks}


def _first(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(lines)[:MOST_BESIDE]


def _name(benchmark: Benchmark) -> str:
    return f"{benchmark_title(benchmark.name)}"
