"""What a ladder came to: the number of every rung, and what it gained over the one before and over the first."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from enginebench_controller.errors import InputError
from enginebench_controller.plan.plan import LadderKind, Plan, Rung, make_plan
from enginebench_controller.records import Benchmark, Interval, Measurement, ModelVersion, OutputCheck
from enginebench_controller.verdicts.doubts import Mark, marks
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import unequal

FIRST_INFERENCE = "first_inference"
"""The phase of that name."""

NOT_AVAILABLE = "not available"


@dataclass(frozen=True)
class Gain:
    """By how much a rung is better than another: 0.5 is half as much again, negative is worse.

    `noise` is the half-width of its interval, from those of both rungs as if they were independent; None where one has
    no interval. A gain that is not larger than its noise may be none.
    """

    over: str
    share: float
    noise: float | None

    @property
    def is_within_noise(self) -> bool:
        """Whether it may be no gain at all."""
        return self.noise is not None and abs(self.share) <= self.noise


@dataclass(frozen=True)
class RungResult:
    """A rung and its measurement; without a measurement it is not available, and `reason` says why.

    `fps` are images a second of wall clock; `latency_ns` is the median of an inference. All are None without numbers.
    """

    name: str
    title: str
    reason: str | None
    measurement: Measurement | None = None
    first_inference_ns: int | None = None
    output_check: OutputCheck | None = None
    fps: float | None = None
    fps_interval: Interval | None = None
    latency_ns: float | None = None
    latency_interval: Interval | None = None
    gain_over_previous: Gain | None = None
    gain_over_first: Gain | None = None

    @property
    def has_wrong_outputs(self) -> bool:
        """Whether it computes something else than its model does."""
        return self.output_check is not None and bool(self.output_check.problem)

    @property
    def is_unusable(self) -> bool:
        """Whether its number stands for nothing, however good it is."""
        return self.has_wrong_outputs or bool(self.measurement and Mark.IMPOSSIBLE in marks(self.measurement))

    @property
    def status_words(self) -> str:
        """How it ended, and what stands beside that because its number is none to compare by."""
        if self.measurement is None:
            return NOT_AVAILABLE
        status = f"{self.measurement.status} ≠" if self.has_wrong_outputs else str(self.measurement.status)
        return ", ".join([status, *marks(self.measurement)])

    @property
    def brief_reason(self) -> str:
        """The reason for a chart, which has little room: the cause alone, where there is one."""
        failure = self.measurement.failure if self.measurement else None
        return (failure.cause if failure else "") or self.reason or ""

    @property
    def seconds_per_image(self) -> float | None:
        """Wall clock ÷ images, as the notebooks print it."""
        return None if not self.fps else 1 / self.fps


@dataclass(frozen=True)
class Ladder:
    """All rungs from the lowest up; their gains are those of images a second, or of the median latency."""

    kind: LadderKind
    benchmark: Benchmark
    rungs: tuple[RungResult, ...]

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements there are, in the order of the rungs."""
        return tuple(rung.measurement for rung in self.rungs if rung.measurement)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What gains are on, where that is not the lowest rung, and each way in which rungs of one batch were unlike.

        Other batches have other inputs.
        """
        return (*self._first_with_numbers(), *self._unlike())

    def _first_with_numbers(self) -> Iterator[str]:
        first = next((one for one in self.rungs if _speed(self.kind, one) is not None), self.rungs[0])
        if first is not self.rungs[0]:
            yield f"gains on the first are gains on {first.title}, as {self.rungs[0].title} has no numbers"

    def _unlike(self) -> Iterable[str]:
        numbered = [one for one in self.measurements if one.latency]
        batches = dict.fromkeys(one.configuration.batch for one in numbered)
        groups = ([one for one in numbered if one.configuration.batch == batch] for batch in batches)
        return dict.fromkeys(sentence for group in groups for sentence in unequal(group))

    @property
    def best(self) -> RungResult | None:
        """The rung with the most images a second or the lowest latency; the lower rung of equal ones.

        One whose outputs are wrong is not, nor one that cannot be: a fast wrong answer is no result.
        """
        numbered = [rung for rung in self.rungs if _speed(self.kind, rung) is not None and not rung.is_unusable]
        return max(numbered, key=lambda rung: _speed(self.kind, rung) or 0.0, default=None)


def ladder_of(benchmark: Benchmark, measurements: Sequence[Measurement], models: Iterable[ModelVersion] = ()) -> Ladder:
    """Put a benchmark's measurements back on their rungs. Raises `InputError` for one that is no ladder.

    `models`, all those of the store, tell which versions are to compute the same.
    """
    document = {key: value for key, value in benchmark.plan.items() if key not in {"digests", "left_out"}}
    if not document.get("ladder"):
        raise InputError(f"{benchmark.name} ({benchmark.id}) is no ladder; `enginebench show` shows it")
    plan = make_plan(document, f"the plan of benchmark {benchmark.id}")
    kind = LadderKind(plan.ladder or "")
    checks = check_outputs(measurements, models)
    rungs: list[RungResult] = []
    for rung in plan.rungs:
        rungs.append(_with_gains(kind, _result(rung, plan, measurements, checks), rungs))
    return Ladder(kind, benchmark, tuple(rungs))


def judged_by(kind: LadderKind, ladder: Ladder) -> Ladder:
    """The same rungs with the gains that they brought in the other respect: images a second, or the median latency."""
    rungs: list[RungResult] = []
    for rung in ladder.rungs:
        rungs.append(_with_gains(kind, replace(rung, gain_over_previous=None, gain_over_first=None), rungs))
    return Ladder(kind, ladder.benchmark, tuple(rungs))


def speed_interval(kind: LadderKind, rung: RungResult) -> tuple[float, Interval | None] | None:
    """What the ladder is about, with its interval: images a second, or median latency in nanoseconds."""
    value, interval = (
        (rung.fps, rung.fps_interval) if kind is LadderKind.THROUGHPUT else (rung.latency_ns, rung.latency_interval)
    )
    return None if value is None else (value, interval)


def _result(
    rung: Rung, plan: Plan, measurements: Sequence[Measurement], checks: Mapping[str, OutputCheck]
) -> RungResult:
    if rung.unavailable is not None:
        return RungResult(rung.name, rung.title, rung.unavailable)
    (grid,) = plan.model_copy(update={"rungs": (rung,)}).grids()
    found = next((one for one in measurements if _is_of(one, grid)), None)
    if found is None:
        return RungResult(rung.name, rung.title, "it was not measured before the benchmark ended")
    reason = found.failure.message if found.failure else None
    if not found.status.has_numbers or found.latency is None:
        return RungResult(rung.name, rung.title, reason or "it was not finished", found)
    return RungResult(
        name=rung.name,
        title=rung.title,
        reason=None,
        measurement=found,
        first_inference_ns=next((p.duration_ns for p in found.phases if p.name == FIRST_INFERENCE), None),
        fps=found.throughput_items_per_s,
        fps_interval=found.throughput_interval,
        latency_ns=found.latency.median_ns,
        latency_interval=found.latency.median_interval,
        output_check=checks.get(found.id),
    )


def _is_of(measurement: Measurement, grid: Plan) -> bool:
    """Whether a measurement is that of a rung: no two rungs of a ladder agree in all of this.

    Options of the plan may be of another engine, even of one whose name begins with this one's and a point: that no
    name tells, so a rung may have more of them than the measurement.
    """
    chosen = measurement.configuration
    (engine,) = grid.engines
    options = {f"{measurement.engine.name}.{name}": value for name, value in chosen.options.items()}
    return (
        (measurement.model_digest,) == grid.models
        and measurement.engine.name == engine.partition("@")[0]
        and (chosen.device.lower(),) == tuple(device.lower() for device in grid.devices)
        and ((chosen.batch,), (chosen.cores,)) == (grid.batch, grid.cores)
        and ((chosen.load,), (chosen.hint,)) == (grid.load, grid.hint)
        and options.items() <= grid.options.items()
    )


def _with_gains(kind: LadderKind, rung: RungResult, below: Sequence[RungResult]) -> RungResult:
    numbered = [one for one in below if _speed(kind, one) is not None]
    if _speed(kind, rung) is None or not numbered:
        return rung
    over_previous, over_first = (_gain(kind, rung, other) for other in (numbered[-1], numbered[0]))
    return replace(rung, gain_over_previous=over_previous, gain_over_first=over_first)


def _gain(kind: LadderKind, rung: RungResult, other: RungResult) -> Gain:
    """Relative errors of a ratio add in squares (the delta method)."""
    own, others = _speed(kind, rung), _speed(kind, other)
    assert own is not None and others is not None  # noqa: S101  # the caller chose rungs with numbers
    ratio = own / others
    widths = [_relative_half_width(kind, one) for one in (rung, other)]
    known = [width for width in widths if width is not None]
    return Gain(other.name, ratio - 1, ratio * math.hypot(*known) if len(known) == len(widths) else None)


def _speed(kind: LadderKind, rung: RungResult) -> float | None:
    """Larger is better: images a second, or the inverse of the latency."""
    if kind is LadderKind.THROUGHPUT:
        return rung.fps
    return None if not rung.latency_ns else 1 / rung.latency_ns


def _relative_half_width(kind: LadderKind, rung: RungResult) -> float | None:
    value, interval = speed_interval(kind, rung) or (None, None)
    return None if not value or interval is None else (interval.high - interval.low) / 2 / value
