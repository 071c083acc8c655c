"""Taking up what interrupted commands have left: every plan in `HOME/pending/` that no living command carries out."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from enginebench_controller.errors import AgentError, InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.planning.expand import Expansion
from enginebench_controller.running.benchmarking import Announce
from enginebench_controller.running.collecting import INTERRUPTED, Wish, collect, known_runs
from enginebench_controller.running.pending import Claim, Pending, claimed, plans
from enginebench_controller.running.session import check_targets, open_client
from enginebench_controller.running.undertaking import Undertaking
from enginebench_proto.v1 import run_pb2


@dataclass(frozen=True)
class TakenUp:
    """What came of one plan, as ids of measurements or profiles; `reasons` say why some of it is left.

    `collected` have come to something, `interrupted` to nothing: they are stored as cancelled. `dropped_runs` counts
    those that targets still had although their outcome was in the store, or nobody wants it any more: they came late.
    """

    id: str
    name: str
    collected: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    dropped_runs: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """What there is to be taken up of one plan: outcomes missing in the store, and runs that its targets know."""

    id: str
    name: str
    missing: int
    finished_runs: int = 0
    running_runs: int = 0
    reasons: tuple[str, ...] = ()


async def resume(home: Home, wish: Wish, announce: Announce) -> tuple[TakenUp, ...]:
    """Take up every plan whose command is gone; what cannot be now, or is not wished for, stays for another time.

    When cancelled, what is not in the store yet stays too. Raises `InputError` for a wish for an unknown target.
    """
    check_targets(home, wish.targets)
    taken = []
    for path in plans(home.path):
        try:
            with claimed(path) as claim:
                if claim is not None:
                    taken.append(await _take_up(home, claim, wish, announce))
        except InputError as error:
            taken.append(TakenUp(path.stem, path.name, reasons=(str(error),)))
    return tuple(taken)


async def look(home: Home, wish: Wish) -> tuple[Waiting, ...]:
    """What `resume` would find; changes nothing.

    Raises `InputError` for a plan that cannot be read, and for a wish for an unknown target.
    """
    check_targets(home, wish.targets)
    found = []
    for path in plans(home.path):
        with claimed(path) as claim:
            if claim is not None:
                found.append(await _look(home, claim.pending, wish))
    return tuple(found)


def missing_outcomes(home: Home) -> int:
    """How many measurements and profiles of interrupted commands are not in the store."""
    return sum(not one.settled for pending in _interrupted(home) for one in _undertakings(home, pending))


def _interrupted(home: Home) -> Iterator[Pending]:
    for path in plans(home.path):
        with contextlib.suppress(InputError), claimed(path) as claim:
            if claim is not None:
                yield claim.pending


def _undertakings(home: Home, pending: Pending) -> tuple[Undertaking, ...]:
    """The jobs of a plan; settled are those whose outcome is in the store, or whose benchmark is not.

    A command stores its benchmark before its first run: where it is not there, nothing has begun, or it was removed.
    """
    jobs = pending.undertakings()
    stored = home.store.stored_ids([pending.id, *pending.outcome_ids])
    for one in jobs:
        one.settled = one.outcome_id in stored or (pending.passes is None and pending.id not in stored)
    return jobs


async def _take_up(home: Home, claim: Claim, wish: Wish, announce: Announce) -> TakenUp:
    pending = claim.pending
    jobs = _undertakings(home, pending)
    new = [one for one in jobs if not one.settled]
    reporter = announce(Expansion(tuple(one.job for one in new), ()), None if pending.passes else pending.id)
    trusted = [one.job.model.digest for one in new] if wish.trusted else []
    late, reasons = 0, []
    for target in filter(wish.includes, _targets(jobs)):
        try:
            async with open_client(home, target, trusted_models=trusted) as client:
                late += await collect(home, client, pending, jobs, wish, reporter)
        except (UnreachableError, AgentError, InputError) as error:
            reasons.append(str(error))
    if not reasons and all(wish.includes(one.job.target) and one.settled for one in jobs):
        claim.drop()
    return _told(pending, new, late, reasons)


def _told(pending: Pending, new: Sequence[Undertaking], late: int, reasons: Sequence[str]) -> TakenUp:
    settled = [one for one in new if one.settled]
    return TakenUp(
        pending.id,
        pending.name,
        collected=tuple(one.outcome_id for one in settled if one.failure is not INTERRUPTED),
        interrupted=tuple(one.outcome_id for one in settled if one.failure is INTERRUPTED),
        left=tuple(one.outcome_id for one in new if not one.settled),
        dropped_runs=late,
        reasons=tuple(reasons),
    )


async def _look(home: Home, pending: Pending, wish: Wish) -> Waiting:
    jobs = _undertakings(home, pending)
    states: Counter[bool] = Counter()
    reasons = []
    for target in filter(wish.includes, _targets(jobs)):
        try:
            async with open_client(home, target) as client:
                known = await known_runs(client, [one for one in jobs if one.job.target == target])
                states.update(state == run_pb2.RUN_STATE_FINISHED for state in known.values())
        except (UnreachableError, InputError) as error:
            reasons.append(str(error))
    missing = sum(not one.settled for one in jobs)
    return Waiting(pending.id, pending.name, missing, states[True], states[False], tuple(reasons))


def _targets(jobs: Sequence[Undertaking]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.job.target for one in jobs))
