"""Per-layer passes from plan to stored profiles."""

import asyncio
import time
import uuid
from dataclasses import dataclass

from enginebench_controller.errors import AgentError, InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.model.source_analysis import SourceAnalysis
from enginebench_controller.planning.binder import Binder
from enginebench_controller.planning.expand import Expansion, Job, expand
from enginebench_controller.planning.plan import Plan, parse_duration_ns
from enginebench_controller.planning.sparsity_passes import with_sparsities
from enginebench_controller.records import Failure, FailureKind, Profile
from enginebench_controller.running import execution, outcome, remote_run
from enginebench_controller.running.benchmarking import Announce
from enginebench_controller.running.outcome import PassOrder
from enginebench_controller.running.remote_run import Bench
from enginebench_controller.running.session import Session, open_session
from enginebench_proto.v1 import run_pb2


@dataclass(frozen=True)
class ProfileOrder:
    """A plan to profile; with `sparsities` there is a pass for each share of zeros imposed, all at one level if given.

    Orders of one command may share an `id`; None makes a new one.
    """

    plan: Plan
    sparsities: tuple[float, ...] = ()
    id: str | None = None
    optimization_level: int | None = None


async def run_profiles(home: Home, order: ProfileOrder, announce: Announce) -> list[Profile]:
    """One per-layer pass for each configuration of a plan, each led back to its model, stored, and returned.

    A pass is a single process. One that fails is a profile with its failure and stops no other. Raises `PlanError`
    or `ModelError` before anything runs, `UnreachableError` when a target does not answer at the start.
    """
    plan = order.plan.model_copy(update={"processes": 1})
    binder = Binder(home, plan)
    await asyncio.to_thread(binder.resolve, plan.models)
    async with open_session(home, plan.targets) as session:
        expansion = await asyncio.to_thread(_expand, order, plan, session, binder)
        reporter = announce(expansion, None)
        bench = Bench(session.clients, home.library.file_paths, home.path, reporter, parse_duration_ns(plan.timeout))
        passes = _Passes(home, bench, _pass_order(order, session))
        return [await passes.carry_out(job) for job in expansion.jobs]


def _expand(order: ProfileOrder, plan: Plan, session: Session, binder: Binder) -> Expansion:
    expansion = expand(plan, session.snapshots, binder)
    if not expansion.jobs:
        raise InputError("there is nothing to profile: no engine on these targets reads these models")
    if not order.sparsities:
        return expansion
    return with_sparsities(
        expansion,
        order.sparsities,
        session.snapshots,
        leave_out=plan.engines == ("all",),
        optimization_level=order.optimization_level,
    )


def _pass_order(order: ProfileOrder, session: Session) -> PassOrder:
    return PassOrder(
        id=order.id or uuid.uuid4().hex[:12],
        name=order.plan.name,
        created_at_unix_ns=time.time_ns(),
        plan=order.plan.document() | {"sparsities": list(order.sparsities)},
        hosts={snapshot.target: snapshot.host for snapshot in session.snapshots},
    )


class _Passes:
    """Carries the passes of one command out, one after the other."""

    def __init__(self, home: Home, bench: Bench, order: PassOrder) -> None:
        self._store = home.store
        self._bench = bench
        self._order = order
        self._analysis = SourceAnalysis(home.library.file_paths)

    async def carry_out(self, job: Job) -> Profile:
        """Run one pass and store what came of it; only then may the target forget it."""
        run_id = uuid.uuid4().hex
        profile = await asyncio.to_thread(self._analysis.analysed, await self._run(job, run_id), job.model)
        await asyncio.to_thread(self._store.add_profile, profile, job.model)
        self._bench.reporter.finished(job, profile.id, profile.status, profile.failure)
        await remote_run.acknowledge(self._bench, job, run_id)
        return profile

    async def _run(self, job: Job, run_id: str) -> Profile:
        if job.target in self._bench.lost_targets:
            lost = outcome.agent_lost(job, self._bench.lost_targets[job.target])
            return outcome.unprofiled(job, self._order, run_id, lost)
        try:
            result = await execution.run_once(self._bench, job, run_id, run_pb2.RUN_KIND_PROFILE)
        except UnreachableError as error:
            self._bench.lost_targets[job.target] = str(error)
            failure = outcome.agent_lost(job, str(error))
        except AgentError as error:
            failure = Failure(FailureKind.REFUSED, str(error))
        else:
            return outcome.profiled(job, self._order, result)
        return outcome.unprofiled(job, self._order, run_id, failure)
