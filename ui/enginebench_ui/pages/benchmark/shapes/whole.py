"""A whole benchmark, shaped once for all that is shown of it, and which of its lines are looked at together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from enginebench_controller.records import Benchmark, Measurement, ModelVersion, OutputCheck
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_controller.verdicts.across import are_many
from enginebench_controller.verdicts.doubts import is_trusted
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.pairing import pairs_within
from enginebench_controller.verdicts.parity import engine_label, in_reading_order, unequal_settings
from enginebench_ui.pages.benchmark.shapes.lines import GridCell, Line, alike, labelled, lines_of
from enginebench_ui.pages.benchmark.shapes.measurements import (
    FailureView,
    failure_views,
    measurement_rows,
    process_rows,
)
from enginebench_ui.shared.text import Row, benchmark_title, instant


def of_originals(measurements: Iterable[Measurement], models: Iterable[ModelVersion]) -> tuple[Measurement, ...]:
    """Return the measurements as those of the versions that the planner made copies of for other batches.

    Of versions with the same name each is named with the start of its digest. `models` are those of the store.
    """
    known = {model.digest: model for model in models}
    placed = [_of_original(one, known) for one in measurements]
    namesakes = Counter(name for name, _ in {(one.model_name, one.model_digest) for one in placed})
    return tuple(_told_apart(one) if namesakes[one.model_name] > 1 else one for one in placed)


def _of_original(one: Measurement, known: Mapping[str, ModelVersion]) -> Measurement:
    copy = known.get(one.model_digest)
    if copy is None or copy.original_digest == copy.digest:
        return one
    original = known.get(copy.original_digest)
    name = original.name if original else one.model_name.removesuffix(f"-batch{one.configuration.batch}")
    return replace(one, model_digest=copy.original_digest, model_name=name)


def _told_apart(one: Measurement) -> Measurement:
    return replace(one, model_name=f"{one.model_name} {one.model_digest[:6]}")


@dataclass(frozen=True)
class WholeBenchmark:
    """A benchmark with its measurements, without samples, or what one `target` of many has of it.

    The bundle is as it was stored; `measurements`, in the same order, and all that is made of them take copies of a
    model for other batches for the model itself. `checks` of outputs are by measurement id.
    """

    bundle: BenchmarkBundle
    measurements: tuple[Measurement, ...]
    checks: Mapping[str, OutputCheck]
    is_comparable: bool
    """Whether two of its measurements did the same work."""
    target: str = ""

    @property
    def is_of_many(self) -> bool:
        """Whether it is on so many targets that nobody reads a line of each."""
        return are_many(self.measurements)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """What is drawn as one."""
        return lines_of(self.measurements)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """A row a measurement."""
        return measurement_rows(in_reading_order(self.measurements), (), self.checks)

    @cached_property
    def processes(self) -> tuple[Row, ...]:
        """A row a process."""
        return process_rows(in_reading_order(self.measurements))

    @cached_property
    def failures(self) -> tuple[FailureView, ...]:
        """What failed, what failed alike together."""
        return failure_views(self.measurements)

    @cached_property
    def unequal(self) -> tuple[str, ...]:
        """Where engines did not really run the same."""
        return unequal_settings(self.measurements)

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """What is wrong with outputs, by measurement id."""
        return {identity: check.problem for identity, check in self.checks.items() if check.problem}

    @property
    def wrong(self) -> tuple[tuple[str, str], ...]:
        """Whose outputs are wrong, and what is wrong with them; each once, though many configurations share it."""
        found = ((one, self.problems.get(one.id)) for one in self.measurements)
        return tuple(dict.fromkeys((f"{one.model_name} on {engine_label(one)}", why) for one, why in found if why))

    @property
    def id(self) -> str:
        """The benchmark's id."""
        return self.bundle.benchmark.id

    @property
    def samples(self) -> int:
        """How many raw samples it has."""
        return sum(one.latency.samples + one.latency.excluded for one in self.measurements if one.latency)


def shape(bundle: BenchmarkBundle, models: Iterable[ModelVersion], target: str = "") -> WholeBenchmark:
    """Shape a benchmark, or what a target has of it; `models` tell which versions are to compute the same.

    `models` are all those of the store.
    """
    known = tuple(models)
    if target:
        own = tuple(one for one in bundle.measurements if one.target == target)
        bundle = replace(
            bundle, measurements=own, snapshots=tuple(one for one in bundle.snapshots if one.target == target)
        )
    return WholeBenchmark(
        bundle=bundle,
        measurements=of_originals(bundle.measurements, known),
        checks=check_outputs(bundle.measurements, known),
        is_comparable=any(pairs_within(bundle.measurements, known)),
        target=target,
    )


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


def default_base(lines: Sequence[Line], problems: Mapping[str, str]) -> Line:
    """Return the line of most items a second in its default cell among those that can be trusted, else have numbers."""

    def standing(line: Line) -> tuple[bool, float]:
        one = line.cells.get(default_cell(line))
        if one is None or one.latency is None:
            return (False, float(line.has_numbers) - 1.0)
        return is_trusted(one, problems), one.throughput_items_per_s or 0.0

    return max(lines, key=standing)


def default_cell(line: Line) -> GridCell:
    """Return what is shown of a line unasked: the smallest batch, on most cores."""
    return line.batches[0], line.cores[-1]


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
