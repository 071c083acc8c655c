"""Per-layer passes from plan to stored profiles."""

import asyncio
import time
import uuid
from dataclasses import dataclass
from functools import partial

from enginebench_controller.errors import (
    AgentError,
    InputError,
    RunUnknownError,
    StoreError,
    UnreachableError,
    UnreadableFileError,
)
from enginebench_controller.graph.analysis import SourceAnalysis
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import names_of
from enginebench_controller.plan.expand import USUAL_TIME_LIMIT_NS, Expansion, expand
from enginebench_controller.plan.plan import Plan, parse_duration_ns
from enginebench_controller.plan.sparsity import with_sparsities
from enginebench_controller.records import Failure, ModelVersion, PassOrder, Profile
from enginebench_controller.records.model import with_lineage
from enginebench_controller.runs import groups, outcome, remote_run
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.groups import uninterrupted
from enginebench_controller.runs.remote_run import Announce, Bench, remind, say_who_was_not_told
from enginebench_controller.runs.undertaking import ATTEMPTS, Pending, PlanClaim, Undertaking, sweep_inputs, written
from enginebench_controller.targets.session import TargetSession, once_listed, open_session
from enginebench_proto.agreed.names import as_name
from enginebench_proto.v1 import run_pb2


@dataclass(frozen=True)
class ProfileOrder:
    """A plan to profile; with `sparsities` there is a pass for each share of zeros imposed, all at one level if given.

    Orders of one command may share an `id`; None makes a new one. A local agent may run the models of a `trusted` order
    although their format can execute code.
    """

    plan: Plan
    sparsities: tuple[float, ...] = ()
    id: str | None = None
    optimization_level: int | None = None
    trusted: bool = False


async def run_profiles(home: Home, order: ProfileOrder, announce: Announce) -> list[Profile]:
    """One per-layer pass for each configuration of a plan, each led back to its model, stored, and returned.

    A pass is a single process. One that fails is a profile with its failure and stops no other. Raises `PlanError`
    or `ModelError` before anything runs, `UnreachableError` when a target does not answer at the start.
    """
    plan = order.plan
    binder = Binder(home.library, home.inputs, plan)
    engines = names_of(plan)
    await once_listed(home, plan.targets, engines, binder.resolve, list(plan.models))
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    async with open_session(home, plan.targets, engines=engines, trusted_models=trusted) as session:
        return await profiles_in_session(home, order, session, binder, announce)


async def profiles_in_session(
    home: Home, order: ProfileOrder, session: TargetSession, binder: Binder, announce: Announce
) -> list[Profile]:
    """As `run_profiles`, over connections that are open and models that may be bound already."""
    plan = order.plan.model_copy(update={"processes": 1})
    expansion = await in_thread(_expand, order, plan, session, binder)
    passes = _pass_order(order, session)
    pending = _pending(passes, plan, expansion)
    with written(home.path, pending) as claim:
        sweep_inputs(home.inputs, home.path)
        reporter = announce(expansion, None)
        bench = Bench(
            session.clients, home.library.file_paths, home.path, reporter, pending.timeout_ns, pending.wait_quiet_ns
        )
        return await _carry_out(Passes(home, bench, passes), bench, claim)


def _pending(passes: PassOrder, plan: Plan, expansion: Expansion) -> Pending:
    name = plan.name or ", ".join(dict.fromkeys(case.model.name for case in expansion.cases))
    wait_quiet_ns = parse_duration_ns(plan.wait_quiet)
    limit_ns = parse_duration_ns(plan.timeout) if plan.timeout else USUAL_TIME_LIMIT_NS
    return Pending(passes.id, name, limit_ns, expansion.cases, passes=passes, wait_quiet_ns=wait_quiet_ns)


async def _carry_out(passes: "Passes", bench: Bench, claim: PlanClaim) -> list[Profile]:
    undertakings = claim.pending.undertakings()
    try:
        done = [await passes.carry_out(one) for one in undertakings]
    except asyncio.CancelledError:  # who interrupts passes wants no more of them than what targets still have
        remembered = frozenset().union(*bench.remembered.values())
        left = [
            one for one in undertakings if not remembered.isdisjoint(one.run_ids) or (one.ended and not one.settled)
        ]
        claim.leave([one.case for one in left])
        say_who_was_not_told(bench)
        raise
    await remind(bench)
    if not any(bench.remembered.values()):
        claim.drop()
    return done


def _expand(order: ProfileOrder, plan: Plan, session: TargetSession, binder: Binder) -> Expansion:
    expansion = expand(plan, session.snapshots, binder)
    if not expansion.cases:
        raise InputError("there is nothing to profile: no engine on these targets reads these models")
    if not order.sparsities:
        return expansion
    return with_sparsities(plan, expansion, order.sparsities, session.snapshots, order.optimization_level)


def _pass_order(order: ProfileOrder, session: TargetSession) -> PassOrder:
    return PassOrder(
        id=order.id or uuid.uuid4().hex[:12],
        name=as_name(order.plan.name) if order.plan.name else None,
        created_at_unix_ns=time.time_ns(),
        plan=order.plan.document() | {"sparsities": list(order.sparsities)},
        hosts={snapshot.target: snapshot.host for snapshot in session.snapshots},
    )


class Passes:
    """Carries the passes of one command out, one after the other."""

    def __init__(self, home: Home, bench: Bench, order: PassOrder) -> None:
        self._store = home.store
        self._library = home.library
        self._bench = bench
        self._order = order
        self._analysis = SourceAnalysis(home.library.file_paths)

    async def carry_out(self, one: Undertaking) -> Profile:
        """Run one pass and store what came of it."""
        return await uninterrupted(self._keep(one, await self._run(one)))

    async def take_up(self, one: Undertaking, result: run_pb2.RunResult | None, otherwise: Failure) -> Profile:
        """Store what a target held of a pass that was begun before; `otherwise` says why nothing comes of it."""
        if result is None:
            one.failure = otherwise
            return await uninterrupted(self._keep(one, self._unprofiled(one, otherwise)))
        return await uninterrupted(self._keep(one, outcome.profiled(one.case, self._order, one.outcome_id, result)))

    async def _keep(self, one: Undertaking, profile: Profile) -> Profile:
        """Lead the layers back to the model and store them; only then may the target forget the pass."""
        one.ended = True
        profile = await asyncio.to_thread(self._analysis.analysed, profile, one.case.model)
        versions = await asyncio.to_thread(self._with_lineage, one.case.model)
        await patiently(partial(self._store.add_profile, profile, *versions), is_outcome=True)
        one.settle()
        self._bench.reporter.finished(one.case, profile.id, profile.status, profile.failure)
        await groups.forget(self._bench, one)
        return profile

    def _with_lineage(self, model: ModelVersion) -> tuple[ModelVersion, ...]:
        try:
            return with_lineage([model], self._library.versions)
        except StoreError:  # a damaged record of some other version is no reason to lose the pass
            return (model,)

    async def _run(self, one: Undertaking) -> Profile:
        for _ in range(ATTEMPTS):
            if (profile := await self._attempt(one)) is not None:
                return profile
        return self._unprofiled(one, outcome.agent_lost(one.case, outcome.RESTARTED.format(ATTEMPTS)))

    async def _attempt(self, one: Undertaking) -> Profile | None:
        """None where the target was restarted and has nothing of the run, which may then be begun anew."""
        case, lost = one.case, self._bench.lost_targets
        await remote_run.look_again(self._bench, case.target)
        if case.target in lost:
            return self._unprofiled(one, outcome.agent_lost(case, lost[case.target]))
        try:
            result = await groups.run_once(self._bench, case, one.begin(0), run_pb2.RUN_KIND_PROFILE)
        except UnreachableError as error:
            lost[case.target] = str(error)
            return self._unprofiled(one, outcome.agent_lost(case, str(error)))
        except RunUnknownError:
            return None
        except (AgentError, UnreadableFileError) as error:
            return self._unprofiled(one, outcome.not_taken(error))
        return outcome.profiled(case, self._order, one.outcome_id, result)

    def _unprofiled(self, one: Undertaking, failure: Failure) -> Profile:
        return outcome.unprofiled(one.case, self._order, one.outcome_id, failure)
