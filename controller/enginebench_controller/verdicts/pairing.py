"""Which measurements can be compared, and what comes of it: in a benchmark, across two, or one with a page."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType

from enginebench_controller.records import (
    Benchmark,
    BlockSamples,
    DerivationKind,
    ErrorOf,
    Measurement,
    ModelVersion,
    OutputCheck,
    TargetSnapshot,
)
from enginebench_controller.records.model import families, lineage
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.stats.comparison import PRACTICAL, Comparison, Side, compare, corrected
from enginebench_controller.verdicts.doubts import Mark, doubts, marks
from enginebench_controller.verdicts.host_words import processor_of
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import engine_label, in_reading_order, unequal
from enginebench_controller.verdicts.words import Remark, asked_words, model_words, sides_words

Pair = tuple[Measurement, Measurement]

ReadSamples = Callable[[str], Iterable[BlockSamples]]
"""The raw samples of a measurement, by its id."""

NOTHING_ENDED_EARLY: Mapping[str, int] = MappingProxyType({})

Snapshots = Mapping[str, Collection[TargetSnapshot]]
"""What the targets of benchmarks said of themselves as these began, by the benchmark's id."""

NO_SNAPSHOTS: Snapshots = MappingProxyType({})


@dataclass(frozen=True)
class Compared:
    """Two measurements of the same work, the second compared with the first; `remarks` say where they are unlike."""

    first: Measurement
    second: Measurement
    is_paired: bool
    comparison: Comparison
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Unmatched:
    """A measurement of the first benchmark that nothing in another one, which is `called` so, was compared with."""

    measurement: Measurement
    benchmark_id: str
    called: str


def pairs_within(measurements: Collection[Measurement], models: Collection[ModelVersion] = ()) -> Iterator[Pair]:
    """Every two measurements of the same work in one benchmark: other engines, versions or precisions.

    Of a family's versions those of one engine and precision are compared: FP32 with INT8 on the same engine. Of work
    that no target has two of, each is compared with the first that did the same on another.
    """
    on_one_target = list(_pairs_of_a_target(measurements, models))
    yield from on_one_target
    paired = {(one.model_name, *_work(one)) for pair in on_one_target for one in pair}
    alone = [one for one in measurements if (one.model_name, *_work(one)) not in paired]
    for first, *others in alike_over_targets(alone):
        yield from ((first, other) for other in others)


def alike_over_targets(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    """Those with numbers that differ in the target, and in the engine's version, alone: groups of two and more."""

    def alike(one: Measurement) -> object:
        return (one.model_name, *_work(one), *_engine(one), tuple(sorted(one.configuration.options.items())))

    return [group for group in _by_work(measurements, alike).values() if len({one.target for one in group}) > 1]


def _pairs_of_a_target(measurements: Collection[Measurement], models: Collection[ModelVersion]) -> Iterator[Pair]:
    for group in _by_work(measurements, lambda one: (_where(one), one.model_name, *_work(one))).values():
        yield from itertools.combinations(group, 2)
    root = families(models)

    def of_family(one: Measurement) -> object:
        return (_where(one), root.get(one.model_digest), *_work(one), *_engine(one), one.engine.environment)

    known = {model.digest: model for model in models}
    for group in _by_work([one for one in measurements if one.model_digest in root], of_family).values():
        original_first = sorted(group, key=lambda one: len(list(lineage(one.model_digest, known))))
        pairs = itertools.combinations(original_first, 2)
        yield from ((one, other) for one, other in pairs if one.model_name != other.model_name)


def pairs_across(
    first: Collection[Measurement], second: Collection[Measurement], models: Collection[ModelVersion] = ()
) -> Iterator[Pair]:
    """Every measurement of the first benchmark with its like in the second: the same work, engine and precision.

    What has no namesake on the other side is joined with versions of its family, as `models`, all those of the store,
    tell; and where nothing else is measured on either side, whatever the two models are. Targets must agree only where
    a benchmark has several. Among several environments of an engine the one of the same name is its like.
    """
    same_name = _matches(first, second, lambda one: one.model_name)
    yield from same_name
    left, right = (_unmatched(side, other) for side, other in ((first, second), (second, first)))
    root = families(models)
    of_family = _matches(left, right, lambda one: root.get(one.model_digest, one.model_digest))
    yield from of_family
    if not same_name and not of_family and len(_models(first, root)) == len(_models(second, root)) == 1:
        yield from _matches(left, right, lambda _: None)


def without_like(first: Collection[Measurement], pairs: Collection[Pair]) -> list[Measurement]:
    """Of the first benchmark those with numbers that are in none of its pairs with another one."""
    matched = {one.id for one, _ in pairs}
    return [one for one in in_reading_order(first) if one.latency is not None and one.id not in matched]


def nearest_pair(
    first: Collection[Measurement], second: Collection[Measurement], models: Collection[ModelVersion] = ()
) -> Pair | None:
    """Of two benchmarks a measurement each with numbers, of one engine and family, whose work differs least."""
    root = families(models)

    def key(one: Measurement) -> object:
        return one.engine.name, root.get(one.model_digest, one.model_digest)

    numbered = [[one for one in side if one.latency is not None] for side in (first, second)]
    pairs = [(one, other) for one, other in itertools.product(*numbered) if key(one) == key(other)]
    return min(pairs, key=lambda pair: len(list(unlike_work(*pair))), default=None)


def _matches(
    first: Collection[Measurement], second: Collection[Measurement], model: Callable[[Measurement], object]
) -> list[Pair]:
    one_target_each = all(len({one.target for one in side}) == 1 for side in (first, second))

    def key(one: Measurement) -> object:
        return (None if one_target_each else _where(one), model(one), *_work(one), *_engine(one))

    left, right = (_by_work(side, key) for side in (first, second))
    return [(one, other) for work, group in left.items() for one in group for other in _likes(one, right.get(work, []))]


def _likes(one: Measurement, like: Sequence[Measurement]) -> Sequence[Measurement]:
    return [other for other in like if other.engine.environment == one.engine.environment] or like


def _unmatched(side: Collection[Measurement], other: Collection[Measurement]) -> list[Measurement]:
    """Those of models that have no namesake on the other side."""
    names = {one.model_name for one in other}
    return [one for one in side if one.model_name not in names]


def _models(side: Collection[Measurement], root: Mapping[str, str]) -> set[str]:
    return {root.get(one.model_digest, one.model_digest) for one in side}


def planned_processes(benchmarks: Iterable[Benchmark]) -> dict[str, int]:
    """By the ids of benchmarks whose rounds end when it is enough, which are gates: how many there were at most."""
    planned = {one.id: one.plan.get("processes") for one in benchmarks if one.plan.get("gate")}
    return {id_: count if isinstance(count, int) else 1 for id_, count in planned.items()}


def compare_pairs(
    pairs: Iterable[Pair],
    read: ReadSamples,
    models: Collection[ModelVersion] = (),
    practical: float = PRACTICAL,
    planned: Mapping[str, int] = NOTHING_ENDED_EARLY,
    snapshots: Snapshots = NO_SNAPSHOTS,
) -> tuple[Compared, ...]:
    """Compare each pair; p-values are corrected for their number. The measurements must have been read with blocks.

    `models`, all those of the store, tell which versions are to compute the same; `planned` is `planned_processes`.
    `snapshots` tell of the machines.
    """
    pairs = list(pairs)
    sides = {
        one.id: Side.of(read(one.id), one.excluded_blocks, planned.get(one.benchmark_id))
        for one in {one.id: one for pair in pairs for one in pair}.values()
    }
    return _compare(pairs, sides, models, snapshots, practical)


def _compare(
    pairs: Sequence[Pair],
    sides: Mapping[str, Side],
    models: Collection[ModelVersion],
    snapshots: Snapshots,
    practical: float = PRACTICAL,
) -> tuple[Compared, ...]:
    paired = [_is_paired(*pair) for pair in pairs]
    found = [
        compare(sides[first.id], sides[second.id], paired=together, practical=practical)
        for (first, second), together in zip(pairs, paired, strict=True)
    ]
    return tuple(
        Compared(*pair, together, comparison, tuple(remarks(*pair, models, snapshots)))
        for pair, together, comparison in zip(pairs, paired, corrected(found), strict=True)
    )


def processor_at(measurement: Measurement, snapshots: Snapshots) -> str:
    """The processor that something was measured on; a name such as "local" does not tell machines apart."""
    seen = snapshots.get(measurement.benchmark_id, ())
    known = next((processor_of(one.host) for one in seen if one.target == measurement.target), None)
    return known or "unknown"


def remarks(
    first: Measurement, second: Measurement, models: Collection[ModelVersion], snapshots: Snapshots
) -> Iterator[str]:
    """A sentence for each way in which two measurements that are compared are unlike, or compute unlike outputs."""
    if first.target != second.target:
        yield f"targets differ: {first.target} and {second.target}"
    processors = [processor_at(one, snapshots) for one in (first, second)]
    if processors[0] != processors[1]:
        yield f"processors differ: {processors[0]} and {processors[1]}"
    checks = check_outputs([first, second], models)
    if first.model_digest != second.model_digest:
        yield from _versions(first, second, {model.digest: model for model in models})
        yield from _rounded(first, second, checks)
    yield from unequal([first, second])
    for one in (first, second):
        found = marks(one)
        if first.id == second.id and found == (Mark.DISTURBED,):
            continue  # beside itself nothing can have become slower by that
        if found:
            yield f"{one.model_name} on {engine_label(one)} is {' and '.join(found)}: {'; '.join(doubts(one))}"
    yield from dict.fromkeys(check.problem for check in checks.values() if check.problem)


_ASKED = {
    "device": "the device differs",
    "batch": "the batch differs",
    "place": "the cores differ",
    "streams": "the streams differ",
    "precision": "the requested precision differs",
    "hint": "the hint differs",
    "load": "the load differs",
    "requests": "the requests differ",
    "arrivals": "the arrivals differ",
}
"""What is asked of a measurement apart from its model, engine and options, and how it is said that two differ in it."""


def pair_remarks(compared: Iterable[Compared]) -> Iterator[Remark]:
    """What limits the verdicts, each with the pair it is of."""
    for one in compared:
        sides = (one.first, one.second)
        about = f"{model_words(one)} on {' and '.join(sides_words(one))}, {asked_words(one, attrgetter('in_words'))}"
        names = tuple(f"{side.model_name} on {engine_label(side)}" for side in sides)
        for sentence in filter(None, (*one.remarks, one.comparison.note)):
            yield Remark(about, sentence, names, of=" ".join(side.id for side in sides))


def with_unlike_work(compared: Compared) -> Compared:
    """The same, with what was not asked of both alike said first: benchmarks pair what was, and a person anything."""
    return replace(compared, remarks=(*unlike_work(compared.first, compared.second), *compared.remarks))


def unlike_work(first: Measurement, second: Measurement) -> Iterator[str]:
    """In what that was asked of them two measurements differ, apart from model, engine and options."""
    for axis, differs in _ASKED.items():
        one, other = (getattr(side.configuration, axis) for side in (first, second))
        if one != other:
            yield f"{differs}: {one or 'none'} and {other or 'none'}"


def _versions(first: Measurement, second: Measurement, models: Mapping[str, ModelVersion]) -> Iterator[str]:
    """How two versions of a model came about; copies for another batch are the model itself."""
    left, right = (list(lineage(one.model_digest, models)) for one in (first, second))
    if left[-1] != right[-1]:
        yield f"model files differ: {first.model_digest[:12]} and {second.model_digest[:12]}"
        if first.model_name != second.model_name:
            yield f"nothing tells that {first.model_name} and {second.model_name} are versions of one model"
        return
    for one, own, others in ((first, left, right), (second, right, left)):
        made = [models[digest].derivation for digest in own if digest in models and digest not in others]
        if told := [str(one) for one in made if one and one.kind is not DerivationKind.REBATCHED]:
            yield f"{one.model_name} is a version of {_name(others, own, models)}: {', then '.join(reversed(told))}"


def _name(others: Sequence[str], own: Sequence[str], models: Mapping[str, ModelVersion]) -> str:
    """What the newest version that both stem from is called."""
    common = next(digest for digest in own if digest in others)
    return models[common].name if common in models else common[:12]


def _rounded(first: Measurement, second: Measurement, checks: Mapping[str, OutputCheck]) -> Iterator[str]:
    """How far outputs are apart that are to be the same but for rounding: a gain in speed is paid for with that."""
    for one, other in ((first, second), (second, first)):
        check = checks.get(one.id)
        error = check.max_relative_error if check and not check.problem else None
        if check and error is not None and check.tolerance and math.isfinite(check.tolerance):
            yield _how_far(one.model_name, other.model_name, error, check, check.tolerance)


_ERROR_OF = {
    ErrorOf.LARGEST_VALUE: "of the largest value",
    ErrorOf.ELEMENTS: "of the elements",
    ErrorOf.EITHER: "of the largest value (outputs of integers: of the elements)",
}


def _how_far(name: str, other: str, nearest: float, check: OutputCheck, tolerance: float) -> str:
    """In words. The output nearest to its bound need not be the farthest: rounding explains more of one with noise."""
    farthest, share = check.largest_relative_error, _ERROR_OF[check.error_of]
    verb = "differ in" if check.error_of is ErrorOf.ELEMENTS else "differ by"
    explained = f"{100 * tolerance:.3g}% is what rounding explains"
    if farthest is None:  # as one of them could not be compared
        return (
            f"of the outputs of {name} that can be compared with those of {other}, on the inputs measured, the one "
            f"nearest to its bound {verb.replace('differ', 'differs')} {nearest:.2%} {share} ({explained} of it)"
        )
    if farthest > nearest:
        explained = f"the one nearest to its bound by {nearest:.2%}: {explained} of it"
    return (
        f"outputs of {name} {verb} at most {farthest:.2%} {share} from those of {other}, on the inputs measured "
        f"({explained})"
    )


def _by_work(
    measurements: Iterable[Measurement], key: Callable[[Measurement], object]
) -> dict[object, list[Measurement]]:
    groups: dict[object, list[Measurement]] = defaultdict(list)
    for measurement in in_reading_order(measurements):
        if measurement.latency is not None:
            groups[key(measurement)].append(measurement)
    return groups


def _work(measurement: Measurement) -> tuple[object, ...]:
    """What was asked for, apart from the model, the engine and the precision."""
    asked = measurement.configuration
    axes = (asked.batch, asked.place, asked.streams, asked.hint, asked.load, asked.requests, asked.arrivals)
    return (asked.device, *axes)


def _where(measurement: Measurement) -> str:
    return measurement.target


def _engine(measurement: Measurement) -> tuple[str, str]:
    return measurement.engine.name, measurement.configuration.precision


Blocks = Mapping[str, Sequence[BlockLatency]]
"""The blocks of each measurement, by its id."""


def compare_cells(
    first: Measurement,
    others: Sequence[Measurement],
    blocks: Blocks,
    models: Collection[ModelVersion] = (),
    planned: Mapping[str, int] = NOTHING_ENDED_EARLY,
    snapshots: Snapshots = NO_SNAPSHOTS,
) -> tuple[Compared, ...]:
    """Compare each of the others with the first; p-values are corrected for their number.

    All must have numbers. The same as `compare_pairs`, to the rounding of medians. `models`, all those of the
    store, tell which versions are to compute the same; `planned` is `planned_processes`; `snapshots` tell of the
    machines.
    """
    sides = {one.id: _side(one, blocks.get(one.id, ()), planned.get(one.benchmark_id)) for one in (first, *others)}
    return _compare([(first, other) for other in others], sides, models, snapshots)


def _is_paired(first: Measurement, second: Measurement) -> bool:
    return first.interleaving_group is not None and first.interleaving_group == second.interleaving_group


def _side(measurement: Measurement, blocks: Sequence[BlockLatency], planned: int | None) -> Side:
    excluded = measurement.excluded_blocks
    counted = {(one.process, one.block): one.median_ns for one in blocks if (one.process, one.block) not in excluded}
    medians = {one.index: one.median_ns for one in measurement.processes if one.median_ns is not None}
    return Side(counted, medians, planned)
