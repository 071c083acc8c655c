"""The words of answers: names of members, a ranking as a sentence, and what must not be missed beside it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_controller.records import LOCAL_TARGET, Configuration, Hint, Load, Measurement, ModelVersion
from enginebench_controller.records.model import lineage
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.stats.comparison import PRACTICAL, Side
from enginebench_controller.stats.ranking import Rank, Ranking, Standing
from enginebench_controller.verdicts import disturbances
from enginebench_controller.verdicts.disturbances import summarize_evidence
from enginebench_controller.verdicts.doubts import Mark, marks
from enginebench_controller.verdicts.pairing import Snapshots, processor_at
from enginebench_controller.verdicts.parity import unequal_effective
from enginebench_proto.agreed.words import DEFAULT_DEVICE, Precision

Blocks = Mapping[str, Sequence[BlockLatency]]
"""What the latencies of each block add up to, by the measurement's id."""

MOST_NAMED = 6
"""So many members are named in a sentence; of more it is told how many they are."""

_FARTHEST = 100
"""Ends of intervals beyond this factor, up or down, are told as that: it was hardly measured."""

MOST_RANGES = 2
"""So many intervals stand in a sentence that tells nothing yet; all of them are in the document."""


@dataclass(frozen=True)
class Rival:
    """A measurement of a group: what it is called there, by what differs, and what all have in common."""

    measurement: Measurement
    name: str
    model: str
    engine: str
    """The one engine of all; "" where they are several."""

    @classmethod
    def of(
        cls, group: Sequence[Measurement], models: Collection[ModelVersion], benchmarks: Mapping[str, str] | None = None
    ) -> list["Rival"]:
        """The members of a group. `models` tell which version the others stem from; `benchmarks` are names by id."""
        names = _names(group, benchmarks or {})
        engines = {_engine(one, group) for one in group}
        common = engines.pop() if len(engines) == 1 else ""
        model = _original(group, models)
        return [cls(one, name, model, common) for one, name in zip(group, names, strict=True)]


def work_words(members: Sequence[Rival]) -> str:
    """What all members did: "zoo:resnet50, batch 1, 2 cores"."""
    first = members[0].measurement
    asked = first.configuration
    parts = [members[0].model + (f" on {members[0].engine}" if members[0].engine else "")]
    if first.target != LOCAL_TARGET and all(one.measurement.target == first.target for one in members):
        parts.append(first.target)
    parts += [asked.device] if asked.device != DEFAULT_DEVICE else []
    parts += [asked.size]
    parts += [_load(asked, members)] if asked.load is not Load.SYNC else []
    parts += [f"inputs {asked.input_set.name}"] if asked.input_set.name != "random" else []
    return ", ".join(parts)


def metric_words(of_throughput: bool, load: Load) -> str:
    """By what members are ranked, where that is not the latency of one inference after another."""
    if of_throughput:
        return ", by throughput"
    return ", by median latency" if load is Load.OPEN_LOOP else ""


def ranked(order: Sequence[Rival], found: Ranking) -> str:
    """A ranking in which every member is told from the fastest, or the same as it."""
    same, slower = _split(order, found)
    if not slower:
        return f"{listed(same)} are the same within {rounded_up(found.bound)}"
    if len(same) > 1:
        return f"{listed(same)} are the same within {rounded_up(found.bound)}, {_faster(same, found)} {_slower(slower)}"
    (name, first), *others = slower
    words = [f"{_times(first)} as fast as {name}", *(f"{_factor(one)} {other}" for other, one in others[:MOST_NAMED])]
    more = [f"and {len(others) - MOST_NAMED} more"] if len(others) > MOST_NAMED else []
    return f"{same[0]} is fastest, {', '.join([*words, *more])}"


def cannot_tell(order: Sequence[Rival], found: Ranking) -> str:
    """A ranking in which some members cannot be told from the fastest: what is told first, then what is not."""
    first = order[0].name
    pairs = list(zip(order, found.ranks, strict=True))
    open_ones = [member.name for member, one in pairs if one.standing is not Standing.SLOWER]
    unsure = [(member.name, one) for member, one in pairs if one.standing is Standing.UNSURE]
    ranges = [_range(name, one, "" if place else first) for place, (name, one) in enumerate(unsure[:MOST_RANGES])]
    if len(unsure) > MOST_RANGES:
        ranges.append(f"{len(unsure) - MOST_RANGES} more")
    slower = [(member.name, one) for member, one in pairs if one.standing is Standing.SLOWER]
    which = f"whether {open_ones[0]} or {open_ones[1]} is faster"
    if len(open_ones) > 2:
        which = f"which of {listed(open_ones)} is fastest"
    if not slower:
        return f"cannot tell {which}: {', '.join(ranges)}"
    if found.divided:
        which = "which of the two is faster" if len(open_ones) == 2 else "which of these is fastest"
        return f"{listed(open_ones)} are faster than {_slower(slower)}; cannot tell {which}: {', '.join(ranges)}"
    return f"{first} is faster than {_slower(slower)}; cannot tell {which}: {', '.join(ranges)}"


def listed(names: Sequence[str]) -> str:
    """Names in a row: "a, b and c"."""
    named = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        named.append(f"{len(names) - MOST_NAMED} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _split(order: Sequence[Rival], found: Ranking) -> tuple[list[str], list[tuple[str, Rank]]]:
    pairs = list(zip(order, found.ranks, strict=True))
    same = [member.name for member, one in pairs if one.standing is not Standing.SLOWER]
    return same, [(member.name, one) for member, one in pairs if one.standing is Standing.SLOWER]


def _faster(first: Sequence[str], found: Ranking) -> str:
    """Who is faster than the slower ones: all that may be fastest, or only the first of them, as far as is known."""
    if found.divided:
        return f"{'both' if len(first) == 2 else 'all'} faster than"
    return f"{first[0]} faster than"


def _slower(slower: Sequence[tuple[str, Rank]]) -> str:
    return listed([f"{name} ({_factor(one)})" for name, one in slower])


def _range(name: str, one: Rank, first: str) -> str:
    """What is known of a member against the fastest: "ort takes 0.93 to 1.10× as long as torch".

    Without `first`, which was named before: "ort 0.93 to 1.10×".
    """
    if one.low is None or one.high is None:
        return f"{name} took {_factor(one)} {f'the time of {first}' if first else ''}".rstrip()
    digits = _digits(one)
    ratio = f"{_end(one.low, digits)} to {_end(one.high, digits)}×"
    return f"{name} takes {ratio} as long as {first}" if first else f"{name} {ratio}"


def _times(one: Rank) -> str:
    """A ratio with its interval: "1.05× (1.04–1.06)"."""
    digits = _digits(one)
    return f"{one.ratio:.{digits}f}× ({_end(one.low, digits)}–{_end(one.high, digits)})"


def _end(value: float | None, digits: int) -> str:
    """An end of an interval. That of few processes on a busy machine may lie anywhere, which is not worth digits."""
    if value is None:
        return "?"
    if value > _FARTHEST:
        return f">{_FARTHEST}"
    return f"{value:.{digits}f}" if value > 1 / _FARTHEST else f"<{1 / _FARTHEST:g}"


def _factor(one: Rank) -> str:
    ratio = one.ratio or 0.0
    return f"{ratio:.2f}×" if ratio < 1.2 else f"{ratio:.1f}×" if ratio < 10 else f"{ratio:.0f}×"


def _digits(one: Rank) -> int:
    """As many decimals as the interval gives reason for, and enough that nothing that is not 1 is written as 1."""
    if one.ratio is None or one.low is None or one.high is None:
        return 2
    if one.ratio < 1.1 and (one.high - one.low < 0.01 or 1 < one.low < 1.005):
        return 3
    return 1 if one.high - one.low >= 0.1 and one.low >= 1.05 else 2


def rounded_up(share: float | None) -> str:
    """A bound in whole per cent, rounded up, and at least 1."""
    return f"{max(1, -int(-100 * (share or 0.0) // 1))} %"


def _names(group: Sequence[Measurement], benchmarks: Mapping[str, str]) -> list[str]:
    """What each is called: by what differs, and by a number where nothing does."""
    parts = [list(_parts(one, group)) for one in group]
    if _differs(group, lambda each: each.benchmark_id):
        for own, one in zip(parts, group, strict=True):
            name = benchmarks.get(one.benchmark_id, one.benchmark_id)
            own.append(f"({name})" if own else name)
    names = [" ".join(own) or _engine(one, group) for own, one in zip(parts, group, strict=True)]
    repeated = {name for name, count in Counter(names).items() if count > 1}
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        if name in repeated:
            seen[name] += 1
            names[place] = f"{name} ({seen[name]})"
    return names


def _parts(one: Measurement, group: Sequence[Measurement]) -> Iterator[str]:
    several_models = _differs(group, lambda each: each.model_name)
    several_engines = _differs(group, lambda each: _engine(each, group))
    if several_models:
        yield one.model_name
    if several_engines:
        yield f"on {_engine(one, group)}" if several_models else _engine(one, group)
    asked = one.configuration
    if _differs(group, lambda each: each.configuration.precision):
        yield "own precision" if asked.precision == Precision.DEFAULT else asked.precision
    if _differs(group, lambda each: each.configuration.hint):
        yield "no hint" if asked.hint is Hint.NONE else f"hint {asked.hint}"
    if _differs(group, lambda each: each.configuration.streams):
        yield f"{asked.streams} stream{'s' if asked.streams > 1 else ''}"
    if _differs(group, lambda each: each.configuration.requests):
        yield f"{asked.requests} request{'s' if asked.requests > 1 else ''}"
    yield from _options(one, group)
    if _differs(group, lambda each: each.target):
        yield f"on {one.target}" if several_engines or several_models else one.target


def _options(one: Measurement, group: Sequence[Measurement]) -> Iterator[str]:
    """The options that differ between members of the same engine."""
    same = [each for each in group if each.engine.name == one.engine.name]
    for name in sorted({name for each in same for name in each.configuration.options}):
        if _differs(same, lambda each: each.configuration.options.get(name)):  # noqa: B023  # called at once
            yield f"{name}={one.configuration.options.get(name, 'unset')}"


def _engine(one: Measurement, group: Sequence[Measurement]) -> str:
    """The engine, with what tells it from others of its name: environment and version."""
    same = [each.engine for each in group if each.engine.name == one.engine.name]
    environment = f"@{one.engine.environment}" if len({each.environment for each in same}) > 1 else ""
    version = (
        f" {one.engine.version}"
        if one.engine.version and len({each.version for each in same if each.version}) > 1
        else ""
    )
    return f"{one.engine.name}{environment}{version}"


def _original(group: Sequence[Measurement], models: Collection[ModelVersion]) -> str:
    """What the model of a group is called: the version that the fewest were made before."""
    known = {model.digest: model for model in models}
    return min(group, key=lambda one: len(list(lineage(one.model_digest, known)))).model_name


def _load(asked: Configuration, members: Sequence[Rival]) -> str:
    requests = {one.measurement.configuration.requests for one in members}
    return str(asked.load) if asked.load is Load.ASYNC and len(requests) > 1 else asked.load_in_words


def _differs(group: Sequence[Measurement], value_of: Callable[[Measurement], object]) -> bool:
    return len({value_of(one) for one in group}) > 1


@dataclass(frozen=True)
class AnswerGround:
    """What answers are given from, beside the measurements. `wrong` are the ids of those whose outputs are."""

    blocks: Blocks
    models: Collection[ModelVersion]
    wrong: Collection[str]
    plan: Mapping[str, Any] | None
    practical: float
    planned: Mapping[str, int]
    snapshots: Snapshots


def is_self_test(members: Sequence[Rival]) -> bool:
    """Whether all are one measurement, beside itself: no machine can have made a difference."""
    return len({one.measurement.id for one in members}) == 1


def answer_remarks(members: Sequence[Rival], fit: Sequence[Rival], ground: AnswerGround) -> Iterator[str]:
    """What must not be missed beside the sentence, a line a kind."""
    failed: dict[str, list[str]] = defaultdict(list)
    for one in members:
        if one.measurement.latency is None:
            failure = one.measurement.failure
            failed[str(failure.kind).replace("_", " ") if failure else str(one.measurement.status)].append(one.name)
    yield from (f"left out: {listed(names)} ({why})" for why, names in failed.items())
    if names := [one.name for one in members if one.measurement.id in ground.wrong]:
        yield f"left out: {listed(names)}, whose outputs are not what the model computes (≠)"
    if names := [one.name for one in members if Mark.IMPOSSIBLE in marks(one.measurement)]:
        yield f"left out: {listed(names)}, whose numbers are impossible"
    for how in dict.fromkeys(one.measurement.grounds.emulation for one in fit):
        if how:
            yield f"emulated: {how}; on a real machine another may be fastest"
    yield from _precisions(fit)
    if len(fit) > 1 and not is_self_test(fit):
        yield from _unlike_processors(fit, ground.snapshots)
        yield from _unlike_inputs(fit)
        yield from _turns(fit)
        yield from _disturbed(fit)


def medians_apart(order: Sequence[Rival], found: Ranking) -> Iterator[str]:
    """Whose median over all samples, as tables show it, gives a ratio to the fastest that is clear of its interval.

    Of those that took turns with it: only their ratios are of pairs.
    """
    fastest = order[0].measurement.latency
    apart = []
    for member, one in zip(order[1:], found.ranks[1:], strict=True):
        own = member.measurement.latency
        if not one.is_paired or fastest is None or own is None or one.low is None or one.high is None:
            continue
        ratio = own.median_ns / fastest.median_ns
        if not one.low / (1 + PRACTICAL) <= ratio <= one.high * (1 + PRACTICAL):
            apart.append(f"{member.name} {ratio:.2f}×")
    if apart:
        yield (
            f"medians over all samples, which tables show, give {listed(apart)}: a ratio here is the middle of "
            "processes paired in time, which a disturbed spell moves less"
        )


def without_median(members: Sequence[Rival], sides: Mapping[str, Side]) -> Iterator[str]:
    """Members that have numbers, but none that a ratio can be made of."""
    medians = {one.name: sides[one.measurement.id].processes.values() for one in members if one.measurement.latency}
    if names := [name for name, known in medians.items() if not known]:
        yield f"left out: {listed(names)}, as nothing is kept of single processes"
    if names := [name for name, known in medians.items() if not all(one > 0 for one in known)]:
        yield f"left out: {listed(names)}, whose inferences are shorter than the clock can tell"


def _precisions(fit: Sequence[Rival]) -> Iterator[str]:
    """Members of one version that were asked for the same precision and ran another, against each other or all."""
    alike: dict[object, list[Rival]] = defaultdict(list)
    for one in fit:
        alike[one.measurement.model_digest, one.measurement.configuration.precision].append(one)
    for group in alike.values():
        if differ := unequal_effective([one.measurement for one in group]):
            yield from (f"not equals: {sentence}" for sentence in differ if "precision" in sentence)
    for one in fit:
        asked, got = one.measurement.configuration.precision, one.measurement.effective.precision
        if got is not None and asked not in (Precision.DEFAULT, str(got.value)) and _is_floating(str(got.value)):
            yield f"{one.name} ran in {got.value}, and {asked} was asked for"


def _is_floating(precision: str) -> bool:
    """Whether it is a floating precision, which is asked for; INT8 is another version of the model."""
    return precision.startswith(("f", "bf"))


def _unlike_processors(fit: Sequence[Rival], snapshots: Snapshots) -> Iterator[str]:
    processors = dict.fromkeys(processor_at(one.measurement, snapshots) for one in fit)
    if len(processors) > 1:
        yield f"not equals: the processors differ, {listed(list(processors))}"


def _unlike_inputs(fit: Sequence[Rival]) -> Iterator[str]:
    digests = {one.measurement.input_set_sha256 for one in fit}
    if len(digests - {None}) > 1:
        yield "not equals: the inputs differ"


def _turns(fit: Sequence[Rival]) -> Iterator[str]:
    groups = Counter(one.measurement.interleaving_group for one in fit)
    if len(groups) == 1 and None not in groups:
        return
    together = next((name for name, count in groups.most_common() if name is not None and count > 1), None)
    alone = [one.name for one in fit if one.measurement.interleaving_group != together or together is None]
    targets = list(dict.fromkeys(one.measurement.target for one in fit))
    if len(targets) > 1:
        yield f"measured on different targets, {listed(targets)}: their machines may differ, too"
    elif len(alone) == len(fit):
        why = ""
        if fit[0].measurement.configuration.load is Load.OPEN_LOOP:
            why = ": the arrivals of an open loop wait for nobody's turn"
        yield f"measured one after the other, not in turns{why or ', so that the machine may have changed meanwhile'}"
    else:
        yield f"ran alone, not in turns with the others: {listed(alone)}"


def _disturbed(fit: Sequence[Rival]) -> Iterator[str]:
    noisy = [one for one in fit if Mark.DISTURBED in marks(one.measurement)]
    if noisy:
        share = max(disturbed_share(one.measurement) for one in noisy)
        yield f"disturbed for up to {share:.0%} of the time{by_whom(noisy)}: {listed([one.name for one in noisy])}"


def by_whom(members: Sequence[Rival]) -> str:
    """Who disturbed the most, in brackets; else what kinds of disturbance there were."""
    known = [(use, one.measurement) for one in members if (use := disturbances.meanwhile(one.measurement)) is not None]
    if known:
        use, measurement = max(known, key=lambda each: each[0].share)
        own = max(disturbances.own_share(one) for _, one in known)
        if own and use.share < disturbances.WORTH_A_WORD:
            return f" ({disturbances.own_used(own)})"
        if use.share >= disturbances.LEAST_TOLD:
            return f" ({disturbances.others_used(use, disturbances.unseen(measurement))})"
    kinds = Counter(kind for one in members for kind in summarize_evidence(one.measurement.blocks).disturbances)
    return f" ({', '.join(kinds)})" if kinds else ""


def disturbed_share(measurement: Measurement) -> float:
    """The share of its time that was disturbed; 0 where nothing is known."""
    return summarize_evidence(measurement.blocks).disturbed_share or 0.0
