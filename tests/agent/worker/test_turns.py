"""A child that takes turns runs one block a turn, says when it has enough, and goes on until it is told to stop."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from enginebench_agent.worker.pipe import read_frame
from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1.measurement_pb2 import STOP_REASON_MAX_DURATION, STOP_REASON_TARGET_MET
from enginebench_proto.v1.run_pb2 import OUTCOME_FAILED, OUTCOME_INCONCLUSIVE, OUTCOME_OK, RunSpec
from enginebench_proto.v1.worker_pb2 import WorkerMessage

pytestmark = pytest.mark.slow

STOP_RULE = configuration.StopRule(min_duration_ns=55_000_000, block_ns=20_000_000, warmup_ns=5_000_000)


class Member:
    """A child of an interleaved group, and the agent's end of its pipe."""

    def __init__(self, process: "subprocess.Popen[bytes]", turns: int) -> None:
        self._process = process
        self._turns = turns
        self.heard: list[WorkerMessage] = []

    def await_question(self) -> bool:
        """Listen until it wants a turn; returns whether it is unfinished."""
        while (message := self._next()) is not None:
            if message.HasField("turn_wanted"):
                return message.turn_wanted.unfinished
        raise AssertionError("it ended without asking for a turn")

    def answer(self, turn: bytes) -> None:
        os.write(self._turns, turn)

    def hang_up(self) -> None:
        os.close(self._turns)

    def listen_to_the_end(self) -> WorkerMessage:
        while self._next() is not None:
            pass
        return self.heard[-1]

    def blocks(self) -> int:
        return sum(message.part.HasField("block") for message in self.heard)

    def _next(self) -> WorkerMessage | None:
        message = read_frame(self._process.stdout)
        if message is not None:
            self.heard.append(message)
        return message


@pytest.fixture
def start(tiny_model: Path) -> Iterator[Callable[[RunSpec], Member]]:
    processes = []

    def start_member(spec: RunSpec) -> Member:
        read_end, write_end = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "enginebench_agent.worker", "run", str(tiny_model), "--turns", str(read_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[read_end],
        )
        processes.append(process)
        os.close(read_end)
        process.stdin.write(spec.SerializeToString())
        process.stdin.close()
        member = Member(process, write_end)
        assert member.await_question(), "the first turn is for all that comes before the blocks"
        assert not any(message.HasField("phase") for message in member.heard)
        member.answer(b"g")
        return member

    yield start_member
    for process in processes:
        process.kill()
        process.wait()


def fake(make_spec: Callable, **changes: object) -> RunSpec:
    return make_spec("fake", device="FAKE:0", options={"latency_us": "1000", "wait": "sleep"}, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"load": configuration.LOAD_ASYNC, "requests": 2},
        {
            "load": configuration.LOAD_OPEN_LOOP,
            "requests": 2,
            "arrivals": configuration.Arrivals(process=configuration.ARRIVAL_PROCESS_CONSTANT, rate_per_s=300),
        },
    ],
)
def test_one_block_a_turn_until_told_to_stop(start: Callable, make_spec: Callable, changes: dict) -> None:
    member = start(fake(make_spec, stop=STOP_RULE, **changes))
    unfinished = []
    for turn in range(6):
        unfinished.append(member.await_question())
        assert member.blocks() == turn
        member.answer(b"g")
    member.await_question()
    member.answer(b"s")
    result = member.listen_to_the_end().part.result
    measurement = result.measurement
    assert unfinished[0] is True
    assert unfinished[4:] == [False, False]
    assert unfinished == sorted(unfinished, reverse=True)
    assert (result.outcome, measurement.stop_reason) == (OUTCOME_OK, STOP_REASON_TARGET_MET), result.failure
    assert measurement.blocks == member.blocks() == 6


def test_a_member_waits_for_its_turn_and_the_pause_is_in_no_block(start: Callable, make_spec: Callable) -> None:
    member = start(fake(make_spec, stop=STOP_RULE))
    for _ in range(2):
        member.await_question()
        time.sleep(0.2)
        member.answer(b"g")
    member.await_question()
    member.answer(b"s")
    member.listen_to_the_end()
    first, second = [message.part.block for message in member.heard if message.part.HasField("block")]
    assert second.begin_ns - first.begin_ns > 200_000_000
    assert max(first.duration_ns, second.duration_ns) < 200_000_000


def test_a_member_past_its_maximum_says_it_is_finished(start: Callable, make_spec: Callable) -> None:
    stop = configuration.StopRule(min_iterations=100_000, max_duration_ns=30_000_000, block_ns=20_000_000)
    member = start(fake(make_spec, stop=stop))
    answers = []
    for _ in range(3):
        answers.append(member.await_question())
        member.answer(b"g")
    answers.append(member.await_question())
    member.answer(b"s")
    result = member.listen_to_the_end().part.result
    # On a busy machine one block already takes as long as two should.
    assert answers in ([True, True, False, False], [True, False, False, False])
    assert result.outcome == OUTCOME_INCONCLUSIVE
    assert result.measurement.stop_reason == STOP_REASON_MAX_DURATION


def test_a_member_stopped_before_it_had_enough_is_inconclusive(start: Callable, make_spec: Callable) -> None:
    member = start(fake(make_spec, stop=STOP_RULE))
    assert member.await_question()
    member.answer(b"g")
    assert member.await_question()
    member.answer(b"s")
    assert member.listen_to_the_end().part.result.outcome == OUTCOME_INCONCLUSIVE


def test_a_member_whose_agent_hangs_up_fails(start: Callable, make_spec: Callable) -> None:
    member = start(fake(make_spec, stop=STOP_RULE))
    member.await_question()
    member.hang_up()
    result = member.listen_to_the_end().part.result
    assert result.outcome == OUTCOME_FAILED
    assert "pipe for turns" in result.failure.detail
