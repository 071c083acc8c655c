"""The agent's clock beside a child's: a lie is found, and what messages take is none.

And its loop, which tells what it waited from what kept it.
"""

import asyncio
import time
from pathlib import Path

import pytest

from enginebench_agent import server
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.runs import block_clock
from enginebench_agent.runs.block_clock import BlockClock, IdleLoop, idle_ns
from enginebench_agent.server import ServeOptions, serve
from enginebench_proto.v1 import measurement_pb2, run_pb2
from enginebench_proto.v1.worker_pb2 import WorkerMessage

MS = 1_000_000


class Play:
    """A child whose clock runs at `factor`, and an agent that hears it; both live in a time of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, factor: float = 1.0) -> None:
        self.now_ns = 1_000 * MS
        monkeypatch.setattr(block_clock, "time", self)
        self._factor = factor
        self.clock = BlockClock()
        self._begin_ns: int | None = None
        self._waited_ns = 0

    def perf_counter_ns(self) -> int:
        return self.now_ns

    def _told(self, time_ns: int) -> int:
        return int(time_ns * self._factor)

    def phase(self, delay_ms: float = 0.1, waited_ms: float = 0) -> None:
        self._waited_ns += int(waited_ms * MS)
        self._send(WorkerMessage(phase=run_pb2.PhaseStarted(name="steady_state")), self.now_ns, delay_ms)
        self.now_ns -= int(delay_ms * MS)

    def block(
        self,
        duration_ms: float = 100,
        pause_ms: float = 1,
        delay_ms: float = 0.1,
        waited_ms: float = 0,
        after_ms: float = 0,
    ) -> None:
        """A pause, a block, something else, and its message after a delay; so much of it all the child waited for a
        processor.
        """
        self._waited_ns += int(waited_ms * MS)
        begin_ns = self.now_ns + int(pause_ms * MS)
        end_ns = begin_ns + int(duration_ms * MS)
        self._begin_ns = begin_ns if self._begin_ns is None else self._begin_ns
        block = measurement_pb2.Block(
            begin_ns=self._told(begin_ns) - self._told(self._begin_ns),
            duration_ns=self._told(end_ns) - self._told(begin_ns),
        )
        sent_ns = end_ns + int(after_ms * MS)
        ended_ns = self._told(end_ns)
        self._send(WorkerMessage(part=run_pb2.ResultPart(block=block), ended_ns=ended_ns), sent_ns, delay_ms)
        self.now_ns = max(self.now_ns - int(delay_ms * MS), sent_ns)

    def _send(self, message: WorkerMessage, sent_ns: int, delay_ms: float = 0.1) -> None:
        self.clock.wait()
        message.sent_ns = self._told(sent_ns)
        self.now_ns = sent_ns + int(delay_ms * MS)
        self.clock.hear(message, self._waited_ns)


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.15, 2.0])
def test_a_clock_of_another_speed_is_found(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    play = Play(monkeypatch, factor)
    play.phase()
    for _ in range(20):
        play.block()
    seen_ns, told_ns = play.clock.difference_ns() or (0, 0)
    assert told_ns / seen_ns == pytest.approx(factor, rel=0.02)


def test_a_single_block_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(monkeypatch, 0.5)
    play.phase()
    play.block()
    assert play.clock.difference_ns() is not None


@pytest.mark.parametrize("blocks", [1, 3, 20])
def test_pauses_and_one_late_message_are_no_lie(monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    play = Play(monkeypatch)
    play.phase()
    for number in range(blocks):
        play.block(pause_ms=500 * (number % 3), delay_ms=19 if number == blocks - 1 else 0.1)
    assert play.clock.difference_ns() is None


@pytest.mark.parametrize("late", [0, 1, 5], ids=["phase", "first block", "last block"])
def test_one_message_of_a_short_run_that_was_held_up_on_its_way_is_no_lie(
    monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """Seen where a suite kept both processors busy: 0.111 s told, 0.067 s by the agent."""
    play = Play(monkeypatch)
    play.phase(delay_ms=45 if late == 0 else 0.1)
    for number in range(1, 6):
        play.block(duration_ms=20, pause_ms=60 if number == 1 else 1, delay_ms=45 if late == number else 0.1)
    assert play.clock.difference_ns() is None


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize(
    ("blocks", "duration_ms", "after_ms"), [(5, 20, 0), (20, 50, 40)], ids=["short run", "long between blocks"]
)
def test_a_lie_is_found_in_a_short_run_too_and_however_long_a_child_takes_to_tell(
    monkeypatch: pytest.MonkeyPatch, factor: float, blocks: int, duration_ms: float, after_ms: float
) -> None:
    play = Play(monkeypatch, factor)
    play.phase()
    for _ in range(blocks):
        play.block(duration_ms=duration_ms, after_ms=after_ms)
    assert play.clock.difference_ns() is not None


def test_a_lie_is_measured_by_the_blocks_however_long_the_pauses_are(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(monkeypatch, 0.9)
    play.phase()
    for _ in range(20):
        play.block(pause_ms=2_000)
    assert play.clock.difference_ns() is not None


@pytest.mark.parametrize("late", [0, 2], ids=["phase", "last block"])
def test_a_child_that_waited_for_a_processor_before_it_sent_is_no_lie(
    monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """As beside a hundred others: 0.119 s went by for 0.050 s of blocks."""
    play = Play(monkeypatch)
    held_up = {"delay_ms": 70, "waited_ms": 70}
    play.phase(**held_up if late == 0 else {})
    play.block(duration_ms=20)
    play.block(duration_ms=30, **held_up if late == 2 else {})
    assert play.clock.difference_ns() is None


@pytest.mark.parametrize(("blocks", "at"), [(1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 3), (8, 0), (8, 7)])
def test_what_a_child_did_between_a_block_and_its_message_is_no_lie(
    monkeypatch: pytest.MonkeyPatch, blocks: int, at: int
) -> None:
    """Beside a hundred others: 0.051 s of blocks, and by the agent's clock they had been over before they began."""
    play = Play(monkeypatch)
    play.phase()
    for number in range(blocks):
        play.block(duration_ms=20, after_ms=90 if number == at else 0)
    assert play.clock.difference_ns() is None


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.3])
def test_a_lie_is_found_on_a_busy_machine_too(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    play = Play(monkeypatch, factor)
    play.phase()
    for _ in range(20):
        play.block(duration_ms=50, delay_ms=10, waited_ms=25)
    assert play.clock.difference_ns() is not None


def test_what_the_agent_itself_was_late_for_is_no_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(monkeypatch)
    play.phase()
    play.block()
    play.now_ns += 300 * MS  # its disk took so long
    play.clock.wait()
    play.block(delay_ms=250)
    assert play.clock.difference_ns() is None


def test_what_the_agent_was_late_for_while_it_waited_is_no_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a hundred others: 7.956 s went by for 0.126 s of blocks, and its loop was kept from hearing of them."""
    play = Play(monkeypatch)
    idle = iter([0, 0, 0, *(200 * MS * number for number in range(1, 3)), *[402 * MS] * 20])
    monkeypatch.setattr(block_clock, "idle_ns", lambda: next(idle))
    play.clock = BlockClock()
    play.phase()
    play.block(duration_ms=200)
    play.block(duration_ms=50, delay_ms=7_000)
    play.block(duration_ms=50, delay_ms=6_900)
    assert play.clock.difference_ns() is None


def test_delays_of_messages_that_queue_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes long over the first block, and a little over each of those that came meanwhile."""
    play, sent_ns = Play(monkeypatch), 1_000 * MS
    play.phase()
    for number in range(64):
        begin_ns = number * MS // 10
        block = measurement_pb2.Block(begin_ns=begin_ns, duration_ns=MS // 10)
        end_ns = sent_ns + begin_ns
        play.clock.hear(WorkerMessage(part=run_pb2.ResultPart(block=block), sent_ns=end_ns, ended_ns=end_ns))
        play.now_ns += 2 * MS if number else 2_000 * MS
        play.clock.wait()
        play.now_ns += MS // 2  # as long as it takes to be told of one that is there
    assert play.clock.difference_ns() is None


def test_a_child_that_tells_nothing_of_its_clock_is_not_judged() -> None:
    clock = BlockClock()
    clock.wait()
    clock.hear(WorkerMessage(part=run_pb2.ResultPart(block=measurement_pb2.Block())))
    assert clock.difference_ns() is None


def test_a_message_may_come_later_by_what_the_agent_worked_meanwhile() -> None:
    clock = BlockClock()
    clock.wait()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    clock.hear(WorkerMessage())
    assert clock._delay_ns >= 90 * MS


@pytest.mark.parametrize(
    ("late_ms", "busy_ms", "may_be_late_ms"),
    [(0.5, 0, 20), (40, 40, 20), (19_700, 100, 20_200)],
    ids=["in time", "had to wait for a processor", "stood still"],
)
def test_an_agent_that_stood_still_may_have_heard_late(late_ms: float, busy_ms: float, may_be_late_ms: float) -> None:
    clock = BlockClock()
    clock.oversleep(int(late_ms * MS), int(busy_ms * MS), 500 * MS)
    assert clock._delay_ns == may_be_late_ms * MS


def test_waiting_counts_and_being_kept_does_not() -> None:
    async def found() -> tuple[int, int]:
        begin_ns = idle_ns() or 0
        await asyncio.sleep(0.1)
        waited_ns = idle_ns() or 0
        time.sleep(0.3)
        await asyncio.sleep(0)
        return waited_ns - begin_ns, (idle_ns() or 0) - waited_ns

    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        waited_ns, kept_ns = runner.run(found())
    assert waited_ns >= 90 * MS
    assert kept_ns < 200 * MS


def test_another_loop_does_not_know_and_neither_does_none() -> None:
    async def found() -> int | None:
        return idle_ns()

    assert asyncio.run(found()) is None
    assert idle_ns() is None


def test_an_agent_runs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []

    async def look(*_: object) -> None:
        seen.append(idle_ns())

    monkeypatch.setattr(server, "_serve", look)
    serve(ServeOptions("127.0.0.1", 0, DataFolder(tmp_path / "data")))
    (found,) = seen
    assert found is not None
