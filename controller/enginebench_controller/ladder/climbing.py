"""Carrying a ladder out: one session to see what the target has, to plan, and to measure."""

from enginebench_controller.home import Home
from enginebench_controller.ladder.planning import Wish, base_plan, plan_ladder
from enginebench_controller.model.bounded import in_thread
from enginebench_controller.planning.binder import Binder
from enginebench_controller.records import Benchmark, ModelVersion
from enginebench_controller.running.benchmarking import Announce, Order, run_in_session
from enginebench_controller.running.session import open_session


async def climb(home: Home, source: ModelVersion, wish: Wish, announce: Announce) -> Benchmark:
    """Plan, run and store a ladder; returns its benchmark once every outcome is in the store.

    Raises `InputError` before anything runs where not one rung can be, `UnreachableError` when the target does not
    answer at the start. A rung that fails does so alone.
    """
    base = base_plan(wish, source)
    binder = Binder(home, base)
    trusted = [source.digest] if wish.trusted else []
    async with open_session(home, base.targets, trusted_models=trusted) as session:
        (snapshot,) = session.snapshots
        plan = await in_thread(plan_ladder, home, snapshot, binder, source, wish)
        return await run_in_session(home, Order(plan), session, binder, announce)
