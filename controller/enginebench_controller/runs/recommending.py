"""A recommendation carried out: the space, then step after step as the policy says, and the answer, which is stored."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.graph.ceiling import ceiling, fewest_flops
from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.models.inputs.binding import given_shapes
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.expand import Expansion
from enginebench_controller.plan.plan import SearchStep
from enginebench_controller.plan.points import Point, Space, samples_of_limit, space, step_plan, together
from enginebench_controller.plan.recommend import RecommendOrder, common_plan, make_order
from enginebench_controller.records import Benchmark, Search, SearchKind, TargetSnapshot
from enginebench_controller.records.model import families
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_in_session
from enginebench_controller.runs.execution import SoFar
from enginebench_controller.runs.remote_run import Reporter
from enginebench_controller.runs.resuming import ResumeOrder
from enginebench_controller.runs.searching import held, new_search, take_up_step
from enginebench_controller.stats.response import Axes
from enginebench_controller.targets.session import TargetSession, open_session
from enginebench_controller.verdicts.recommend.answer import (
    Recommendation,
    limit_words,
    recommendation,
    recommendation_document,
)
from enginebench_controller.verdicts.recommend.candidates import SearchTerms, Step, StepPurpose
from enginebench_controller.verdicts.recommend.search import SearchAnswer, answer, least_budget_s, next_step
from enginebench_controller.verdicts.recommend.steps import StoredStep, step_of, stored_step
from enginebench_proto.agreed.words import PROCESSOR

LOOK_S, CONFIRM_S, LONGEST_CONFIRM_S = 0.5, 1.0, 10.0
"""What is timed in a process; more where a limited percentile needs more inferences."""
GRACE_S = 20.0
"""A step that has begun may go on for so long after the budget: engines start slowly."""


class RecommendWatcher(Reporter, Protocol):
    """Who wants to know how a search is coming along."""

    def set_out(self, search: Search) -> None:
        """The search is in the store, and begins or goes on."""

    def said(self, sentence: str) -> None:
        """Something to know."""

    def learning(self, what: str, seconds_left: float) -> None:
        """What the step is to tell that begins now."""

    def broken_off(self, so_far: Recommendation) -> None:
        """What could be said when it was cancelled."""


@dataclass(frozen=True)
class _Ground:
    """What a search stands on: what was asked, on which target, and among which points."""

    home: Home
    order: RecommendOrder
    target: TargetSnapshot
    space: Space
    terms: SearchTerms

    @property
    def axes(self) -> list[Axes]:
        """The points' places on all axes."""
        return [one.axes for one in self.space.points]


class _Until:
    """Ends a step that goes on for too long after the budget."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def seconds_left(self) -> float:
        """See `execution.Enough`."""
        return max(0.0, self._ends - time.monotonic())

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        """See `execution.Enough`."""
        return False


async def recommend(home: Home, order: RecommendOrder, watcher: RecommendWatcher) -> tuple[Search, Recommendation]:
    """Search for what was asked, and store the answer.

    Raises `InputError` or `ModelError` before anything is measured, `UnreachableError` when the target does not answer.
    Cancelled, it tells the best so far, as unconfirmed, and can be gone on with.
    """
    search = new_search(SearchKind.RECOMMEND, ", ".join(order.models), order.document())
    with held(home, search.id):
        return search, await _carry_out(home, search, order, watcher, is_new=True)


async def go_on(home: Home, search: Search, watcher: RecommendWatcher, *, trusted: bool) -> Recommendation:
    """Go on with a search that was interrupted: what was measured counts, and the step under way is finished."""
    order = make_order(search.order).model_copy(update={"trusted": trusted})
    with held(home, search.id):
        await take_up_step(home, search, ResumeOrder(trusted=trusted), lambda *_: watcher)
        return await _carry_out(home, search, order, watcher, is_new=False)


async def _carry_out(
    home: Home, search: Search, order: RecommendOrder, watcher: RecommendWatcher, *, is_new: bool
) -> Recommendation:
    plan = common_plan(order)
    binder = Binder(home, plan, _digests(home.store.steps_of(search.id)))
    await in_thread(binder.resolve, list(dict.fromkeys(order.models)))
    models = await in_thread(_models, home, order, binder)
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session(home, plan.targets, trusted_models=trusted))
        ground = await in_thread(_ground, home, order, session.snapshots[0], binder, models)
        for sentence in _about(ground):
            watcher.said(sentence)
        if is_new:
            await asyncio.to_thread(home.store.add_search, search)
        watcher.set_out(search)
        return await _search(ground, search, session, binder, watcher)


async def _search(
    ground: _Ground, search: Search, session: TargetSession, binder: Binder, watcher: RecommendWatcher
) -> Recommendation:
    """Ask the policy, do as it says, and so on until it answers."""
    store = ground.home.store
    done = await asyncio.to_thread(_stored, ground, search)
    try:
        while isinstance(step := next_step(ground.axes, ground.terms, [one.taken for one in done]), Step):
            watcher.learning(_title(step), _left_s(ground, done))
            benchmark = await _take(ground, search, step, done, session, binder, watcher)
            read = (store, ground.order, ground.space.points, step, benchmark, tuple(done), time.time_ns())
            done.append(await asyncio.to_thread(stored_step, *read))
    except asyncio.CancelledError:
        if done:
            watcher.broken_off(_told(ground, done, _best_so_far(ground, done)))
        raise
    found = _told(ground, done, step)
    await asyncio.to_thread(store.answer_search, search.id, recommendation_document(found))
    return found


def _stored(ground: _Ground, search: Search) -> list[StoredStep]:
    """The steps that were carried out already, each until the next began."""
    begun = {one.plan["search"]["step"]: one for one in ground.home.store.steps_of(search.id)}
    benchmarks = [begun[number] for number in sorted(begun)]
    ends = [*(one.created_at_unix_ns for one in benchmarks[1:]), None]
    done: list[StoredStep] = []
    for benchmark, ended in zip(benchmarks, ends, strict=False):
        step = step_of(ground.space.points, benchmark, ground.terms.look_s)
        points = ground.space.points
        done.append(stored_step(ground.home.store, ground.order, points, step, benchmark, tuple(done), ended))
    return done


def so_far(home: Home, search: Search) -> Recommendation | None:
    """What the stored steps of a search without an answer tell, unconfirmed; None without any."""
    order = make_order(search.order)
    steps = home.store.steps_of(search.id)
    if not steps:
        return None
    binder = Binder(home, common_plan(order), _digests(steps))
    binder.resolve(list(dict.fromkeys(order.models)))
    ground = _ground(home, order, home.store.benchmark_snapshots(steps[0].id)[0], binder, _models(home, order, binder))
    done = _stored(ground, search)
    return _told(ground, done, _best_so_far(ground, done))


def _digests(steps: Sequence[Benchmark]) -> dict[str, str]:
    """The model versions that the names meant when the search began."""
    return {name: digest for one in steps for name, digest in one.plan["digests"].items()}


def _best_so_far(ground: _Ground, done: Sequence[StoredStep]) -> SearchAnswer:
    return answer(ground.axes, ground.terms, [one.taken for one in done], broken_off=True)


def _told(ground: _Ground, done: Sequence[StoredStep], told: SearchAnswer) -> Recommendation:
    return recommendation(ground.order, ground.target, ground.space, done, told)


async def _take(
    ground: _Ground,
    search: Search,
    step: Step,
    done: Sequence[StoredStep],
    session: TargetSession,
    binder: Binder,
    watcher: RecommendWatcher,
) -> Benchmark:
    points = [ground.space.points[place] for place in step.candidates]
    iterations = samples_of_limit(ground.order.latency_limit if step.purpose is StepPurpose.CONFIRM else None)
    named = SearchStep(id=search.id, step=len(done), title=_title(step))
    plan = step_plan(ground.order, points, step.rounds, step.process_s, iterations, named)

    def announce(expansion: Expansion, benchmark_id: str | None) -> Reporter:
        return watcher

    until = _Until(_left_s(ground, done) + GRACE_S)
    order = BenchmarkOrder(plan, trusted=ground.order.trusted)
    return await run_in_session(ground.home, order, session, binder, announce, until)


def _title(step: Step) -> str:
    """What a step is to learn, in words."""
    count, rounds = len(step.candidates), f"{step.rounds} round{'s' if step.rounds > 1 else ''}"
    return {
        StepPurpose.LOOK: f"looking at {count} points",
        StepPurpose.RACE: f"{count} that may win race for {rounds}",
        StepPurpose.CONFIRM: f"the best {count} once more, in {rounds} of fresh processes",
    }[step.purpose]


def _left_s(ground: _Ground, done: Sequence[StoredStep]) -> float:
    return max(0.0, ground.terms.budget_s - sum(one.taken.seconds for one in done))


def _models(home: Home, order: RecommendOrder, binder: Binder) -> tuple[str, ...]:
    """The models that take part: those named, and with `versions` all of their families that are no mere copies."""
    names = tuple(dict.fromkeys(order.models))
    if not order.versions:
        return names
    known = {one.digest: one for one in (*home.store.models(), *binder.versions)}
    family = families(known.values())
    mine = {family[one.digest] for one in binder.versions}
    taken = {one.digest for one in binder.versions}
    others = [
        one.digest
        for one in known.values()
        if family[one.digest] in mine and one.digest not in taken and one.original_digest == one.digest
    ]
    binder.resolve(others)
    return (*names, *others)


def _ground(
    home: Home, order: RecommendOrder, target: TargetSnapshot, binder: Binder, models: Sequence[str]
) -> _Ground:
    """Raises `InputError` for an empty space, a limit that nothing can hold, and a budget that tells nothing."""
    points = space(order, target, binder, models)
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
    )
    least_s = least_budget_s(len(points.points), terms)
    if terms.budget_s < least_s:
        raise InputError(
            f"--budget {order.budget} is too short to tell anything of {len(points.points)} points: starting engines "
            f"and measuring the best again takes about {least_s:.0f} s; give {_rounded(least_s)} or more"
        )
    return _Ground(home, order, target, points, terms)


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


def _about(ground: _Ground) -> list[str]:
    """What is to be known before anything is measured."""
    count, engines = len(ground.space.points), {one.case.engine.name for one in ground.space.points}
    told = [f"{count} points on {', '.join(sorted(engines))} of target {ground.target.target}"]
    impossible = sum(ground.space.impossible.values())
    told += [f"note: {impossible} more cannot be: {next(iter(ground.space.impossible))}"] if impossible else []
    if ground.space.thinned:
        told.append(f"note: {ground.space.thinned} more are left out: --among and --fix choose")
    return told
