"""A benchmark from plan to stored results; profiles are in profiling.py."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as distribution_version
from pathlib import Path

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import names_of
from enginebench_controller.plan.expand import Case, Expansion, Interleave, expand, in_random_order, time_limit_ns
from enginebench_controller.plan.grouping import in_turns
from enginebench_controller.plan.plan import Plan, make_plan, parse_duration_ns
from enginebench_controller.records import LOCAL_TARGET, Benchmark, TargetSnapshot
from enginebench_controller.records.model import with_lineage
from enginebench_controller.runs import groups
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.cluster.carrying import Cluster, open_cluster
from enginebench_controller.runs.groups import Elsewhere, Enough
from enginebench_controller.runs.keeping import keeper
from enginebench_controller.runs.remote_run import Announce, Bench, Reporter, SendOn, remind
from enginebench_controller.runs.undertaking import Pending, PlanClaim, Undertaking, sweep_inputs, written
from enginebench_controller.targets.session import TargetSession, means_own_agent, once_listed, open_session
from enginebench_proto.agreed.names import as_name


@dataclass(frozen=True)
class BenchmarkOrder:
    """A plan to carry out; `rerun_of` names the benchmark it repeats, with the exact model versions used then.

    A local agent may run the models of a `trusted` order although their format can execute code. `send_on` is given
    what has been measured, once it is stored.
    """

    plan: Plan
    rerun_of: str | None = None
    digests: dict[str, str] | None = None
    trusted: bool = False
    send_on: SendOn | None = None


def order_again(benchmark: Benchmark, *, trusted: bool = False) -> BenchmarkOrder:
    """The order that repeats a benchmark. Raises `InputError` when its plan is of another version, or none of ours."""
    document = dict(benchmark.plan)
    digests = document.pop("digests", None)
    if not (digests is None or (isinstance(digests, dict) and all(isinstance(one, str) for one in digests.values()))):
        raise InputError(f"the plan of benchmark {benchmark.id} names no versions of its models to run it again with")
    document.pop("left_out", None)
    document.pop("members", None)
    document.pop("search", None)
    return BenchmarkOrder(make_plan(document, f"the plan of benchmark {benchmark.id}"), benchmark.id, digests, trusted)


async def run_benchmark(home: Home, order: BenchmarkOrder, announce: Announce) -> Benchmark:
    """Plan, run and store a benchmark; returns it once every outcome is in the store.

    Raises `PlanError` or `ModelError` before anything runs, `UnreachableError` when a target or a scheduler does not
    answer at the start. Targets lost on the way are typed failures of their own measurements. Of a step of a search
    they are its end, as are those that take no more or are somebody else's: `UnreachableError`, `BusyError`.
    """
    binder = Binder(home.library, home.inputs, order.plan, order.digests)
    engines = names_of(order.plan)
    await once_listed(home, order.plan.targets, engines, binder.resolve, _models(order.plan))
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    if order.plan.executor is not None:
        async with open_cluster(home, order.plan.executor, engines=engines, trusted_models=trusted) as cluster:
            return await run_in_session(
                home, order, TargetSession({}, cluster.snapshots), binder, announce, None, cluster
            )
    async with open_session(home, order.plan.targets, engines=engines, trusted_models=trusted) as session:
        return await run_in_session(home, order, session, binder, announce)


async def run_in_session(
    home: Home,
    order: BenchmarkOrder,
    session: TargetSession,
    binder: Binder,
    announce: Announce,
    enough: Enough | None = None,
    cluster: Cluster | None = None,
) -> Benchmark:
    """As `run_benchmark`, over connections that are open and models that may be bound already.

    `enough` may end the rounds of what is interleaved early. On a `cluster`, whose machines are those of the session,
    it is the cluster that carries out.
    """
    snapshots = cluster.kinds if cluster else session.snapshots
    expansion = await patiently(partial(_expand, home, order.plan, snapshots, binder))
    if not expansion.cases:
        raise InputError("the plan comes to nothing: no engine on these targets reads these models")
    benchmark = _new_benchmark(order, binder.digests, expansion)
    pending = _pending(benchmark, expansion.cases, order.plan)
    with written(home.path, pending) as claim:
        sweep_inputs(home.inputs, home.path)
        try:
            await patiently(partial(_record, home, benchmark, expansion, session, binder))
        except EnginebenchError:
            claim.drop()  # nothing has begun
            raise
        reporter = announce(expansion, benchmark.id)
        bench = _bench(home, session, reporter, pending, order)
        await _execute(home, claim, bench, pending.undertakings(), enough, cluster.measure if cluster else None)
    return benchmark


async def plan_only(home: Home, order: BenchmarkOrder) -> Expansion:
    """What a plan would run, without running or storing it. Raises as `run_benchmark` does before it runs."""
    binder = Binder(home.library, home.inputs, order.plan, order.digests)
    await once_listed(home, order.plan.targets, names_of(order.plan), binder.resolve, _models(order.plan))
    async with contextlib.AsyncExitStack() as stack:
        if order.plan.executor is not None:
            cluster = await stack.enter_async_context(
                open_cluster(home, order.plan.executor, engines=names_of(order.plan))
            )
            return await in_thread(_expand, home, order.plan, cluster.kinds, binder)
        snapshots = await asyncio.to_thread(_last_words_of_this_machine, home, order.plan)
        if snapshots is None:
            snapshots = (await stack.enter_async_context(open_session(home, order.plan.targets))).snapshots
        return await in_thread(_expand, home, order.plan, snapshots, binder)


def _expand(home: Home, plan: Plan, snapshots: Sequence[TargetSnapshot], binder: Binder) -> Expansion:
    models = [*home.store.models(), *binder.versions]
    expansion = in_turns(plan, expand(plan, snapshots, binder), snapshots, models)
    time_limit_ns(plan, expansion.cases)  # for its refusal: a dry run gives it, too
    return expansion


def _last_words_of_this_machine(home: Home, plan: Plan) -> tuple[TargetSnapshot, ...] | None:
    """What the agent of this machine said last, where nobody else is asked and it is of this version.

    To ask it anew would start one, which has to wait for whoever uses the machine.
    """
    if not means_own_agent(home, plan.targets):
        return None
    ours = distribution_version("enginebench")
    found = tuple(one for one in home.store.snapshots() if one.target == LOCAL_TARGET)
    if not found or found[0].host.agent_version != ours or found[0].being_asked:
        return None
    if not _changed_unix_ns(home.agent_data) <= found[0].seen_at_unix_ns <= time.time_ns():
        return None  # what was seen later than now is from before the clock was set right, whenever that was
    return found


def _changed_unix_ns(agent_data: Path) -> int:
    """When environments of this machine's agent were last added, removed or configured; 0 where they never were."""
    found = (agent_data / name for name in ("agent.toml", "environments"))
    return max((one.stat().st_mtime_ns for one in found if one.exists()), default=0)


def _models(plan: Plan) -> list[str]:
    """The models a plan names, those of its rungs included."""
    return list(dict.fromkeys([*plan.models, *(name for grid in plan.grids() for name in grid.models)]))


def _new_benchmark(order: BenchmarkOrder, digests: dict[str, str], expansion: Expansion) -> Benchmark:
    name = as_name(order.plan.name or ", ".join(model.rpartition("/")[2] for model in order.plan.models))
    return Benchmark(
        id=uuid.uuid4().hex[:12],
        name=name,
        created_at_unix_ns=time.time_ns(),
        plan=order.plan.document()
        | {"order_seed": order.plan.seed_of_order(), "digests": digests}
        | ({"left_out": list(expansion.left_out)} if expansion.left_out else {})
        | ({"members": members(order.plan, expansion.cases)} if order.plan.gate else {}),
        rerun_of=order.rerun_of,
    )


def members(plan: Plan, cases: Sequence[Case]) -> dict[str, str]:
    """By the name of its rung, which measurement a member of a gate will be: base and control are equal cases."""
    return {rung.name: one.outcome_id for rung, one in zip(plan.rungs, cases, strict=True)}


def _pending(benchmark: Benchmark, cases: Sequence[Case], plan: Plan) -> Pending:
    seed = plan.seed_of_order()
    interleave = Interleave(seed, of_device=plan.device_takes_turns) if plan.interleave else None
    return Pending(
        benchmark.id,
        benchmark.name,
        time_limit_ns(plan, cases),
        in_random_order(cases, seed),
        interleave,
        wait_quiet_ns=parse_duration_ns(plan.wait_quiet),
        executor=plan.executor,
    )


def _record(home: Home, benchmark: Benchmark, expansion: Expansion, session: TargetSession, binder: Binder) -> None:
    home.store.add_benchmark(benchmark, session.snapshots)
    measured = (*binder.versions, *(case.model for case in expansion.cases))
    for version in with_lineage(measured, home.library.versions):  # a gap would part what is of one family
        home.store.save_model(version)


def _bench(home: Home, session: TargetSession, reporter: Reporter, pending: Pending, order: BenchmarkOrder) -> Bench:
    files, limits = home.library.file_paths, (pending.timeout_ns, pending.wait_quiet_ns)
    is_step = order.plan.search is not None
    return Bench(session.clients, files, home.path, reporter, *limits, order.send_on, is_step)


async def _execute(
    home: Home,
    claim: PlanClaim,
    bench: Bench,
    undertakings: Sequence[Undertaking],
    enough: Enough | None,
    elsewhere: Elsewhere | None,
) -> None:
    pending = claim.pending
    try:
        with groups.first_error_alone():
            keep = keeper(home)
            await groups.execute(bench, undertakings, pending.id, keep, pending.interleave, enough, elsewhere)
            await remind(bench)
    finally:
        if all(one.settled for one in undertakings) and not any(bench.remembered.values()):
            claim.drop()
