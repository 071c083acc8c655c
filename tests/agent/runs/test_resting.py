"""Who waits for a turn rests: what that stops, what it does not, and what stands still with it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from agent_process import ENDLESS_MS, Client, connected, eventually, make_spec
from scripted_runs import Bench, finished

from agent_server import AgentProcess
from enginebench_agent.runs.resting import OwnTime, Rest
from enginebench_agent.runs.run import Run
from enginebench_proto.v1 import measurement_pb2, run_pb2
from enginebench_proto.v1.run_pb2 import (
    FAILURE_KIND_CRASHED,
    FAILURE_KIND_TIMED_OUT,
    OUTCOME_CANCELLED,
    OUTCOME_OK,
    Interleaving,
)

pytestmark = pytest.mark.slow

BUSY = "import time\nprint(flush=True)\nwhile True: pass"
PARENT = """
import os, subprocess, sys
command = dict(args=[sys.executable, "-c", {busy!r}], stdout=subprocess.PIPE)
own_group = subprocess.Popen(**command, process_group=0)
own_session = subprocess.Popen(**command, start_new_session=True)
own_group.stdout.readline(), own_session.stdout.readline()
print(own_group.pid, own_session.pid, flush=True)
own_group.wait()
"""


def state(pid: int) -> str:
    """The state of a process: R, S, T …; "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    return state(pid) not in ("", "Z", "X")


@pytest.fixture
def family() -> Iterator[tuple[int, list[int]]]:
    """A process in a session of its own, and two that it started and that left its group, or its session too."""
    script = PARENT.format(busy=BUSY)
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    children = [int(word) for word in process.stdout.readline().split()]
    yield process.pid, children
    for pid in (process.pid, *children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


async def test_all_that_a_process_started_rests_and_goes_on_with_it(family: tuple[int, list[int]]) -> None:
    parent, children = family
    rest = Rest(parent, parent)
    assert await rest.begin()
    assert [state(pid) for pid in (parent, *children)] == ["T"] * 3
    rest.end()
    await eventually(lambda: all(state(pid) in "RS" for pid in (parent, *children)))


async def test_what_rests_outside_the_group_can_be_ended(family: tuple[int, list[int]]) -> None:
    parent, children = family
    rest = Rest(parent, parent)
    await rest.begin()
    rest.kill()
    await eventually(lambda: not any(alive(pid) for pid in children))


async def test_nobody_is_waited_for_who_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    rest = Rest(process.pid, process.pid)
    assert await rest.begin()
    rest.end()
    rest.kill()


async def test_own_time_stands_still_while_its_owner_rests() -> None:
    own, rang = OwnTime(), list[float]()
    own.call_later(0.1, lambda: rang.append(own.seconds()))
    own.rest()
    await asyncio.sleep(0.15)
    assert own.seconds() < 0.05
    assert not rang
    own.go_on()
    await asyncio.wait_for(own.sleep(0.12), 5)
    assert 0.1 <= rang[0] < 0.12 + 1


async def test_own_time_that_is_stopped_calls_nobody() -> None:
    own, rang = OwnTime(), list[bool]()
    own.call_later(0.01, lambda: rang.append(True))
    own.stop()
    await asyncio.sleep(0.05)
    assert not rang


# Members of a group, whose children do what a script says.

TURNS = """
import threading
log = open({log!r}, "ab", buffering=0)
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
def state(pid):
    try:
        return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
index = 0
turn(unfinished=True)
{before}
while turn(unfinished=index < {needed}) == b"g":
    others = [int(line.split()[1]) for line in open({log!r}) if line.startswith("pid")]
    states = [state(pid) for pid in others if pid != os.getpid()]
    log.write(f"states {{''.join(states)}}\\n".encode())
    time.sleep({seconds})
    block(index, 1)
    index += 1
    {then}
result(index, index)
"""
TELL = 'log.write(f"pid {os.getpid()}\\n".encode())'
HELPER = f"""
import subprocess
helper = subprocess.Popen([sys.executable, "-c", {BUSY!r}], start_new_session=True, stdout=subprocess.PIPE)
helper.stdout.readline()
log.write(f"pid {{helper.pid}}\\n".encode())
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def start(bench: Bench, tmp_path: Path) -> Callable[..., Run]:
    def begin(name: str, needed: int, seconds: float = 0.01, then: str = "pass", **options: object) -> Run:
        before = options.pop("before", TELL)
        log = str(tmp_path / "log")
        script = TURNS.format(log=log, needed=needed, seconds=seconds, then=then, before=before)
        return bench.start(script, name, interleaving=Interleaving(group="g", members=2, seed=3), **options)  # type: ignore[arg-type]

    return begin


def _lines(folder: Path, kind: str) -> list[str]:
    log = (folder / "log").read_text() if (folder / "log").exists() else ""
    return [line.partition(" ")[2] for line in log.splitlines() if line.startswith(kind)]


async def test_whoever_has_no_turn_stands_still(bench: Bench, start: Callable[..., Run], tmp_path: Path) -> None:
    await finished(start("a", 5), start("b", 5))
    assert _lines(tmp_path, "states") == ["T"] * 10
    for name in "ab":
        assert (await bench.parts(name))[0].result.outcome == OUTCOME_OK


async def test_a_helper_that_left_the_session_stands_still_too(
    bench: Bench, start: Callable[..., Run], tmp_path: Path
) -> None:
    await finished(start("a", 4, before=HELPER, then="index == 4 and helper.kill()"), start("b", 4, before=""))
    states = _lines(tmp_path, "states")
    assert states.count("T") == 4, "in the turns of b"
    assert sum(state in ("R", "S") for state in states) == 4, "in those of a"


async def test_the_turns_of_others_use_up_nobodys_time_limit(bench: Bench, start: Callable[..., Run]) -> None:
    began = time.monotonic()
    await finished(start("quick", 6, limit_seconds=1.2), start("slow", 6, seconds=0.3))
    assert time.monotonic() - began > 1.8
    assert (await bench.parts("quick"))[0].result.outcome == OUTCOME_OK


async def test_a_member_that_hangs_in_its_turn_takes_no_other_with_it(bench: Bench, start: Callable[..., Run]) -> None:
    hang = "index == 2 and time.sleep(60)"
    await finished(start("hanging", 5, then=hang, limit_seconds=1), start("sound", 5))
    assert (await bench.parts("hanging"))[0].result.failure.kind == FAILURE_KIND_TIMED_OUT
    sound = (await bench.parts("sound"))[0].result
    assert (sound.outcome, sound.measurement.blocks) == (OUTCOME_OK, 5)


async def test_a_member_that_rests_can_be_cancelled_in_the_middle_of_anothers_turn(
    bench: Bench, start: Callable[..., Run], tmp_path: Path
) -> None:
    resting, other = start("resting", 100), start("other", 3, seconds=0.5)
    await eventually(lambda: len(_lines(tmp_path, "pid")) == 2)
    first, second = map(int, _lines(tmp_path, "pid"))
    await eventually(lambda: state(first) == "T" and bool(_lines(tmp_path, "states")))
    await resting.cancel()
    assert not alive(first)
    await finished(other)
    assert not alive(second)
    assert (await bench.parts("resting"))[0].result.outcome == OUTCOME_CANCELLED
    assert (await bench.parts("other"))[0].result.measurement.blocks == 3


async def test_a_member_killed_while_it_rests_leaves_the_turns_to_the_other(
    bench: Bench, start: Callable[..., Run], tmp_path: Path
) -> None:
    killed, other = start("killed", 100), start("other", 3, seconds=0.3)
    await eventually(lambda: len(_lines(tmp_path, "pid")) == 2)
    first, _ = map(int, _lines(tmp_path, "pid"))
    await eventually(lambda: state(first) == "T" and bool(_lines(tmp_path, "states")))
    os.kill(first, signal.SIGKILL)
    await finished(killed, other)
    assert (await bench.parts("killed"))[0].result.failure.kind == FAILURE_KIND_CRASHED
    assert (await bench.parts("other"))[0].result.measurement.blocks == 3


# A real agent, keepers and all.


@pytest.fixture
async def playing(tmp_path: Path, model: bytes) -> AsyncIterator[AgentProcess]:
    """An agent in whose group two members take turns without end."""
    agent = AgentProcess(tmp_path / "data")
    try:
        async with connected(agent) as client:
            await client.upload(model)
            for name in ("a", "b"):
                turns = run_pb2.Interleaving(group="g", members=2, seed=7)
                options = {"latency_us": "2000"}
                await client.start(make_spec(model, name, interleaving=turns, options=options, duration_ms=ENDLESS_MS))
            await client.wait_for_phase("b", "steady_state")
            yield agent
    finally:
        agent.kill()


@pytest.mark.fault(34)
async def test_nothing_stays_stopped_or_alive_when_the_agent_is_killed(playing: AgentProcess) -> None:
    family = _family(playing.process.pid)
    assert len(family) == 5, "the agent, two keepers and two engines"
    await eventually(lambda: sum(state(pid) == "T" for pid in family) == 1)
    playing.process.kill()
    playing.process.wait()
    await eventually(lambda: not any(alive(pid) for pid in family[1:]))


async def test_an_agent_asked_to_end_at_once_ends_who_rests(playing: AgentProcess) -> None:
    family = _family(playing.process.pid)
    playing.process.send_signal(signal.SIGINT)
    playing.process.wait(20)
    assert not any(alive(pid) for pid in family[1:])


def _family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for thread in Path(f"/proc/{each}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


# Pauses.


async def _stopped(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.fault(35)
async def test_a_child_that_is_stopped_is_told_left_out_and_measures_on(
    shared: Client, shared_agent: AgentProcess, model: bytes
) -> None:
    spec = make_spec(model, "paused", options={"latency_us": "1000"}, duration_ms=800)
    await shared.start(spec)
    await shared.wait_for_phase("paused", "steady_state")
    await asyncio.sleep(0.2)
    (child,) = shared_agent.children()
    await _stopped(child, 1.0)
    await shared.watch("paused")
    outcome = await shared.outcome("paused")
    assert outcome.result.outcome == OUTCOME_OK
    paused = [block for block in outcome.blocks if block.paused_ns]
    assert sum(block.paused_ns for block in paused) == pytest.approx(1_000_000_000, rel=0.2)
    assert all(block.disturbances[0].startswith("paused for") for block in paused)
    assert all(block.disturbed_by[0].kind == measurement_pb2.DISTURBANCE_KIND_PAUSED for block in paused)
    assert all(block.disturbed_by[0].duration_ns == block.paused_ns for block in paused)
    assert all(len(block.disturbed_by) == len(block.disturbances) for block in outcome.blocks)
    assert all(block.HasField("paused_ns") for block in outcome.blocks)
    going_on = sum(block.duration_ns for block in outcome.blocks if not block.paused_ns)
    assert going_on >= 800_000_000, "what stood still does not count towards the duration"


@pytest.mark.fault(35)
async def test_who_rests_between_turns_is_no_pause_and_an_agent_that_stood_still_says_so(
    shared: Client, shared_agent: AgentProcess, model: bytes
) -> None:
    for name in ("turn-a", "turn-b"):
        turns = run_pb2.Interleaving(group="turns", members=2, seed=7)
        options = {"latency_us": "1000"}
        await shared.start(make_spec(model, name, interleaving=turns, options=options, duration_ms=4000))
    await shared.wait_for_phase("turn-b", "steady_state")
    await asyncio.sleep(0.1)  # busy machines make it a second
    await _stopped(shared_agent.pid, 2.5)
    for name in ("turn-a", "turn-b"):
        await shared.watch(name)
    outcomes = [await shared.outcome(name) for name in ("turn-a", "turn-b")]
    assert [outcome.result.outcome for outcome in outcomes] == [OUTCOME_OK] * 2
    assert [block.paused_ns for outcome in outcomes for block in outcome.blocks if block.paused_ns] == []
    assert max(outcome.result.measurement.agent_paused_ns for outcome in outcomes) > 1_000_000_000
