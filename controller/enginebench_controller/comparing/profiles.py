"""Profiles compared: each of several with the first one, layer by layer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.comparing.layer_rows import LayerRow, PeakShares, Verdict, layer_rows
from enginebench_controller.comparing.layer_times import mean_time
from enginebench_controller.comparing.layer_types import (
    Transition,
    TypeRow,
    transitions,
    types_by_engine,
    types_by_operator,
)
from enginebench_controller.comparing.settings import SettingDifference, settings_that_differ, unlike
from enginebench_controller.comparing.words import UNKNOWN, milliseconds, percent
from enginebench_controller.errors import InputError
from enginebench_controller.model.layer_rooflines import rooflines
from enginebench_controller.model.matching import Join, join
from enginebench_controller.model.matching.words import family
from enginebench_controller.model.stored_graph import matched_profile, named_profile
from enginebench_controller.prospects import Advice, advise
from enginebench_controller.records import Peak, Profile
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL
from enginebench_controller.stats.mean_ratio import MeanRatio, compare_means
from enginebench_controller.stats.profiles import ratio
from enginebench_controller.trust.parity import engine_label


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
    over the inferences of these two passes. `types` are by the model's operators, `engine_types` in engines' words.
    """

    first: Profile
    second: Profile
    latency_ratio: float | None
    layers: MeanRatio | None
    coverage: JoinCoverage
    types: tuple[TypeRow, ...]
    engine_types: tuple[TypeRow, ...]
    transitions: tuple[Transition, ...]
    rows: tuple[LayerRow, ...]
    remarks: tuple[str, ...]

    def count(self, verdict: Verdict) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict is verdict for row in self.rows)


@dataclass(frozen=True)
class ProfileComparison:
    """Two or more profiles, each compared with the first. `settings` differ between any of them."""

    profiles: tuple[Profile, ...]
    pairs: tuple[ProfilePair, ...]
    settings: tuple[SettingDifference, ...]
    remarks: tuple[str, ...]
    practical: float
    advice: tuple[Advice, ...] = ()


def compare_profiles(
    profiles: Sequence[Profile], peaks: Sequence[Peak] = (), practical: float = LAYERS_PRACTICAL
) -> ProfileComparison:
    """Compare whole profiles with the first; `peaks` are those of their targets.

    Raises `InputError` for fewer than two, or for one without layers.
    """
    _check(profiles)
    first = profiles[0]
    shares = {one.id: _peak_shares(one, peaks) for one in profiles}
    return ProfileComparison(
        profiles=tuple(profiles),
        pairs=tuple(_pair((first, other), shares, practical) for other in profiles[1:]),
        settings=settings_that_differ(profiles),
        remarks=unlike(profiles),
        practical=practical,
        advice=tuple(_advice(profiles, peaks)),
    )


def _peak_shares(profile: Profile, peaks: Sequence[Peak]) -> tuple[float | None, ...]:
    return tuple(place.share if place else None for place in rooflines(profile, peaks))


def _advice(profiles: Sequence[Profile], peaks: Sequence[Peak]) -> Iterator[Advice]:
    for place, one in enumerate(profiles):
        own = [peak for peak in peaks if peak.target == one.target]
        yield from advise(one, profiles[0] if place else None, own)


def _check(profiles: Sequence[Profile]) -> None:
    if len(profiles) < 2:
        raise InputError("a comparison needs two profiles or more; name another one")
    for one in profiles:
        if not one.layers:
            why = f": {one.failure.message}" if one.failure else ""
            raise InputError(f"profile {one.id} ({one.name}, {engine_label(one)}) has no layers to compare{why}")


def _pair(profiles: tuple[Profile, Profile], peaks: PeakShares, practical: float) -> ProfilePair:
    first, second = profiles
    joined = _join(profiles)
    rows = layer_rows(profiles, joined, peaks, practical)
    return ProfilePair(
        first=first,
        second=second,
        latency_ratio=ratio(second.unprofiled_latency_ns, first.unprofiled_latency_ns),
        layers=_compare_sums(profiles),
        coverage=_coverage(profiles, joined),
        types=types_by_operator(profiles, joined, rows),
        engine_types=types_by_engine(profiles),
        transitions=transitions(rows),
        rows=rows,
        remarks=tuple(_remarks(profiles)),
    )


def _join(profiles: tuple[Profile, Profile]) -> Join:
    """By source nodes; by the engine's names where neither side has a graph and both ran on the same engine."""
    if not any(one.nodes for one in profiles) and len({one.engine.name for one in profiles}) == 1:
        return join(*map(named_profile, profiles))
    return join(*map(matched_profile, profiles))


def _compare_sums(profiles: tuple[Profile, Profile]) -> MeanRatio | None:
    first, second = (mean_time(one.layers) for one in profiles)
    return None if first is None or second is None else compare_means(first, second)


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


def precisions(counts: Mapping[str, int]) -> str:
    """Layers by precision: `f32 ×53`."""
    return ", ".join(f"{name or UNKNOWN} ×{count}" for name, count in sorted(counts.items()))


def verdicts(pair: ProfilePair) -> str:
    """How many rows are what: "3 better, 1 worse, 50 within noise"."""
    rest = sum(row.verdict is None for row in pair.rows if row.slowest_ns)
    counted = [f"{pair.count(verdict)} {verdict}" for verdict in Verdict]
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
    """What the verdicts know and what they do not."""
    first, second = pair.first.iterations, pair.second.iterations
    seen = f"{first} and {second} inferences" if first and second else "the inferences"
    return (
        f"verdicts are over {seen} of one process each, corrected for {pair.coverage.joined_rows} rows: "
        "equal processes can differ by more"
    )
