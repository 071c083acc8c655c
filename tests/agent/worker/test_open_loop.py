"""An open loop sends on schedule, counts from the schedule, and shows the queue that an overload builds up."""

import time
from collections.abc import Callable
from functools import partial
from itertools import chain, islice, repeat

import numpy as np
import pytest

from agent.worker.scripted_loads import INPUTS, MILLISECOND, Inline, Refusing, Sleeper, seen_by
from enginebench_agent.worker.loads.block import TimedBlock
from enginebench_agent.worker.loads.open_loop import OpenLoop, gaps_ns
from enginebench_plugins.spec import InferRequest, Outputs, Tensors
from enginebench_proto.v1.configuration_pb2 import ARRIVAL_PROCESS_CONSTANT, ARRIVAL_PROCESS_POISSON, Arrivals

pytestmark = pytest.mark.alone

SERVICE_MS = 5


class Server(InferRequest):
    """Serves one inference in exactly 5 ms, however late the machine wakes it: it sleeps until a clock of its own."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def infer(self, inputs: Tensors) -> Outputs:
        now = time.perf_counter()
        begun = now if now - self._free_at > 0.002 else self._free_at
        self._free_at = begun + SERVICE_MS / 1000
        time.sleep(max(0.0, self._free_at - now))
        return inputs


def open_loop(share_of_capacity: float, requests: list[InferRequest] | None = None) -> OpenLoop:
    return OpenLoop(requests or [Server()], INPUTS, repeat(SERVICE_MS * MILLISECOND / share_of_capacity))


def run(load: OpenLoop, blocks: int, until_ms: int | None = None) -> list[TimedBlock]:
    measured = [load.block(100 * MILLISECOND) for _ in range(blocks)]
    until = None if until_ms is None else measured[0].begin_ns + until_ms * MILLISECOND
    measured += load.remainder(100 * MILLISECOND, until)
    load.close()
    return measured


def test_below_capacity_requests_are_sent_when_due_and_do_not_queue() -> None:
    load = open_loop(0.5)
    blocks = run(load, 4)
    sent = np.concatenate([np.array(each.sent_ns) - np.array(each.scheduled_ns) for each in blocks])
    latency = np.concatenate([np.array(each.latency_ns) for each in blocks])
    assert np.median(sent) < 2 * MILLISECOND
    assert SERVICE_MS * 0.8 * MILLISECOND < np.median(latency) < 1.6 * SERVICE_MS * MILLISECOND
    assert load.unsent == 0
    assert load.scheduled == latency.size == pytest.approx(40, abs=4)


def test_above_capacity_the_queue_shows_as_latency_counted_from_the_schedule() -> None:
    """At 130 %, a request that is due after t waits for 0.3·t or, on a slow machine, longer; from when it is sent each
    takes 5 ms or so. A schedule that waited for completions would show those 5 ms only.
    """
    load = open_loop(1.3)
    blocks = run(load, 4)
    latency = np.concatenate([np.array(each.latency_ns) for each in blocks])
    scheduled = np.concatenate([np.array(each.scheduled_ns) for each in blocks]) - blocks[0].begin_ns
    served = np.concatenate([np.array(each.completed_ns) - np.array(each.sent_ns) for each in blocks])
    last = scheduled[-1]
    gap = SERVICE_MS * MILLISECOND / 1.3
    assert np.abs(np.diff(scheduled) - gap).max() <= 1
    # One server: the i-th request is complete after i services at the earliest, however fast or slow it was woken.
    earliest = np.arange(1, latency.size + 1) * SERVICE_MS * MILLISECOND
    assert (latency >= earliest + scheduled[0] - scheduled - 1000).all()
    assert latency[-1] > 0.2 * last > 10 * SERVICE_MS * MILLISECOND
    assert latency[-1] > 10 * np.median(served)
    sent = np.concatenate([np.array(each.sent_ns) for each in blocks]) - blocks[0].begin_ns
    assert load.unsent == 0
    assert 0.1 * load.scheduled < load.late <= (sent > last).sum(), "who waited as the schedule ended was sent later"
    assert load.scheduled == latency.size
    assert blocks[-1].completed_ns[-1] > last


def test_what_cannot_be_sent_before_the_maximum_is_counted() -> None:
    load = open_loop(3)
    blocks = run(load, 3, until_ms=320)
    completed = sum(len(each.latency_ns) for each in blocks)
    assert load.unsent > 0.5 * load.scheduled
    assert completed + load.unsent == load.scheduled
    assert blocks[-1].end_ns - blocks[0].begin_ns < 450 * MILLISECOND


def test_what_is_in_flight_at_the_end_is_waited_for_asleep() -> None:
    """A thread that spins takes the core, and the interpreter's lock, from the inference that it waits for."""
    load = OpenLoop([Sleeper(200)], INPUTS, chain(repeat(MILLISECOND, 2), repeat(1e12)))
    load.block(50 * MILLISECOND)  # ends with the first inference; the second is sent as it does
    before_ns = time.thread_time_ns()
    (rest,) = load.remainder(10 * MILLISECOND, None)
    assert len(rest.latency_ns) == 1
    assert time.thread_time_ns() - before_ns < 40 * MILLISECOND


def test_series_are_aligned_and_blocks_follow_each_other() -> None:
    blocks = run(open_loop(0.9), 3)
    for each in blocks:
        rows = np.array([each.scheduled_ns, each.sent_ns, each.completed_ns])
        assert (np.diff(rows, axis=0) >= 0).all()
        assert (rows[2] - rows[0] == np.array(each.latency_ns)).all()
        assert (np.diff(rows[2]) >= 0).all()
    assert [each.begin_ns for each in blocks[1:]] == [each.end_ns for each in blocks[:-1]]


def test_a_rare_arrival_is_waited_for() -> None:
    load = OpenLoop([Sleeper()], INPUTS, repeat(150 * MILLISECOND))
    assert len(load.block(10 * MILLISECOND).latency_ns) == 1
    load.close()


def test_a_drained_block_has_a_schedule_of_its_own() -> None:
    requests = [Sleeper(), Sleeper()]
    load = OpenLoop(requests, INPUTS, repeat(5 * MILLISECOND))
    blocks = [load.block(50 * MILLISECOND, in_turn=True) for _ in range(3)]
    assert not any(request.active for request in requests)
    assert [len(block.latency_ns) for block in blocks] == [9, 9, 9]  # the tenth is due when the block is over
    assert len(seen_by(requests)) == load.scheduled == sum(len(block.latency_ns) for block in blocks)
    assert load.unsent == 0


@pytest.mark.parametrize("kind", [Sleeper, Inline])
def test_free_slots_take_turns(kind: type[Sleeper]) -> None:
    requests = [kind() for _ in range(3)]
    load = OpenLoop(requests, INPUTS, repeat(4 * MILLISECOND))
    load.block(0, 30)
    load.close()
    # Ten each on a quiet machine; on a busy one arrivals pile up, and whichever is free takes them.
    assert all(len(request.seen) >= 5 for request in requests)


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(("broken", "words"), [(Refusing, "no more"), (partial(Sleeper, fail_at=2), "call 2 failed")])
def test_an_error_is_raised_when_nothing_is_in_flight(broken: Callable[[], Sleeper], words: str, in_turn: bool) -> None:
    requests = [broken(), Sleeper()]
    load = OpenLoop(requests, INPUTS, repeat(2 * MILLISECOND))
    with pytest.raises(RuntimeError, match=words):
        load.block(200 * MILLISECOND, 1000, in_turn=in_turn)
    assert not any(request.active for request in requests)


def test_poisson_gaps_are_exponential_and_follow_their_seed() -> None:
    arrivals = Arrivals(process=ARRIVAL_PROCESS_POISSON, rate_per_s=1000, seed=5)
    gaps = np.array(list(islice(gaps_ns(arrivals), 20_000)))
    again = np.array(list(islice(gaps_ns(arrivals), 20_000)))
    arrivals.seed = 6
    other = np.array(list(islice(gaps_ns(arrivals), 20_000)))
    assert (gaps == again).all()
    assert (gaps != other).any()
    assert gaps.mean() == pytest.approx(MILLISECOND, rel=0.03)
    assert gaps.std() == pytest.approx(MILLISECOND, rel=0.05)
    assert np.mean(gaps > MILLISECOND) == pytest.approx(np.exp(-1), abs=0.015)


def test_constant_gaps_are_all_alike() -> None:
    arrivals = Arrivals(process=ARRIVAL_PROCESS_CONSTANT, rate_per_s=400)
    assert list(islice(gaps_ns(arrivals), 3)) == [2.5 * MILLISECOND] * 3
