"""Profiles compared: each of several with the first one, layer by layer."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from enginebench_controller.errors import InputError
from enginebench_controller.graph.matching.kinds import family
from enginebench_controller.graph.matching.matched import ADDED, Join, RowPart, matched_profile, named_profile, total_ns
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.graph.roofline import rooflines
from enginebench_controller.records import Layer, Peak, Profile
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL
from enginebench_controller.stats.layers import (
    Mean,
    MeanRatio,
    compare_means,
    mean_time,
    ratio,
    sum_of,
)
from enginebench_controller.verdicts.layers.advice import Advice
from enginebench_controller.verdicts.layers.disagreement import disagreement
from enginebench_controller.verdicts.layers.rows import LayerRow, LayerVerdict, PeakShares, layer_rows, plain_precision
from enginebench_controller.verdicts.layers.summary import SettingDifference, letter, settings_that_differ, unlike
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import UNKNOWN, change_words, milliseconds, percent


@dataclass(frozen=True)
class TypeSide:
    """One profile's timed layers of a type: their time, its share, their number, and their number by precision.

    A side without any has no time, which is not a time of 0. Precisions are the engine's words, made comparable.
    """

    time_ns: int | None = None
    share: float | None = None
    layers: int = 0
    precisions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TypeRow:
    """A type on both sides."""

    type: str
    first: TypeSide
    second: TypeSide


@dataclass(frozen=True)
class Transition:
    """Rows of one operator that ran in one precision on the first side, and in another or the same on the second."""

    operator: str
    first: str
    second: str
    rows: int
    first_ns: int
    second_ns: int

    @property
    def is_change(self) -> bool:
        """Whether both sides tell theirs, and another one."""
        return bool(self.first and self.second) and self.first != self.second


def types_by_operator(profiles: tuple[Profile, Profile], join: Join, rows: Sequence[LayerRow]) -> tuple[TypeRow, ...]:
    """By the operator of the model that a row stands for, so that Conv and Convolution are one; slowest first."""
    names = [row.operator for row in rows]
    return _table([_timed(profile, _side_types(join, names, side)) for side, profile in enumerate(profiles)])


def types_by_engine(profiles: tuple[Profile, Profile]) -> tuple[TypeRow, ...]:
    """By each engine's own words; slowest first."""
    return _table([_timed(profile, [layer.type for layer in profile.layers]) for profile in profiles])


def transitions(rows: Iterable[LayerRow]) -> tuple[Transition, ...]:
    """What became of the precisions of the rows that both sides executed, most time of the first side first."""
    groups: dict[tuple[str, str, str], list[LayerRow]] = defaultdict(list)
    for row in rows:
        if row.is_joined:
            groups[row.operator, row.first.precision, row.second.precision].append(row)
    found = [_transition(*key, own) for key, own in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.first_ns, one.operator, one.first, one.second)))


def _transition(operator: str, first: str, second: str, rows: Sequence[LayerRow]) -> Transition:
    times = [[side.time_ns or 0 for side in (row.first, row.second)] for row in rows]
    return Transition(operator, first, second, len(rows), *(sum(side) for side in zip(*times, strict=True)))


def _side_types(join: Join, names: Sequence[str], which: int) -> list[str]:
    types: dict[int, str] = {}
    for row, name in zip(join.rows, names, strict=True):
        side: RowPart = row.sides[which]
        types.update(dict.fromkeys(side.layers, name))
    return [types[position] for position in range(len(types))]


def _timed(profile: Profile, types: Sequence[str]) -> dict[str, list[Layer]]:
    found: dict[str, list[Layer]] = defaultdict(list)
    for layer, name in zip(profile.layers, types, strict=True):
        if layer.time_ns:
            found[name].append(layer)
    return found


def _table(sides: Sequence[Mapping[str, Sequence[Layer]]]) -> tuple[TypeRow, ...]:
    totals = [sum(map(total_ns, side.values())) for side in sides]
    names = dict.fromkeys(name for side in sides for name in side)
    rows = [
        TypeRow(name, *(_type_side(side.get(name, ()), total) for side, total in zip(sides, totals, strict=True)))
        for name in names
    ]
    slowest: Callable[[TypeRow], int] = lambda row: max(row.first.time_ns or 0, row.second.time_ns or 0)  # noqa: E731
    return tuple(sorted(rows, key=lambda row: (-slowest(row), row.type)))


def _type_side(layers: Sequence[Layer], total: int) -> TypeSide:
    if not layers:
        return TypeSide()
    time = total_ns(layers)
    precisions = Counter(plain_precision(layer.precision) for layer in layers)
    return TypeSide(time, time / total if total else None, len(layers), dict(precisions))


@dataclass(frozen=True)
class OperatorCoverage:
    """How many source nodes of an operator each graph has, and how many of them stand in rows that both executed.

    Those with a counterpart in their row: `matched` is the smaller number of the two, row by row.
    """

    operator: str
    first: int
    second: int
    matched: int


@dataclass(frozen=True)
class JoinCoverage:
    """How much of each side's time stands in rows that both executed: joined + the rest = total, exactly, in ns.

    `largest_share` is the largest part of a model's nodes in one joined row: near 1, the join would tell nothing.
    """

    total_ns: tuple[int, int]
    joined_ns: tuple[int, int]
    rows: int
    joined_rows: int
    exact_rows: int
    largest_share: float
    operators: tuple[OperatorCoverage, ...]

    @property
    def shares(self) -> tuple[float | None, float | None]:
        """The joined part of each side's time; None where no time was measured."""
        first, second = (ratio(*one) for one in zip(self.joined_ns, self.total_ns, strict=True))
        return first, second


@dataclass(frozen=True)
class ProfilePair:
    """The second profile compared with the first.

    `latency_ratio` is that of the unprofiled medians, of one pass each. `layers` compares Σ layers, with an interval
    over the inferences of these two passes. So does `added` compare the first's with what these would be, were the
    reorders and conversions that only the second executed in the place of all that only the first did. `types` are by
    the model's operators, `engine_types` in engines' words.
    """

    first: Profile
    second: Profile
    latency_ratio: float | None
    layers: MeanRatio | None
    added: MeanRatio | None
    coverage: JoinCoverage
    types: tuple[TypeRow, ...]
    engine_types: tuple[TypeRow, ...]
    transitions: tuple[Transition, ...]
    rows: tuple[LayerRow, ...]
    remarks: tuple[str, ...]

    @property
    def sides(self) -> tuple[Profile, Profile]:
        """Both profiles."""
        return self.first, self.second

    @property
    def are_strangers(self) -> bool:
        """Whether the sides are two models without a node in common, as far as both have a graph that layers ran."""
        first, second = self.sides
        if first.model_digest == second.model_digest or not all(one.nodes and _is_matched(one) for one in self.sides):
            return False
        return not any(row.first.nodes and row.second.nodes for row in self.rows)

    def count(self, verdict: LayerVerdict) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict is verdict for row in self.rows)


def _is_matched(profile: Profile) -> bool:
    return any(layer.group is not None for layer in profile.layers)


@dataclass(frozen=True)
class ProfileComparison:
    """Two or more profiles, each compared with the first. `settings` differ between any of them.

    The `advice` is that of `advisor.advised`, where somebody asked.
    """

    profiles: tuple[Profile, ...]
    pairs: tuple[ProfilePair, ...]
    settings: tuple[SettingDifference, ...]
    remarks: tuple[str, ...]
    practical: float
    advice: tuple[Advice, ...] = ()


def compare_profiles(
    profiles: Sequence[Profile],
    peaks: Sequence[Peak] = (),
    practical: float = LAYERS_PRACTICAL,
) -> ProfileComparison:
    """Compare whole profiles with the first; `peaks` are those of their targets.

    Raises `InputError` for fewer than two, or for one without layers.
    """
    _check(profiles)
    first = profiles[0]
    shares = {one.id: _peak_shares(one, peaks) for one in profiles}
    return ProfileComparison(
        profiles=tuple(profiles),
        pairs=tuple(
            _pair((first, one), letter(place), shares, practical) for place, one in enumerate(profiles[1:], start=1)
        ),
        settings=settings_that_differ(profiles),
        remarks=unlike(profiles),
        practical=practical,
    )


def _peak_shares(profile: Profile, peaks: Sequence[Peak]) -> tuple[float | None, ...]:
    return tuple(place.share if place else None for place in rooflines(profile, peaks))


def _check(profiles: Sequence[Profile]) -> None:
    if len(profiles) < 2:
        raise InputError(
            "a comparison needs two profiles or more; name another one, as `enginebench profiles list` has them"
        )
    for one in profiles:
        if not one.layers:
            why = f": {one.failure.message}" if one.failure else ""
            raise InputError(f"profile {one.id} ({one.name}, {engine_label(one)}) has no layers to compare{why}")


def _pair(profiles: tuple[Profile, Profile], other: str, peaks: PeakShares, practical: float) -> ProfilePair:
    first, second = profiles
    joined = _join(profiles)
    rows = layer_rows(profiles, joined, peaks, practical)
    found = ProfilePair(
        first=first,
        second=second,
        latency_ratio=ratio(second.unprofiled_latency_ns, first.unprofiled_latency_ns),
        layers=_compare_sums(profiles),
        added=_compare_added(profiles, joined, rows),
        coverage=_coverage(profiles, joined),
        types=types_by_operator(profiles, joined, rows),
        engine_types=types_by_engine(profiles),
        transitions=transitions(rows),
        rows=rows,
        remarks=tuple(_remarks(profiles)),
    )
    apart = disagreement(profiles, other, found.latency_ratio, found.layers.ratio if found.layers else None)
    return replace(found, remarks=(*found.remarks, *_strangeness(found), *apart))


def _join(profiles: tuple[Profile, Profile]) -> Join:
    """By source nodes; by the engine's names where neither side has a graph and both ran on the same engine."""
    if not any(one.nodes for one in profiles) and len({one.engine.name for one in profiles}) == 1:
        return join(*map(named_profile, profiles))
    return join(*map(matched_profile, profiles))


def _compare_sums(profiles: tuple[Profile, Profile]) -> MeanRatio | None:
    first, second = (mean_time(one.layers) for one in profiles)
    return None if first is None or second is None else compare_means(first, second)


def _compare_added(profiles: tuple[Profile, Profile], joined: Join, rows: Sequence[LayerRow]) -> MeanRatio | None:
    gone: list[Layer] = []
    come: list[Layer] = []
    for row, parts in zip(rows, joined.rows, strict=True):
        if row.is_of_first:
            gone += [profiles[0].layers[place] for place in parts.sides[0].layers]
        elif row.is_of_second and row.category in ADDED:
            come += [profiles[1].layers[place] for place in parts.sides[1].layers]
    total = mean_time(profiles[0].layers)
    less, more = (mean_time(layers) if layers else Mean(0.0, 0.0, 1.0) for layers in (gone, come))
    if total is None or less is None or more is None:
        return None
    # Wider than it need be: what stays the same is uncertain on both sides, as if it were not the same.
    return compare_means(total, sum_of([total, replace(less, value=-less.value), more]))


def _coverage(profiles: tuple[Profile, Profile], joined: Join) -> JoinCoverage:
    return JoinCoverage(
        total_ns=(joined.total_ns[0], joined.total_ns[1]),
        joined_ns=(joined.joined_ns[0], joined.joined_ns[1]),
        rows=len(joined.rows),
        joined_rows=joined.joined_rows,
        exact_rows=joined.exact_rows,
        largest_share=joined.largest_share,
        operators=_operators(profiles, joined),
    )


def _operators(profiles: tuple[Profile, Profile], joined: Join) -> tuple[OperatorCoverage, ...]:
    totals = [_count(family(node.op_type) for node in one.nodes if not node.folded) for one in profiles]
    matched: dict[str, int] = {}
    for row in joined.rows:
        if row.is_joined:
            held = [
                _count(family(one.nodes[node].op_type) for node in side.nodes if one.nodes)
                for one, side in zip(profiles, row.sides, strict=True)
            ]
            for name in held[0].keys() & held[1].keys():
                matched[name] = matched.get(name, 0) + min(held[0][name], held[1][name])
    names = sorted(totals[0].keys() | totals[1].keys())
    return tuple(
        OperatorCoverage(name, totals[0].get(name, 0), totals[1].get(name, 0), matched.get(name, 0)) for name in names
    )


def _count(names: Iterator[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


def _remarks(profiles: tuple[Profile, Profile]) -> Iterator[str]:
    if not any(one.nodes for one in profiles):
        if len({one.engine.name for one in profiles}) == 1:
            yield "neither side has an ONNX graph: layers are joined by the names that the engine gives them"
        else:
            yield "neither side has an ONNX graph: no layer of the one is known to be one of the other"


def _strangeness(pair: ProfilePair) -> Iterator[str]:
    if pair.are_strangers:
        yield (
            "no node of the one model is known to be one of the other's, so that of two times neither is better or "
            "worse, and no condition on them is decided"
        )


def told_remarks(pairs: Sequence[ProfilePair]) -> Iterator[str]:
    """What is to be said of the pairs, each sentence once; of several pairs with the letters of those that it is of."""
    letters: dict[str, list[str]] = {}
    for place, pair in enumerate(pairs, start=1):
        for remark in pair.remarks:
            letters.setdefault(remark, []).append(letter(place))
    for remark, own in letters.items():
        yield f"{', '.join(own)} against A: {remark}" if len(pairs) > 1 else remark


def whole_sentence(pair: ProfilePair, other: str) -> str:
    """What both come to as a whole: by the latency without counters, and by the sum of the layers."""
    latency, sums = (f"{value} ({note})" for value, note in (latency_words(pair, other), sum_words(pair, other)))
    strangers = ""
    if pair.are_strangers:
        names = f"{pair.second.model_name} and {pair.first.model_name}"
        strangers = f"{other} and A are two different models, {names}: nothing is compared layer by layer. "
    return f"{strangers}{other} against A, median latency without counters: {latency}; Σ layers: {sums}"


def latency_words(pair: ProfilePair, other: str) -> tuple[str, str]:
    """The ratio of the latencies without counters, and what it is of."""
    if pair.latency_ratio is None:
        return UNKNOWN, "not known on both sides"
    first, second = (milliseconds(one.unprofiled_latency_ns) for one in pair.sides)
    note = f"A {first} ms, {other} {second} ms: {change_words(pair.latency_ratio)}; one process each"
    return f"× {pair.latency_ratio:.3f}", note


def sum_words(pair: ProfilePair, other: str) -> tuple[str, str]:
    """The ratio of the sums of layers, and what it is of."""
    first, second = map(milliseconds, pair.coverage.total_ns)
    note, found = f"A {first} ms, {other} {second} ms", pair.layers
    if found is None or found.ratio is None:
        return UNKNOWN, note
    known = found.low is not None and found.high is not None
    interval = f"95 % interval {found.low:.3f} to {found.high:.3f}" if known else "too noisy for an interval"
    return f"× {found.ratio:.3f}", f"{note}; {interval}"


def precisions(counts: Mapping[str, int]) -> str:
    """Layers by precision: `f32 ×53`."""
    return ", ".join(f"{name or UNKNOWN} ×{count}" for name, count in sorted(counts.items()))


def verdicts(pair: ProfilePair) -> str:
    """How many rows are what: "3 better, 1 worse, 50 within noise"."""
    rest = sum(row.verdict is None for row in pair.rows if row.slowest_ns)
    counted = [f"{pair.count(verdict)} {verdict}" for verdict in LayerVerdict]
    return ", ".join([*counted, *([f"{rest} on one side only or untold"] if rest else [])])


def joined_sentence(pair: ProfilePair, other: str) -> str:
    """How much of the time stands in joined rows, and that nothing is lost."""
    coverage = pair.coverage
    parts = [
        f"{percent(share)} % of {side}'s {milliseconds(total)} ms"
        for side, share, total in zip(("A", other), coverage.shares, coverage.total_ns, strict=True)
    ]
    return (
        f"{' and '.join(parts)} stand in {coverage.joined_rows} joined rows ({coverage.exact_rows} of the very same "
        f"nodes, the largest of {percent(coverage.largest_share)} % of them); all rows add up to the totals exactly"
    )


def how_sure(pair: ProfilePair) -> str:
    """What the verdicts know and what they do not, or why there are none."""
    if means := sum(one.tells_means for one in pair.sides):
        return f"times of {('one side', 'both sides')[means - 1]} are means, without the spread that verdicts need"
    first, second = pair.first.iterations, pair.second.iterations
    seen = f"{first} and {second} inferences" if first and second else "the inferences"
    return (
        f"verdicts are over {seen} of one process each, corrected for {pair.coverage.joined_rows} rows: "
        "equal processes can differ by more"
    )
