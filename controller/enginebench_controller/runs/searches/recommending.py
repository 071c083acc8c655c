"""A recommendation carried out: the space, then step after step as the policy says, and the answer, which is stored."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from enginebench_controller.errors import BusyError, EnginebenchError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.plan import Plan, SearchStep, StepPurpose
from enginebench_controller.plan.points import identity, rate_plan, samples_of_limit, step_plan
from enginebench_controller.plan.recommend import RecommendOrder, common_plan, make_order
from enginebench_controller.records import Search, SearchKind
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_in_session
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.groups import SoFar, first_error_alone
from enginebench_controller.runs.remote_run import Reporter
from enginebench_controller.runs.resuming import ResumeOrder
from enginebench_controller.runs.searches.holding import (
    answered,
    as_stored,
    held,
    new_search,
    remove_search,
    resumable,
)
from enginebench_controller.runs.searches.recommend_ground import SearchGround, about, models_taking_part, search_ground
from enginebench_controller.runs.searches.steps import check_agents, take_up_step
from enginebench_controller.store.searches import digests_of
from enginebench_controller.targets.session import TargetSession, open_session, refuse_emulated
from enginebench_controller.verdicts.recommend.answer import Recommendation, Recommendations, answer_document
from enginebench_controller.verdicts.recommend.answering import recommendation, recommendations
from enginebench_controller.verdicts.recommend.candidates import LAST, Step, StepTaken
from enginebench_controller.verdicts.recommend.for_all import ForAll, OnTarget, next_for_all
from enginebench_controller.verdicts.recommend.search import SearchAnswer, SearchOutcome, answer, next_step
from enginebench_controller.verdicts.recommend.steps import StoredStep, step_of, stored_step

R = TypeVar("R")

GRACE_SHARE, LEAST_GRACE_S, MOST_GRACE_S = 0.1, 5.0, 20.0
"""A step that has begun may go on for this share of the budget after it, within these bounds: engines start slowly."""


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


class StepTime:
    """Ends a step that goes on for too long after the budget, of which there are so many seconds left as it begins.

    It begins when it is first asked whether there are enough rounds.
    """

    def __init__(self, budget_s: float, left_s: float) -> None:
        grace_s = min(MOST_GRACE_S, max(LEAST_GRACE_S, GRACE_SHARE * budget_s))
        self._limit_s = left_s + grace_s
        self._began: float | None = None
        self._ended: float | None = None

    def seconds_left(self) -> float:
        """See `groups.Enough`."""
        return max(0.0, self._limit_s - self._spent_s(time.monotonic()))

    def ended(self) -> None:
        """See `groups.Enough`."""
        self._ended = time.monotonic()

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        """See `groups.Enough`."""
        if self._began is None:
            self._began = time.monotonic()
        return False

    def charged(self, step: StoredStep) -> StoredStep:
        """The step, charged for no more than was spent since the target had the files, until the last round was over:
        neither to send them nor to wait for the store is a search.

        Where its time is over it is charged for all of it: in a process that hangs the search did not rest.
        """
        if self._began is None:
            return step
        spent_s = self._spent_s(time.monotonic() if self._ended is None else self._ended)
        seconds = min(step.taken.seconds, spent_s) if spent_s < self._limit_s else spent_s
        return replace(step, taken=replace(step.taken, seconds=seconds))

    def _spent_s(self, until: float) -> float:
        return 0.0 if self._began is None else until - self._began


Answer = Recommendation | Recommendations
"""Of one target, or of several."""


async def recommend(home: Home, order: RecommendOrder, watcher: RecommendWatcher) -> Search:
    """Search for what was asked; returns the search with its answer, as it is stored.

    Raises `InputError` or `ModelError` before anything is measured, `UnreachableError` when a target does not answer
    or takes nothing for now: that says nothing of what runs there. Ended so, or cancelled, it tells the best so far, as
    unconfirmed, and can be gone on with.
    """
    search = new_search(SearchKind.RECOMMEND, ", ".join(order.models), order.document())
    with held(home, search.id), resumable(home, search):
        return await _carry_out(home, search, order, watcher, is_new=True)


async def go_on(home: Home, search: Search, watcher: RecommendWatcher, *, trusted: bool) -> Search:
    """Go on with a search that was interrupted: what was measured counts, and the step under way is finished.

    Returns the search with its answer; one that has it by now, as it is. Raises as `recommend` and `take_up_step` do,
    and `InputError` where it was removed meanwhile.
    """
    with held(home, search.id), resumable(home, search):
        search = await patiently(partial(as_stored, home, search))
        if search.answer is not None:
            return search
        order = make_order(search.order).model_copy(update={"trusted": trusted})
        watcher.set_out(search)
        await take_up_step(home, search, ResumeOrder(trusted=trusted), lambda *_: watcher)
        return await _carry_out(home, search, order, watcher, is_new=False)


async def _carry_out(
    home: Home, search: Search, order: RecommendOrder, watcher: RecommendWatcher, *, is_new: bool
) -> Search:
    orders = order.of_each_target()
    binder = Binder(home.library, home.inputs, common_plan(orders[0]), digests_of(home.store.steps_of(search.id)))
    await in_thread(binder.resolve, list(dict.fromkeys(order.models)))
    models = await in_thread(models_taking_part, home, order, binder)
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    targets = [target for one in orders for target in common_plan(one).targets]
    async with open_session(home, targets, trusted_models=trusted) as session:
        searched = []
        for snapshot in session.snapshots:
            refuse_emulated(snapshot, "what is best there says nothing of a real machine, so nothing is recommended")
        for one, snapshot in zip(orders, session.snapshots, strict=True):
            surveyed = partial(search_ground, is_one_of_several=len(orders) > 1)
            ground = await in_thread(surveyed, home, one, snapshot, binder, models)
            of_one = TargetSession({snapshot.target: session.clients[snapshot.target]}, (snapshot,))
            searched.append(_OneTarget(ground, search, of_one, binder, watcher))
            for sentence in about(ground):
                watcher.said(sentence)
        if is_new:
            await _set_out(home, search, watcher)
        for one_target in searched:
            one_target.done = await patiently(partial(_stored, one_target.ground, search))
        found = answer_document(await _searched(order, searched))
        return await patiently(partial(answered, home, search, found))


async def _set_out(home: Home, search: Search, watcher: RecommendWatcher) -> None:
    """Keep a search that begins. Nothing is kept of one of which a full disk lets nobody write down what it is for."""
    await patiently(partial(home.store.add_search, search))
    try:
        watcher.set_out(search)
    except (EnginebenchError, OSError):
        await patiently(partial(remove_search, home, search.id))
        raise


async def _searched(order: RecommendOrder, targets: Sequence["_OneTarget"]) -> Answer:
    """Each target is searched on its own, all at the same time; of several, what all have in common comes then."""
    answers = await _together(one.search_alone() for one in targets)
    if not order.targets:
        return _told(targets[0].ground, targets[0].done, answers[0])
    while not isinstance(told := next_for_all([one.known() for one in targets]), ForAll):
        await _together(targets[number].take(step) for number, step in told.items())
    return _all_told(order, [(one.ground, one.done) for one in targets], told)


async def _together(coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """What comes of each. The first error of ours ends the others, and is raised alone."""
    with first_error_alone():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in coroutines]
    return [one.result() for one in tasks]


def _all_told(
    order: RecommendOrder,
    targets: Sequence[tuple[SearchGround, Sequence[StoredStep]]],
    told: ForAll,
    *,
    broken_off: bool = False,
) -> Recommendations:
    """The answer of each target, with what was measured for all, and the one for all."""
    found = []
    for ground, done in targets:
        own = answer(ground.axes, ground.terms, [one.taken for one in done], broken_off=broken_off)
        found.append(_told(ground, done, own))
    return recommendations(order, [ground.space for ground, _ in targets], found, told)


class _OneTarget:
    """A target that is searched: what it stands on, how it is reached, and the steps that were carried out."""

    def __init__(
        self,
        ground: SearchGround,
        search: Search,
        session: TargetSession,
        binder: Binder,
        watcher: RecommendWatcher,
    ) -> None:
        self.ground, self.search, self.session, self.binder, self.watcher = ground, search, session, binder, watcher
        self.done: list[StoredStep] = []
        self.name = f"{ground.target.target}: " if ground.is_one_of_several else ""

    def known(self) -> OnTarget:
        """What its steps tell, for those who look at several targets."""
        return _on_target(self.ground, self.done)

    async def search_alone(self) -> SearchAnswer:
        """Ask the policy, do as it says, and so on until it answers."""
        ground = self.ground
        try:
            while isinstance(step := next_step(ground.axes, ground.own_terms, _own_steps(self.done)), Step):
                await self.take(step)
        except (asyncio.CancelledError, UnreachableError, BusyError):
            if self.done:
                self.watcher.broken_off(_told(ground, self.done, _best_so_far(ground, self.done)))
            raise
        return step

    async def take(self, step: Step) -> None:
        """Carry out a step."""
        ground, left_s = self.ground, _left_s(self.ground, self.done)
        self.watcher.learning(self.name + _title(step), left_s)
        time_of_step = StepTime(ground.terms.budget_s, left_s)
        order = BenchmarkOrder(_plan(ground, self.search, step, len(self.done)), trusted=ground.order.trusted)
        benchmark = await run_in_session(
            ground.home, order, self.session, self.binder, lambda *_: self.watcher, time_of_step
        )
        read = (ground.home.store, ground.order, ground.space.points, step, benchmark, tuple(self.done), time.time_ns())
        self.done.append(time_of_step.charged(await patiently(partial(stored_step, *read))))
        await check_agents(ground.home, benchmark.id)


def _own_steps(done: Sequence[StoredStep]) -> list[StepTaken]:
    """The steps of a target's own search, without those for all targets."""
    return [one.taken for one in done if one.taken.step.purpose is not StepPurpose.FOR_ALL]


def _on_target(ground: SearchGround, done: Sequence[StoredStep]) -> OnTarget:
    keys = [identity(one.case) for one in ground.space.points]
    return OnTarget(ground.axes, keys, ground.terms, [one.taken for one in done])


def _stored(ground: SearchGround, search: Search) -> list[StoredStep]:
    """The steps that were carried out already on a target, each until the next began."""
    targets = list(common_plan(ground.order).targets)
    mine = [one for one in ground.home.store.steps_of(search.id) if list(one.plan["targets"]) == targets]
    begun = {one.plan["search"]["step"]: one for one in mine}
    benchmarks = [begun[number] for number in sorted(begun)]
    ends = [*(one.created_at_unix_ns for one in benchmarks[1:]), None]
    done: list[StoredStep] = []
    for benchmark, ended in zip(benchmarks, ends, strict=False):
        step = step_of(ground.space.points, benchmark, ground.terms.look_s)
        points = ground.space.points
        done.append(stored_step(ground.home.store, ground.order, points, step, benchmark, tuple(done), ended))
    return done


def so_far(home: Home, search: Search) -> Answer | None:
    """What the stored steps of a search without an answer tell, unconfirmed; None without any, or any of a target."""
    order = make_order(search.order)
    steps = home.store.steps_of(search.id)
    binder = Binder(home.library, home.inputs, common_plan(order.of_each_target()[0]), digests_of(steps))
    binder.resolve(list(dict.fromkeys(order.models)))
    models = models_taking_part(home, order, binder)
    targets = []
    for one in order.of_each_target():
        begun = [step for step in steps if tuple(step.plan["targets"]) == common_plan(one).targets]
        if not begun:
            return None
        target, several = home.store.benchmark_snapshots(begun[0].id)[0], bool(order.targets)
        ground = search_ground(home, one, target, binder, models, is_one_of_several=several)
        done = _stored(ground, search)
        if not any(step.taken.rounds or step.taken.refused for step in done):
            return None
        targets.append((ground, done))
    if not order.targets:
        ((ground, done),) = targets
        return _told(ground, done, _best_so_far(ground, done))
    told = next_for_all([_on_target(ground, done) for ground, done in targets], has_time=False)
    if not isinstance(told, ForAll):
        raise TypeError("without time there is no next step")
    if told.outcome is SearchOutcome.FOUND:
        told = replace(told, outcome=SearchOutcome.UNCONFIRMED)
    return _all_told(order, targets, told, broken_off=True)


def _best_so_far(ground: SearchGround, done: Sequence[StoredStep]) -> SearchAnswer:
    return answer(ground.axes, ground.terms, [one.taken for one in done], broken_off=True)


def _told(ground: SearchGround, done: Sequence[StoredStep], told: SearchAnswer) -> Recommendation:
    return recommendation(ground.order, ground.target, ground.space, done, told)


def _plan(ground: SearchGround, search: Search, step: Step, number: int) -> Plan:
    points = [ground.space.points[place] for place in step.candidates]
    iterations = samples_of_limit(ground.order.latency_limit if step.purpose in LAST else None)
    named = SearchStep(id=search.id, step=number, title=_title(step), purpose=step.purpose)
    if step.rate_per_s is None:
        return step_plan(ground.order, points, step.rounds, step.process_s, iterations, named)
    return rate_plan(ground.order, points[0], step.rate_per_s, step.rounds, step.process_s, named)


def _title(step: Step) -> str:
    """What a step is to learn, in words."""
    count, rounds = len(step.candidates), f"{step.rounds} round{'s' if step.rounds > 1 else ''}"
    if step.rate_per_s is not None:
        return f"{step.rate_per_s:g} requests/s, in {rounds}"
    if step.purpose is StepPurpose.FOR_ALL:
        return f"{count} for all targets, in {rounds} of fresh processes"
    return {
        StepPurpose.LOOK: f"looking at {count} point{'s' if count != 1 else ''}",
        StepPurpose.RACE: f"{count} that may win race for {rounds}",
        StepPurpose.CONFIRM: f"the best {count} once more, in {rounds} of fresh processes",
    }[step.purpose]


def _left_s(ground: SearchGround, done: Sequence[StoredStep]) -> float:
    return max(0.0, ground.terms.budget_s - sum(one.taken.seconds for one in done))
