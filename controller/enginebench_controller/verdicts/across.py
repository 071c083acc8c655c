"""One benchmark on many targets: what each configuration takes across them, and which of them stand out.

Targets of one kind (processor and cores) are expected to be alike. Who differs from its kind by more than the kind's
own spread, and by more than anybody would shrug off, stands out: as a whole, over all that was measured there, or in
some configurations only.
"""

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import HostFacts, Measurement, ModelVersion, Status, TargetSnapshot
from enginebench_controller.verdicts.doubts import marks
from enginebench_controller.verdicts.host_words import processor_of
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import engine_label, in_reading_order

MANY_TARGETS = 20
"""With more of them than these nobody reads a line a target."""

FEWEST_OF_A_KIND = 5
APART = 1.1
"""Who is nearer to its kind than this ratio does not stand out, however alike the others are."""
_SCALE = 1.4826  # makes the median absolute deviation of normal values their standard deviation
_DEVIATIONS = 5.0
_MOST_NAMED = 10
"""Targets are named so far in one sentence."""


@dataclass(frozen=True)
class Across:
    """One configuration of one version on the targets of one group: of one kind, or with one value of a label.

    `median_ns` is the median over targets of their median latencies, with the tenth and the ninetieth percentile;
    None where no target has numbers. `failed` are the targets where it failed, `unlike` those whose outputs differ from
    the others', and `doubtful` those whose numbers are marked: disturbed, inconclusive, impossible.
    """

    group: str
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
    """A target that differs from those of its kind: `ratio` is its latency ÷ theirs, median over configurations, or in
    the one of its `work` and `engine`.
    """

    target: str
    kind: str
    ratio: float
    work: str = ""
    engine: str = ""


@dataclass(frozen=True)
class AcrossTargets:
    """A benchmark as it is read where there are many targets: rows by group, and the targets that stand out.

    `odd_once` are those that do so in a configuration, and not as a whole; a target may be there several times.
    `held_to_their_kind` is of how many targets that can be told: a few are no kind.
    """

    targets: int
    held_to_their_kind: int
    rows: tuple[Across, ...]
    odd: tuple[OddOne, ...]
    odd_once: tuple[OddOne, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in the order of the rows."""
        return tuple(dict.fromkeys(one.group for one in self.rows))

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is to be said of single targets, worst first; at last who is unlike its kind, or that nobody is."""
        found = []
        for heading, names in (
            ("failed", [name for one in self.rows for name in one.failed]),
            ("outputs unlike those of the others", [name for one in self.rows for name in one.unlike]),
            ("disturbed, inconclusive or otherwise doubtful", [name for one in self.rows for name in one.doubtful]),
        ):
            if of := Counter(names):
                on = "1 target" if len(of) == 1 else f"{len(of)} targets"
                found.append(f"{heading} on {on}: {_named([name for name, _ in of.most_common()])}")
        if self.odd:
            odd = [f"{one.target} ({one.ratio:.2f}×)" for one in self.odd]
            found.append(f"unlike their kind, latency ÷ that of the others: {_named(odd)}")
        if self.odd_once:
            once = [f"{one.target} ({one.ratio:.2f}× in {one.work}, {one.engine})" for one in self.odd_once]
            found.append(f"in single configurations only: {_named(once, '; ')}")
        if self.held_to_their_kind and not self.odd and not self.odd_once:
            found.append(f"of {self.held_to_their_kind} targets none is unlike its kind")
        return tuple(found)


def _named(names: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return between.join(names[:_MOST_NAMED]) + more


def are_many(measurements: Iterable[Measurement]) -> bool:
    """Whether they are on more targets than anybody reads one by one."""
    return len({one.target for one in measurements}) > MANY_TARGETS


def across_targets(
    measurements: Sequence[Measurement],
    snapshots: Iterable[TargetSnapshot],
    models: Iterable[ModelVersion],
    groups: Mapping[str, str] | None = None,
) -> AcrossTargets:
    """Put what many targets measured together, by group and configuration.

    `models`, all those of the store, tell which versions are to compute the same. `groups` are by target; without them
    it is the kind of machine. Who stands out is always told within its kind.
    """
    checks = check_outputs(measurements, models)
    unlike = {name for name, check in checks.items() if check.problem}
    kinds = {one.target: kind_of(one.host) for one in snapshots}
    single = _single_ratios(_together(measurements, kinds))
    ratios = _ratios(single)
    odd = _odd(ratios)
    found = _together(in_reading_order(measurements), kinds if groups is None else groups)
    return AcrossTargets(
        targets=len({one.target for one in measurements}),
        held_to_their_kind=sum(map(len, ratios.values())),
        # Configurations in the order of their first: of words batch 10 would come before batch 2.
        rows=tuple(_row(*key, measured, unlike) for key, measured in sorted(found.items(), key=lambda one: one[0][:3])),
        odd=odd,
        odd_once=_odd_once(single, {one.target for one in odd}),
    )


def _together(
    measurements: Iterable[Measurement], groups: Mapping[str, str]
) -> dict[tuple[str, str, str, str], list[Measurement]]:
    """By group, model, engine and configuration."""
    together: dict[tuple[str, str, str, str], list[Measurement]] = {}
    for one in measurements:
        key = (groups.get(one.target, ""), one.model_name, engine_label(one), configuration_across(one))
        together.setdefault(key, []).append(one)
    return together


def kind_of(host: HostFacts) -> str:
    """What machines are alike by: processor and cores."""
    count = host.physical_cores
    cores = f"{count} core{'s' if count > 1 else ''}" if count else ""
    return ", ".join(filter(None, (processor_of(host), cores, host.architecture)))


def work_of(one: Measurement) -> str:
    """A model in a configuration: what was measured, apart from on which engine and target."""
    return _work(one.model_name, configuration_across(one))


def _work(model: str, configuration: str) -> str:
    return f"{model} · {configuration}"


def configuration_across(one: Measurement) -> str:
    """What was asked for, where the targets are many: "CPU, batch 1, cores 2, sync"."""
    asked = one.configuration
    precision = "" if asked.precision == "f32" else str(asked.precision)
    parts = (asked.device, f"batch {asked.batch}", f"cores {asked.place}", asked.load_in_words, precision)
    return ", ".join(filter(None, (*parts, *asked.settings_in_words)))


def _row(
    group: str, model: str, engine: str, configuration: str, found: Sequence[Measurement], unlike: Collection[str]
) -> Across:
    medians = sorted(one.latency.median_ns for one in found if one.latency is not None)
    return Across(
        group,
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


_Single = Mapping[tuple[str, str, str, str], Mapping[str, float]]
"""By kind, model, engine and configuration, and by target: latency ÷ that of the kind."""


def _single_ratios(together: Mapping[tuple[str, str, str, str], Sequence[Measurement]]) -> _Single:
    """None where a kind has few."""
    found = {}
    for key, measured in together.items():
        numbers = {one.target: one.latency.median_ns for one in measured if one.latency is not None}
        if len(numbers) >= FEWEST_OF_A_KIND:
            middle = statistics.median(numbers.values())
            found[key] = {target: value / middle for target, value in numbers.items()}
    return found


def _ratios(single: _Single) -> dict[str, dict[str, float]]:
    """By kind and target, the median over configurations."""
    found: dict[str, dict[str, list[float]]] = {}
    for (kind, *_), of in single.items():
        for target, ratio in of.items():
            found.setdefault(kind, {}).setdefault(target, []).append(ratio)
    return {kind: {name: statistics.median(values) for name, values in of.items()} for kind, of in found.items()}


def _odd(ratios: Mapping[str, Mapping[str, float]]) -> tuple[OddOne, ...]:
    """The targets that stand out, the farthest first."""
    return _farthest_first([OddOne(target, kind, ratio) for kind, of in ratios.items() for target, ratio in _apart(of)])


def _odd_once(single: _Single, known: Collection[str]) -> tuple[OddOne, ...]:
    """Who stands out in a configuration, without those that are `known` to do so as a whole."""
    return _farthest_first(
        [
            OddOne(target, kind, ratio, _work(model, configuration), engine)
            for (kind, model, engine, configuration), of in single.items()
            for target, ratio in _apart(of)
            if target not in known
        ]
    )


def _apart(ratios: Mapping[str, float]) -> list[tuple[str, float]]:
    low, high = _limits(list(ratios.values()))
    return [(target, ratio) for target, ratio in ratios.items() if not low <= ratio <= high]


def _farthest_first(odd: Iterable[OddOne]) -> tuple[OddOne, ...]:
    return tuple(sorted(odd, key=lambda one: (-max(one.ratio, 1 / one.ratio), one.target, one.work, one.engine)))


def _limits(ratios: Sequence[float]) -> tuple[float, float]:
    middle = statistics.median(ratios)
    deviation = _SCALE * statistics.median(abs(one - middle) for one in ratios)
    reach = _DEVIATIONS * deviation
    return min(middle - reach, middle / APART), max(middle + reach, middle * APART)
