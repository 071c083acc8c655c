"""What a search for a configuration stands on, and what is refused before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.graph.ceiling import ceiling, fewest_flops
from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.home import Home
from enginebench_controller.models.inputs.binding import given_shapes
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.expand import idle_options
from enginebench_controller.plan.points import Point, Space, compared, samples_of_limit, space, together
from enginebench_controller.plan.recommend import Goal, RecommendOrder, limit_words
from enginebench_controller.records import TargetSnapshot
from enginebench_controller.records.model import families
from enginebench_controller.stats.response import Axes
from enginebench_controller.verdicts.recommend.candidates import RateTerms, SearchTerms
from enginebench_controller.verdicts.recommend.for_all import OWN_SHARE
from enginebench_controller.verdicts.recommend.search import least_budget_s
from enginebench_proto.agreed.words import PROCESSOR

LOOK_S, CONFIRM_S, LONGEST_CONFIRM_S = 0.5, 1.0, 10.0
"""What is timed in a process; more where a limited percentile needs more inferences."""


@dataclass(frozen=True)
class SearchGround:
    """What a search stands on: what was asked, on which target, and among which points."""

    home: Home
    order: RecommendOrder
    target: TargetSnapshot
    space: Space
    terms: SearchTerms
    is_one_of_several: bool = False

    @property
    def own_terms(self) -> SearchTerms:
        """The terms of the target's own search: with several targets, what all have in common needs time as well."""
        if not self.is_one_of_several:
            return self.terms
        return replace(self.terms, budget_s=OWN_SHARE * self.terms.budget_s)

    @property
    def axes(self) -> list[Axes]:
        """The points' places on all axes."""
        return [one.axes for one in self.space.points]


def models_taking_part(home: Home, order: RecommendOrder, binder: Binder) -> tuple[str, ...]:
    """The models that take part: those named, and with `versions` all of their families that are no mere copies."""
    names = tuple(dict.fromkeys(order.models))
    if not order.versions:
        return names
    here = {one.digest: one for one in (*home.library.versions(), *binder.versions)}
    family = families([*home.store.models(), *here.values()])
    mine = {family[one.digest] for one in binder.versions}
    taken = {one.digest for one in binder.versions}
    others = [
        one.digest
        for one in here.values()
        if family[one.digest] in mine and one.digest not in taken and one.original_digest == one.digest
    ]
    binder.resolve(others)
    return (*names, *others)


def search_ground(
    home: Home,
    order: RecommendOrder,
    target: TargetSnapshot,
    binder: Binder,
    models: Sequence[str],
    *,
    is_one_of_several: bool = False,
) -> SearchGround:
    """Raises `InputError` for an empty space, a limit that nothing can hold, and a budget that tells nothing."""
    points = space(order, target, binder, models, (*home.store.models(), *home.library.versions()))
    _check_limit(home, order, target, points)
    limit = order.latency_limit
    needed_s = 0.0 if limit is None else 1.2 * samples_of_limit(limit) * limit.limit_ns / 1e9
    terms = SearchTerms(
        budget_s=order.budget_s,
        limits=len(tuple(limit_words(order))),
        together=together(points.points, target.host.memory_bytes),
        look_s=LOOK_S,
        confirm_s=min(LONGEST_CONFIRM_S, max(CONFIRM_S, needed_s)),
        first=tuple(place for place, one in enumerate(points.points) if one.is_default),
        work=tuple(_work(one) for one in points.points),
        compared=compared(points.points),
        rate=None if order.goal is not Goal.RATE else RateTerms(samples=samples_of_limit(limit)),
    )
    least_s = least_budget_s(len(points.points), terms) / (OWN_SHARE if is_one_of_several else 1)
    if terms.budget_s < least_s:
        raise InputError(
            f"--budget {order.budget} is too short to tell anything of {len(points.points)} points: starting engines "
            f"and measuring the best again takes about {least_s:.0f} s; give {_rounded(least_s)} or more"
        )
    return SearchGround(home, order, target, points, terms, is_one_of_several)


def _work(point: Point) -> float:
    """How long a process of a point takes, in relation: half a start where it is one item on one core."""
    asked = point.case.configuration
    return 1 + asked.batch / asked.cores / 2


def _rounded(seconds: float) -> str:
    return f"{-(-seconds // 10) * 10:.0f}s" if seconds < 120 else f"{-(-seconds // 60):.0f}m"


def _check_limit(home: Home, order: RecommendOrder, target: TargetSnapshot, points: Space) -> None:
    """Raise `InputError` for a latency that no point's work allows, by the target's processor and all its cores."""
    limit = order.latency_limit
    if limit is None or any(list(one.case.resources) != [PROCESSOR] for one in points.points):
        return
    largest_first = sorted(points.points, key=lambda one: -one.case.configuration.batch)
    smallest = {one.case.model.original_digest: one for one in largest_first}
    cores = max(one.case.configuration.cores for one in points.points)
    least_ns = min(_least_ns(home, target, one, cores) for one in smallest.values())
    if least_ns > limit.limit_ns:
        raise InputError(
            f"--max-latency {order.max_latency} cannot be held: the work of {', '.join(order.models)} takes at least "
            f"{least_ns / 1e6:.3g} ms on this processor, whatever the engine"
        )


def _least_ns(home: Home, target: TargetSnapshot, point: Point, cores: int) -> float:
    """The nanoseconds below which an inference cannot be; 0 where nobody can tell."""
    asked, path = point.case.configuration, home.library.main_path(point.case.model)
    if path.suffix != ".onnx":
        return 0.0
    try:
        graph = read_source_graph(path, given_shapes(asked.inputs), asked.batch)
        found = ceiling(fewest_flops(graph, node_costs(graph)), "int8", cores, target.host.isa, None)
    except EnginebenchError:  # a model that cannot be looked into has no bound
        return 0.0
    return 0.0 if found is None else 1e9 * found.flops / found.flops_per_s


def about(ground: SearchGround) -> list[str]:
    """What is to be known before anything is measured."""
    count, engines = len(ground.space.points), {one.case.engine.name for one in ground.space.points}
    told = [
        f"{count} point{'s' if count != 1 else ''} on {', '.join(sorted(engines))} of target {ground.target.target}"
    ]
    told += [f"note: {sentence}" for sentence in ground.space.notes]
    impossible = sum(ground.space.impossible.values())
    told += [f"note: {impossible} more cannot be: {next(iter(ground.space.impossible))}"] if impossible else []
    known = {one.name for one in ground.target.engines}
    idle = idle_options(ground.order.fields.get("options", {}), engines, known)
    told += [f"note: {sentence}" for sentence in idle]
    if ground.space.thinned:
        told.append(f"note: {ground.space.thinned} more are left out: --among and --fix choose")
    return told
