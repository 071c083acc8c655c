"""One benchmark on many targets: what each configuration takes across them, and which of them stand out.

Targets of one kind (processor and cores) are expected to be alike. Who differs from its kind by more than the kind's
own spread, and by more than anybody would shrug off, stands out: as a whole, over all that was measured there.
"""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.plan.configurations import describe_load
from enginebench_controller.records import HostFacts, Measurement, ModelVersion, Status, TargetSnapshot
from enginebench_controller.verdicts.doubts import marks
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import processor_of

MANY_TARGETS = 20
"""With more of them than these nobody reads a line a target."""

FEWEST_OF_A_KIND = 5
APART = 1.1
"""Who is nearer to its kind than this ratio does not stand out, however alike the others are."""
_SCALE = 1.4826  # makes the median absolute deviation of normal values their standard deviation
_DEVIATIONS = 5.0


@dataclass(frozen=True)
class Across:
    """One configuration of one version on the targets of one kind.

    `median_ns` is the median over targets of their median latencies, with the tenth and the ninetieth percentile;
    None where no target has numbers. `failed` are the targets where it failed, `unlike` those whose outputs differ from
    the others', and `doubtful` those whose numbers are marked: disturbed, inconclusive, impossible.
    """

    kind: str
    model_name: str
    engine: str
    configuration: str
    targets: int
    median_ns: float | None
    low_ns: float | None
    high_ns: float | None
    failed: tuple[str, ...]
    unlike: tuple[str, ...]
    doubtful: tuple[str, ...]


@dataclass(frozen=True)
class OddOne:
    """A target that differs from those of its kind: `ratio` is its latency ÷ theirs, median over configurations."""

    target: str
    kind: str
    ratio: float


@dataclass(frozen=True)
class AcrossTargets:
    """A benchmark as it is read where there are many targets: rows by kind, and the targets that stand out.

    `held_to_their_kind` is of how many targets that can be told: a few are no kind.
    """

    targets: int
    held_to_their_kind: int
    rows: tuple[Across, ...]
    odd: tuple[OddOne, ...]


def across_targets(
    measurements: Sequence[Measurement], snapshots: Iterable[TargetSnapshot], models: Iterable[ModelVersion]
) -> AcrossTargets:
    """Put what many targets measured together, by kind of machine and configuration.

    `models`, all those of the store, tell which versions are to compute the same.
    """
    checks = check_outputs(measurements, models)
    unlike = {name for name, check in checks.items() if check.problem}
    kinds = {one.target: kind_of(one.host) for one in snapshots}
    together: dict[tuple[str, str, str, str], list[Measurement]] = {}
    for one in measurements:
        key = (kinds.get(one.target, ""), one.model_name, engine_label(one), _configuration(one))
        together.setdefault(key, []).append(one)
    rows = tuple(_row(*key, found, unlike) for key, found in sorted(together.items()))
    ratios = _ratios(together)
    held = sum(map(len, ratios.values()))
    return AcrossTargets(len({one.target for one in measurements}), held, rows, _odd(ratios))


def kind_of(host: HostFacts) -> str:
    """What machines are alike by: processor and cores."""
    cores = f"{host.physical_cores} cores" if host.physical_cores else ""
    return ", ".join(filter(None, (processor_of(host), cores, host.architecture)))


def _configuration(one: Measurement) -> str:
    asked = one.configuration
    precision = "" if asked.precision == "f32" else str(asked.precision)
    parts = (asked.device, f"batch {asked.batch}", f"cores {asked.place}", describe_load(asked), precision)
    return ", ".join(filter(None, parts))


def _row(
    kind: str, model: str, engine: str, configuration: str, found: Sequence[Measurement], unlike: Collection[str]
) -> Across:
    medians = sorted(one.latency.median_ns for one in found if one.latency is not None)
    return Across(
        kind,
        model,
        engine,
        configuration,
        len(found),
        statistics.median(medians) if medians else None,
        _percentile(medians, 0.1),
        _percentile(medians, 0.9),
        tuple(sorted(one.target for one in found if one.latency is None)),
        tuple(sorted(one.target for one in found if one.id in unlike)),
        tuple(sorted(one.target for one in found if one.latency is not None and _is_doubtful(one))),
    )


def _is_doubtful(one: Measurement) -> bool:
    return one.status is not Status.OK or bool(marks(one))


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest rank."""
    return ordered[round(share * (len(ordered) - 1))] if ordered else None


def _ratios(together: Mapping[tuple[str, str, str, str], Sequence[Measurement]]) -> dict[str, dict[str, float]]:
    """By kind and target, latency ÷ that of the kind, median over configurations; none where a kind has few."""
    found: dict[tuple[str, str], list[float]] = {}
    for (kind, *_), measured in together.items():
        numbers = {one.target: one.latency.median_ns for one in measured if one.latency is not None}
        if len(numbers) >= FEWEST_OF_A_KIND:
            middle = statistics.median(numbers.values())
            for target, value in numbers.items():
                found.setdefault((kind, target), []).append(value / middle)
    by_kind: dict[str, dict[str, float]] = {}
    for (kind, target), values in found.items():
        by_kind.setdefault(kind, {})[target] = statistics.median(values)
    return by_kind


def _odd(ratios: Mapping[str, Mapping[str, float]]) -> tuple[OddOne, ...]:
    """The targets that stand out, the farthest first."""
    odd = []
    for kind, of in ratios.items():
        low, high = _limits(list(of.values()))
        odd += [OddOne(target, kind, ratio) for target, ratio in of.items() if not low <= ratio <= high]
    return tuple(sorted(odd, key=lambda one: (-max(one.ratio, 1 / one.ratio), one.target)))


def _limits(ratios: Sequence[float]) -> tuple[float, float]:
    middle = statistics.median(ratios)
    deviation = _SCALE * statistics.median(abs(one - middle) for one in ratios)
    reach = _DEVIATIONS * deviation
    return min(middle - reach, middle / APART), max(middle + reach, middle * APART)
