"""Whether a process stood still in a block: who tells, what nobody tells, and what only looks like it."""

import os
import signal
import subprocess
import sys
import time
from array import array

import numpy as np
import pytest

from enginebench_agent.worker import standstill
from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.loads.block import TimedBlock, clock
from enginebench_agent.worker.standstill import Pause, Standstill
from enginebench_proto.v1.measurement_pb2 import Evidence

MS = 1_000_000
SECOND = 1000 * MS
CORES = 2
BEGIN_NS = clock() + 1_000_000 * SECOND
"""Later than anything here is made, however long the tests before take: on the clock of the samples."""


def block(begin_ms: float, *latencies_ms: float, between_ms: float = 0, **series: "array[int]") -> TimedBlock:
    """Inferences one after the other, and a gap somewhere between them."""
    values = array("q", [round(each * MS) for each in latencies_ms])
    begin_ns = BEGIN_NS + round(begin_ms * MS)
    return TimedBlock(begin_ns, begin_ns + sum(values) + round(between_ms * MS), values, **series)


def in_flight(begin_ms: int, end_ms: int, *latencies_ms: int) -> TimedBlock:
    """Inferences that may have begun in the block before."""
    return TimedBlock(
        BEGIN_NS + begin_ms * MS, BEGIN_NS + end_ms * MS, array("q", [each * MS for each in latencies_ms])
    )


def evidence(timed: TimedBlock, cores: float = 1.0, idle_ms: float = 0, **others: int) -> Evidence:
    """What a process is seen to do that keeps so many cores busy, but for some time."""
    return Evidence(cpu_time_ns=max(0, round(cores * (timed.duration_ns - idle_ms * MS))), **others)


def usual(judge: Standstill, latency_ms: float = 2, count: int = 10, cores: float = 1.0) -> None:
    """Let it see a few blocks as they always are."""
    for number in range(5):
        timed = block(-1000 * (5 - number), *[latency_ms] * count)
        assert not judge.within(timed, evidence(timed, cores), goes_on=False).is_felt


def test_what_a_keeper_tells_is_believed_to_the_millisecond() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    timed = block(0, 2, 2, 32, 2)
    pauses.begin(BEGIN_NS + 5 * MS)
    pauses.end(BEGIN_NS + 35 * MS)
    assert judge.within(timed, evidence(timed), goes_on=False) == Pause(30 * MS, 30 * MS)
    following = block(40, 2, 2)
    assert judge.within(following, evidence(following), goes_on=False) == Pause(0)


def test_who_rested_before_the_block_did_not_stand_still_in_it_however_late_its_keeper_says_so() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    pauses.begin(BEGIN_NS + 5 * MS)
    pauses.end(BEGIN_NS + 25 * MS)  # the keeper got no processor before
    judge._since_ns = BEGIN_NS + 18 * MS  # its turn has come
    timed = block(20, 2, 2, 2)
    assert judge.within(timed, evidence(timed), goes_on=False) == Pause(0)


def test_a_pause_since_the_block_before_is_told_and_takes_nothing_from_this_one() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    before = block(0, 2, 2)
    assert judge.within(before, evidence(before), goes_on=False) == Pause(0)
    pauses.begin(BEGIN_NS + 6 * MS)
    pauses.end(BEGIN_NS + 26 * MS)
    timed = block(30, 2, 2)
    assert judge.within(timed, evidence(timed), goes_on=False) == Pause(20 * MS, 0)
    following = block(40, 2, 2)
    assert judge.within(following, evidence(following), goes_on=False) == Pause(0)


def test_a_pause_whose_end_the_keeper_has_not_seen_yet_ends_with_the_block() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    pauses.begin(BEGIN_NS + 2 * MS)
    timed = block(0, 50)
    assert judge.within(timed, evidence(timed), goes_on=False).paused_ns == 48 * MS


def test_a_keeper_that_was_stopped_too_knows_that_there_was_a_pause_and_the_gap_tells_how_long() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    usual(judge)
    hiccup = block(0, *[2] * 10, 900)
    waiting = evidence(hiccup, idle_ms=900, cpu_pressure_ns=900 * MS)
    assert judge.within(hiccup, waiting, goes_on=False) == Pause(0)
    stopped = block(1000, *[2] * 10, 900)
    pauses.end(BEGIN_NS + 1915 * MS)
    assert judge.within(stopped, waiting, goes_on=False) == Pause(898 * MS, 898 * MS)


def test_more_pauses_than_are_remembered_lose_the_oldest() -> None:
    pauses = Pauses()
    for number in range(100):
        pauses.begin(number * 10)
        pauses.end(number * 10 + 5)
    assert list(pauses.within(0, 1000))[-1] == (990, 995)
    assert len(list(pauses.within(0, 1000))) == 64


@pytest.mark.parametrize(
    "timed",
    [block(0, 2, 2, 20_000, 2), block(0, *[2] * 10, between_ms=20_000)],
    ids=["within an inference", "between two"],
)
def test_a_stretch_without_any_work_is_a_pause_though_nobody_tells(timed: TimedBlock) -> None:
    judge = Standstill(None, CORES)
    usual(judge)
    found = judge.within(timed, evidence(timed, idle_ms=19_998), goes_on=False)
    assert found.paused_ns == pytest.approx(20 * SECOND, rel=0.001)
    assert found.lost_ns == found.paused_ns


def test_without_a_keeper_nothing_is_known_of_an_ordinary_block() -> None:
    judge = Standstill(None, CORES)
    timed = block(0, 2, 2)
    assert judge.within(timed, evidence(timed), goes_on=False) == Pause(None)


@pytest.mark.parametrize(
    ("timed", "seen"),
    [
        (block(0, 1_500, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), {"idle_ms": 0}),
        (block(0, *[2] * 20, between_ms=900), {"idle_ms": 0}),
        (block(0, *[2] * 20, 900), {"idle_ms": 890, "cpu_pressure_ns": 880 * MS}),
        (block(0, *[2] * 20, 900), {"idle_ms": 890, "memory_pressure_ns": 880 * MS}),
        (block(0, *[2] * 20, 900), {"idle_ms": 890, "throttled_ns": 880 * MS}),
        (block(0, *[2] * 20, 900), {"idle_ms": 890, "steal_ns": 880 * MS}),
        (block(0, *[2] * 20, 300), {"idle_ms": 290}),
        (block(0, 19), {"idle_ms": 19}),
    ],
    ids=[
        "a slow first inference that computes",
        "a collector of garbage between two",
        "a neighbour on the processors",
        "memory is waited for",
        "held back for a quota",
        "the hypervisor gave others the processor",
        "too short to tell from a hiccup",
        "one inference, nine times the usual",
    ],
)
def test_what_only_looks_like_a_pause_is_none(timed: TimedBlock, seen: dict[str, int]) -> None:
    judge = Standstill(None, CORES)
    usual(judge)
    assert not judge.within(timed, evidence(timed, **seen), goes_on=False).is_felt


def test_an_engine_that_always_waits_idle_does_not_stand_still() -> None:
    """As on a GPU: the processor does next to nothing, and one inference fills a block."""
    judge = Standstill(None, CORES)
    for number in range(30):
        timed = block(number * 2000, 1500 + 400 * (number % 3))
        assert not judge.within(timed, evidence(timed, cores=0.001), goes_on=False).is_felt


def test_requests_in_flight_feel_the_pause_of_the_block_before() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    pauses.begin(BEGIN_NS + 10 * MS)
    pauses.end(BEGIN_NS + 510 * MS)
    first = in_flight(0, 512, 2, 2, 504)
    assert judge.within(first, evidence(first, idle_ms=500), goes_on=True).lost_ns == 500 * MS
    second = in_flight(512, 560, 505, 2)
    assert judge.within(second, evidence(second), goes_on=True) == Pause(500 * MS, 0)
    third = in_flight(560, 600, 3, 2)
    assert judge.within(third, evidence(third), goes_on=True) == Pause(0)


def test_what_was_due_in_a_pause_or_waits_behind_it_counts_nowhere() -> None:
    pauses = Pauses()
    judge = Standstill(pauses, CORES)
    pauses.begin(BEGIN_NS + 10 * MS)
    pauses.end(BEGIN_NS + 110 * MS)

    def arrivals(*rows: tuple[int, int, int]) -> TimedBlock:
        due, sent, done = (array("q", [BEGIN_NS + row[each] * MS for row in rows]) for each in range(3))
        latency = array("q", np.subtract(done, due).tobytes())
        return TimedBlock(due[0], done[-1], latency, due, sent, done)

    felt = [
        judge.within(timed, evidence(timed), goes_on=True).is_felt
        for timed in (
            arrivals((0, 0, 5), (20, 111, 116)),
            arrivals((40, 116, 121), (60, 121, 126)),
            arrivals((112, 126, 131), (130, 131, 136)),  # due after the pause, behind those due in it
            arrivals((150, 150, 155), (170, 170, 175)),
            arrivals(
                (190, 190, 195),
            ),
        )
    ]
    assert felt == [True, True, True, False, False]


def test_a_machine_that_was_suspended_is_seen_though_no_time_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Standstill(Pauses(), CORES)
    slept_ns = standstill._suspended_ns()
    monkeypatch.setattr(standstill, "_suspended_ns", lambda: slept_ns + 3600 * SECOND)
    timed = block(0, 2, 2, 2)
    found = judge.within(timed, evidence(timed), goes_on=False)
    assert (found.lost_ns, found.paused_ns) == (0, pytest.approx(3600 * SECOND, abs=MS))
    judge.begin()
    assert judge.within(timed, evidence(timed), goes_on=False) == Pause(0)


@pytest.mark.parametrize(("jump_ns", "told"), [(0, False), (50 * MS, False), (-3600 * SECOND, True), (SECOND, True)])
def test_a_wall_clock_that_is_set_is_told(monkeypatch: pytest.MonkeyPatch, jump_ns: int, told: bool) -> None:
    judge = Standstill(None, CORES)
    before = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: before() + jump_ns)
    jump = judge.clock_jump_ns()
    assert (jump is not None) == told
    assert jump is None or jump == pytest.approx(jump_ns, abs=400 * MS)


KEPT = """
import sys, time
from enginebench_agent.worker import keeper
from enginebench_agent.worker.keeper import clock
pauses = keeper.part()
import os
begin = clock()
print(os.getpid(), os.getpgid(0) == os.getpid(), flush=True)
sys.stdin.readline()
found = list(pauses.within(begin, clock()))
print(pauses.went_on(begin), *(end - begin for begin, end in found))
"""


def kept_process() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", KEPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_keeper_tells_how_long_its_engine_was_stopped() -> None:
    with kept_process() as kept:
        assert kept.stdout is not None and kept.stdin is not None
        pid, leads_a_group = kept.stdout.readline().split()
        assert leads_a_group == b"True"
        for pause_s in (0.05, 0.2):
            os.killpg(int(pid), signal.SIGSTOP)
            time.sleep(pause_s)
            os.killpg(int(pid), signal.SIGCONT)
            time.sleep(0.05)
        kept.stdin.write(b"\n")
        kept.stdin.flush()
        unseen, *paused_ns = kept.stdout.readline().split()
        first_ns, second_ns = map(int, paused_ns)
    assert unseen == b"False"
    assert 40 * MS < first_ns < 20 * SECOND
    assert 190 * MS < second_ns < 20 * SECOND


@pytest.mark.parametrize("keeper_first", [True, False])
def test_a_keeper_that_was_stopped_with_its_engine_says_only_that_it_was(keeper_first: bool) -> None:
    with kept_process() as kept:
        assert kept.stdout is not None and kept.stdin is not None
        engine = int(kept.stdout.readline().split()[0])
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in (kept.pid, engine) if keeper_first else (engine, kept.pid):
                os.kill(pid, number)
            time.sleep(0.1)
        kept.stdin.write(b"\n")
        kept.stdin.flush()
        unseen, *paused_ns = kept.stdout.readline().split()
    # Whether the keeper was quick enough to see the engine stopped before it was itself, nobody can say.
    assert unseen == b"True" or int(paused_ns[0]) > 80 * MS


def test_arrivals_far_apart_in_a_turn_are_no_pause() -> None:
    judge = Standstill(Pauses(), CORES)
    usual(judge)
    latency, at_ms = array("q", [2 * MS]), array("q", [BEGIN_NS + 998 * MS])
    done = array("q", [BEGIN_NS + 1000 * MS])
    timed = TimedBlock(BEGIN_NS, BEGIN_NS + 1000 * MS, latency, at_ms, at_ms, done)
    assert judge.within(timed, evidence(timed, idle_ms=998), goes_on=False) == Pause(0)
