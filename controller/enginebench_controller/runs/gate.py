"""A gate carried out: environments made, a promise, process pairs until the verdict stands, and why; and of alerts."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from enginebench_controller.errors import EnginebenchError, InputError, PlanError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import names_of
from enginebench_controller.plan.expand import Expansion, expand
from enginebench_controller.plan.gate import (
    GateOrder,
    GateSide,
    check_sides,
    common_plan,
    needed,
    parse_sides,
    with_rungs,
)
from enginebench_controller.plan.plan import (
    BASE,
    HEAD,
    GateMetric,
    GateTerms,
    Plan,
    SearchStep,
    parse_duration_ns,
)
from enginebench_controller.runs.benchmarking import BenchmarkOrder, members, run_in_session
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.environments import install
from enginebench_controller.runs.groups import Enough, SoFar
from enginebench_controller.runs.profiling import ProfileOrder, profiles_in_session
from enginebench_controller.runs.remote_run import Reporter, SendOn
from enginebench_controller.stats.paired import FEWEST_PAIRS
from enginebench_controller.targets.session import TargetSession, completed, once_listed, open_session
from enginebench_controller.verdicts.alerts import (
    Alert,
    Confirmation,
    Finding,
    confirmation_of,
    metric_of,
    obstacle,
    plan_fields,
    side_words,
)
from enginebench_controller.verdicts.gate.results import Arm, GateExplanation, GateResult, Judged, judge, stands
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.stored import (
    explained,
    gate_of,
    history,
    promise,
    promising,
    terms_of,
)

GRACE_SHARE, GRACE_S = 0.1, 15.0
"""A round that has begun may go on for so much of the budget, and so long, after its end: engines start slowly."""
LAYERS_TIMEOUT = "60s"
LAYERS_PASSES = 3
"""Of each side, in turn, where the layers are what a search was for."""


class GateWatcher(Reporter, Protocol):
    """Who wants to know how a gate is coming along."""

    def said(self, sentence: str) -> None:
        """Something to know before the measuring."""
        return

    def begun(self, benchmark_id: str, terms: GateTerms) -> None:
        """The benchmark is in the store; the budget runs as soon as the target has the files."""
        return

    def looked(self, judged: Judged, seconds_left: float) -> None:
        """A process pair is there."""
        return


class Unwatched(GateWatcher):
    """Nobody wants to know."""


def gate(home: Home, order: GateOrder, watcher: GateWatcher | None = None, send_on: SendOn | None = None) -> GateResult:
    """Carry a gate out and store it as a benchmark. See `carry_out`; for callers without a loop of their own."""
    return asyncio.run(carry_out(home, order, watcher or Unwatched(), send_on))


async def carry_out(home: Home, order: GateOrder, watcher: GateWatcher, send_on: SendOn | None = None) -> GateResult:
    """Say what can be told, measure process pairs until the verdict stands or the budget ends, and explain it.

    `send_on` is given what has been measured, once it is stored.
    Raises `InputError` or `PlanError` before anything is measured, `UnreachableError` when the target does not answer.
    """
    sides = parse_sides(order.model, order.base, order.head, order.engine)
    plan = common_plan(order, sides)
    binder = Binder(home.library, home.inputs, plan)
    named = [side.engine for side in sides if side.engine is not None and side.plugin is None]
    engines = named if len(named) == len(sides) else ()
    await once_listed(home, plan.targets, engines, binder.resolve, list(dict.fromkeys(plan.models)))
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    async with open_session(home, plan.targets, engines=engines, trusted_models=trusted) as opened:
        session = await _with_environments(home, sides, opened, watcher)
        plan = await in_thread(with_rungs, plan, sides, session.snapshots[0], binder)
        wanted = BenchmarkOrder(plan, trusted=order.trusted, send_on=send_on)
        return await _measure(home, wanted, session, binder, watcher, explain=order.explain)


@dataclass(frozen=True)
class Promised:
    """A gate as a step of a search, which has decided what it is to tell: by metric, a difference as a share.

    `digests` are the exact versions of the models. Of a gate that is stored already, `explaining` is its result: then
    only the layers are looked for.
    """

    step: SearchStep
    differences: Mapping[GateMetric, float]
    digests: Mapping[str, str]
    explaining: GateResult | None = None


async def in_session(
    home: Home,
    order: GateOrder,
    sides: tuple[GateSide, GateSide],
    session: TargetSession,
    watcher: GateWatcher,
    promised: Promised,
) -> GateResult:
    """As `carry_out`, over a connection that is open, with all that the sides need."""
    plan = common_plan(order, sides)
    assert plan.gate is not None  # noqa: S101  # a gate's
    terms = plan.gate.model_copy(update={"promised": dict(promised.differences)})
    plan = plan.model_copy(update={"search": promised.step, "gate": terms})
    binder = Binder(home.library, home.inputs, plan, promised.digests)
    await in_thread(binder.resolve, list(dict.fromkeys(plan.models)))
    plan = await in_thread(with_rungs, plan, sides, session.snapshots[0], binder)
    if promised.explaining is not None:
        return await _explain(home, promised.explaining, plan, session, binder, watcher)
    wanted = BenchmarkOrder(plan, trusted=order.trusted)
    return await _measure(home, wanted, session, binder, watcher, explain=order.explain)


async def again(home: Home, order: BenchmarkOrder, watcher: GateWatcher) -> GateResult:
    """Carry out the plan of a gate once more, linked to the one that it repeats; what it promised is promised anew."""
    binder = Binder(home.library, home.inputs, order.plan, order.digests)
    models = [name for grid in order.plan.grids() for name in grid.models]
    await in_thread(binder.resolve, list(dict.fromkeys(models)))
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    engines = names_of(order.plan)
    async with open_session(home, order.plan.targets, engines=engines, trusted_models=trusted) as session:
        return await _measure(home, order, session, binder, watcher, explain=True)


def enough_of(home: Home, benchmark_id: str) -> Enough | None:
    """What ends the rounds of a gate that is resumed; None for another benchmark."""
    try:
        benchmark = home.store.benchmark(benchmark_id)
    except EnginebenchError:  # a profile, or removed
        return None
    terms = terms_of(benchmark)
    return None if terms is None else _Pairs(terms, benchmark.plan["members"], Unwatched())


async def _with_environments(
    home: Home, sides: tuple[GateSide, GateSide], session: TargetSession, watcher: GateWatcher
) -> TargetSession:
    """The session with all environments that the sides need, made where they are not there."""
    (snapshot,) = session.snapshots
    wanted = {one.name: one for side in sides if (one := needed(side, snapshot)) is not None}
    for one in wanted.values():
        await install(home, one, [snapshot.target], watcher.said)
    if wanted:
        snapshot = await completed(home, session, snapshot, refresh=True)
    return TargetSession(session.clients, (snapshot,))


async def _measure(
    home: Home, order: BenchmarkOrder, session: TargetSession, binder: Binder, watcher: GateWatcher, *, explain: bool
) -> GateResult:
    expansion = await in_thread(expand, order.plan, session.snapshots, binder)
    await in_thread(check_sides, order.plan, expansion, home.library.describe)
    for note in expansion.notes:
        watcher.said(f"note: {note}")
    plan = order.plan
    if plan.search is None:  # else the search has promised
        known = await patiently(partial(history, home, expansion.cases))
        plan = promising(plan, known)
        for sentence in promise(plan, known):
            watcher.said(sentence)
    assert plan.gate is not None  # noqa: S101  # a gate's
    pairs = _Pairs(plan.gate, {}, watcher)

    def announce(expansion: Expansion, benchmark_id: str | None) -> Reporter:
        assert benchmark_id is not None  # noqa: S101  # a benchmark's
        pairs.members = members(plan, expansion.cases)
        watcher.begun(benchmark_id, pairs.terms)
        return watcher

    benchmark = await run_in_session(home, replace(order, plan=plan), session, binder, announce, pairs)
    result = await patiently(partial(gate_of, home, benchmark))
    if result is None:
        raise InputError(f"nothing of the gate {benchmark.id} is in the store")
    if explain and _is_different(result) and not result.failures:
        result = await _explain(home, result, plan, session, binder, watcher)
    return result


class _Pairs:
    """Says after each round whether it is enough: the verdict stands, or another pair would end after the budget.

    The pair without which nothing can be told may end so much later as any that has begun.
    """

    def __init__(self, terms: GateTerms, members: Mapping[str, str], watcher: GateWatcher) -> None:
        self.terms = terms
        self.members = members
        self._watcher = watcher
        self._budget_s = parse_duration_ns(terms.budget) / 1e9
        self._grace_s = GRACE_SHARE * self._budget_s + GRACE_S
        self._begun: float | None = None
        self._ends = time.monotonic() + self._budget_s
        self._there = 0

    def seconds_left(self) -> float:
        """See `groups.Enough`."""
        return self._ends - time.monotonic() + self._grace_s

    def ended(self) -> None:
        """See `groups.Enough`: its time is looked at before rounds alone."""

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        """See `groups.Enough`."""
        now = time.monotonic()
        pairs = min(len(one.processes) for one in so_far)
        if self._begun is None:
            self._begun, self._there = now, pairs
            self._ends = now + self._budget_s
        if not pairs:
            return False
        known = {one.outcome_id: one for one in so_far}
        judged = judge(self.terms, {role: _arm(known[id_]) for role, id_ in self.members.items()})
        spent_s = now - self._begun
        each_s = spent_s / (pairs - self._there) if pairs > self._there else judged.pair_seconds or 0.0
        left_s = self._budget_s - spent_s - self._there * each_s
        self._ends = now + left_s
        self._watcher.looked(judged, max(0.0, left_s))
        return stands(judged) or left_s + (self._grace_s if pairs < FEWEST_PAIRS else 0.0) < each_s


def _arm(one: SoFar) -> Arm:
    model = one.case.model
    return Arm(one.processes, one.blocks, one.medians, one.case.configuration.batch, model.size_bytes)


def _is_different(result: GateResult) -> bool:
    return (result.outcome is GateOutcome.WORSE or result.is_better) and result.judged.differs_in_time


async def _explain(
    home: Home, result: GateResult, plan: Plan, session: TargetSession, binder: Binder, watcher: GateWatcher
) -> GateResult:
    """The result with the layers that explain it. A pass that fails explains nothing, and spoils nothing."""
    watcher.said("the verdict stands; profiling both sides for the layers that explain it")
    passes = 1 if plan.search is None else LAYERS_PASSES
    for grid, role in [*zip(plan.grids(), (BASE, HEAD), strict=False)] * passes:
        side = grid.model_copy(
            update={
                "gate": None,
                "search": None,
                "interleave": False,
                "duration": "1s",
                "timeout": LAYERS_TIMEOUT,
                "iterations": 10,
                "block": None,
                "name": f"{role} of gate {result.benchmark.id}",
                "max_duration": None,
            }
        )
        order = ProfileOrder(side, id=f"{result.benchmark.id}-{role}")
        try:
            await profiles_in_session(home, order, session, binder, lambda *_: watcher)
        except (InputError, PlanError) as error:
            return replace(result, explanation=GateExplanation(note=f"no layers, as {error}"))
    return replace(result, explanation=await patiently(partial(explained, home, result)))


def confirm(home: Home, alert: Alert, budget: str = "2m", watcher: GateWatcher | None = None) -> Confirmation:
    """Run the gate of a candidate, on its target; what stands in its way is told as a reason, not raised."""
    if reason := obstacle(home, alert):
        return Confirmation(Finding.UNCONFIRMED, reason)
    before, after = (side_words(alert, version) for version in alert.versions)
    original = {one.digest: one.original_digest for one in home.store.models()}
    model = original.get(alert.history.model_digest, alert.history.model_digest)
    order = GateOrder(
        before,
        after,
        model,
        budget=budget,
        metrics=(metric_of(alert.history.configuration),),
        fields=plan_fields(alert),
        explain=alert.is_slower,
    )
    try:
        return confirmation_of(alert, gate(home, order, watcher))
    except EnginebenchError as error:
        return Confirmation(Finding.UNCONFIRMED, f"no gate could be run: {str(error).splitlines()[0]}")
