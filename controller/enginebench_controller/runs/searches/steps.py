"""The step of a search that a kill, or a target that went, has left half-done, or in which an agent was short of room.

What to do next is decided from the steps' results alone, so a search that was interrupted goes on where it was: what
its targets hold is collected, the step under way is finished, and the same question is asked again.
"""

from dataclasses import replace
from functools import partial

from enginebench_controller import wire
from enginebench_controller.errors import BusyError, ChangedTargetError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import FailureKind, HostFacts, Search
from enginebench_controller.records.target import in_environment
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.remote_run import Announce
from enginebench_controller.runs.resuming import ResumeOrder, resume
from enginebench_controller.runs.searches.holding import is_step_of
from enginebench_controller.targets.session import is_removed, open_client
from enginebench_controller.verdicts.host_words import changes_of


async def take_up_step(home: Home, search: Search, wish: ResumeOrder, announce: Announce) -> None:
    """Collect what the targets hold of the step of a search that was under way, and finish it.

    Raises `ChangedTargetError`, before anything is settled, where a target is not what it was in its last step, and
    `UnreachableError` where one cannot be asked, or something of the step is still to come.
    """
    await _check_unchanged(home, search)
    ids = frozenset({search.id})
    mine = replace(wish, finish=True, is_wanted=lambda pending_id: is_step_of(home, ids, pending_id), is_step=True)
    taken = await resume(home, mine, announce)
    if any(one.left for one in taken):
        raise UnreachableError("\n".join(dict.fromkeys(reason for one in taken for reason in one.reasons)))


async def check_agents(home: Home, benchmark_id: str) -> None:
    """Raise `BusyError` where an agent was short of something in a step, as its disk is full, say.

    Nothing is known of what was to run there, and measuring it again would fail as well until somebody has mended that.
    """
    for one in await patiently(partial(home.store.measurements, benchmark_id, with_blocks=False)):
        if one.failure is not None and one.failure.kind is FailureKind.SHORTAGE:
            engine = in_environment(one.engine.name, one.engine.environment)
            raise BusyError(f"target {one.target!r} could not measure {engine}: {one.failure.message}")


async def _check_unchanged(home: Home, search: Search) -> None:
    """Of two machines, or two states of one, no answer is made: what a search measures is compared with all before."""
    steps = await patiently(partial(home.store.steps_of, search.id))
    before: dict[str, HostFacts] = {}
    for step in steps:
        snapshots = await patiently(partial(home.store.benchmark_snapshots, step.id))
        before |= {one.target: one.host for one in snapshots}
    for target, host in before.items():
        if is_removed(home, target):
            continue  # that is told where it is asked for
        async with open_client(home, target) as client:
            changes = changes_of(host, wire.from_host(await client.host()))
        if changes:
            raise ChangedTargetError(
                f"target {target!r} is not what it was in the last step of the search {search.id} ({changes}), and "
                "what is measured there now is not to be compared with that: search anew with "
                f"`enginebench {search.kind}`, and give this one up with `enginebench remove {search.id}`"
            )
