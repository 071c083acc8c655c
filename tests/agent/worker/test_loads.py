"""Closed loads time every inference, rotate inputs, keep requests busy and leave nothing behind."""

import threading
import time
import tracemalloc
from collections import Counter
from contextlib import closing

import pytest

from agent.worker.scripted_loads import INPUTS, MILLISECOND, Inline, Instant, Refusing, Sleeper, seen_by
from enginebench_agent.worker.loads.block import CAPACITY, TimedLoad
from enginebench_agent.worker.loads.closed import closed_load
from enginebench_plugins.spec import InferRequest, Load, OnDone, Outputs, Tensors


def load_of(load: Load, requests: list[InferRequest]) -> TimedLoad:
    return closed_load(load, requests, INPUTS)


@pytest.mark.parametrize(("load", "count"), [(Load.SYNC, 1), (Load.ASYNC, 1), (Load.ASYNC, 3)])
def test_every_inference_of_a_block_is_one_sample_and_inputs_rotate(load: Load, count: int) -> None:
    requests = [Sleeper() for _ in range(count)]
    timed_load = load_of(load, requests)
    timed = timed_load.block(0, 30)
    in_flight = count if load is Load.ASYNC else 0
    timed_load.drain()
    seen = seen_by(requests)
    assert len(timed.latency_ns) >= 30
    assert in_flight <= len(seen) - len(timed.latency_ns) <= 2 * in_flight
    assert max(Counter(seen).values()) - min(Counter(seen).values()) <= 1
    assert min(timed.latency_ns) >= MILLISECOND
    assert not any(request.active for request in requests)


def test_a_synchronous_block_of_some_inferences_has_exactly_those() -> None:
    request = Sleeper(0)
    assert len(load_of(Load.SYNC, [request]).block(0, 20).latency_ns) == len(request.seen) == 20


def test_an_inference_that_is_not_timed_goes_before_a_block_unless_it_would_double_the_work() -> None:
    request = Sleeper(0)
    load = load_of(Load.SYNC, [request])
    for fewest, inferences in [(1, 1 + 1), (1, 1), (2, 2), (5, 1 + 5)]:
        before = len(request.seen)
        load.align()
        assert len(load.block(0, fewest).latency_ns) == fewest
        assert len(request.seen) - before == inferences


def test_every_input_is_timed_as_often_whatever_goes_before_a_block() -> None:
    request = Sleeper(0)
    load = load_of(Load.SYNC, [request])
    timed: list[int] = []
    for _ in range(len(INPUTS)):
        load.align()
        load.block(0, len(INPUTS) - 1)
        timed += request.seen[1 - len(INPUTS) :]
    assert set(Counter(timed).values()) == {len(INPUTS) - 1}


def test_three_requests_in_flight_overlap_within_the_wall_clock() -> None:
    # So long that what a busy machine puts between two of them does not count.
    with closing(load_of(Load.ASYNC, [Sleeper(10) for _ in range(3)])) as load:
        timed = load.block(0, 60)
    assert max(timed.latency_ns) <= timed.duration_ns < sum(timed.latency_ns) * 0.75


def test_a_synchronous_wall_clock_holds_all_latencies_and_little_else() -> None:
    timed = load_of(Load.SYNC, [Sleeper(5)]).block(0, 20)
    assert 0 <= timed.duration_ns - sum(timed.latency_ns) < 0.02 * timed.duration_ns


@pytest.mark.parametrize("load", [Load.SYNC, Load.ASYNC])
def test_a_block_is_as_long_as_asked_and_never_empty(load: Load) -> None:
    with closing(load_of(load, [Sleeper()])) as timed_load:
        timed_load.align()
        long_ones = []
        for _ in range(5):
            long_ones.append(timed_load.block(30 * MILLISECOND))
            assert time.perf_counter_ns() - long_ones[-1].begin_ns >= 28 * MILLISECOND
        short = timed_load.block(1)
    # A block ends with the last request that was complete in time: it is shorter by one that a busy machine held up.
    longest = max(long_ones, key=lambda block: block.duration_ns)
    assert longest.duration_ns + max(longest.latency_ns) >= 28 * MILLISECOND
    assert min(block.duration_ns for block in long_ones) < 300 * MILLISECOND
    assert all(len(block.latency_ns) >= 1 for block in (*long_ones, short))
    assert len(longest.latency_ns) > 1


def test_asynchronous_blocks_follow_each_other_without_a_gap_and_miss_nothing() -> None:
    requests = [Sleeper() for _ in range(3)]
    with closing(load_of(Load.ASYNC, requests)) as load:
        blocks = [load.block(10 * MILLISECOND) for _ in range(5)]
    assert [block.begin_ns for block in blocks[1:]] == [block.end_ns for block in blocks[:-1]]
    in_flight_at_the_end = len(seen_by(requests)) - sum(len(block.latency_ns) for block in blocks)
    assert 0 <= in_flight_at_the_end <= 2 * len(requests)


@pytest.mark.slow
@pytest.mark.parametrize("in_turn", [True, False])
def test_a_block_holds_no_inference_that_was_done_before_it(in_turn: bool) -> None:
    """Four that take 20 ms each do 200 a second, however they are cut into blocks; sleepers can only be slower."""
    load = load_of(Load.ASYNC, [Sleeper(20) for _ in range(4)])
    blocks = []
    for turn in range(8):
        if in_turn or turn == 0:
            load.align()
        blocks.append(load.block(30 * MILLISECOND, in_turn=in_turn))
        if in_turn:
            load.drain()
    load.close()
    done, seconds = sum(len(one.latency_ns) for one in blocks), sum(one.duration_ns for one in blocks) / 1e9
    assert done / seconds < 1.05 * 4 / 0.020
    assert all(len(one.latency_ns) >= 4 for one in blocks)


def test_what_fails_while_a_load_is_drained_is_raised() -> None:
    requests = [Sleeper(), Sleeper(500, fail_at=1)]
    load = load_of(Load.ASYNC, requests)
    load.block(0, 30)
    with pytest.raises(RuntimeError, match="call 1 failed"):
        load.drain()
    assert not any(request.active for request in requests)


def test_requests_that_wait_for_each_other_are_all_in_flight() -> None:
    """Each inference ends only when three are running, so fewer than three in flight would wait for ever."""
    meeting = threading.Barrier(3, timeout=10)

    class Meeting(InferRequest):
        def infer(self, inputs: Tensors) -> Outputs:
            meeting.wait()
            return inputs

    requests = [Meeting() for _ in range(3)]
    load = load_of(Load.ASYNC, requests)
    assert len(load.block(0, 30).latency_ns) >= 30
    meeting.abort()
    with pytest.raises(threading.BrokenBarrierError):
        load.block(1_000 * MILLISECOND, CAPACITY)


@pytest.mark.parametrize("kind", [Sleeper, Inline])
def test_every_request_runs_even_when_the_time_is_over_at_once(kind: type[Sleeper]) -> None:
    requests = [kind() for _ in range(4)]
    with closing(load_of(Load.ASYNC, requests)) as load:
        load.block(0)
    assert all(request.seen for request in requests)


def test_an_error_in_flight_is_raised_once_nothing_is_in_flight_any_more() -> None:
    requests = [Sleeper(), Sleeper(fail_at=3), Sleeper()]
    with pytest.raises(RuntimeError, match="call 3 failed"):
        load_of(Load.ASYNC, requests).block(10_000 * MILLISECOND)
    assert not any(request.active for request in requests)


def test_an_error_from_start_is_joined_too() -> None:
    requests = [Sleeper(), Refusing()]
    with pytest.raises(RuntimeError, match="no more starts"):
        load_of(Load.ASYNC, requests).block(10_000 * MILLISECOND)
    assert not any(request.active for request in requests)


def test_a_synchronous_error_ends_the_block() -> None:
    with pytest.raises(RuntimeError, match="call 2 failed"):
        load_of(Load.SYNC, [Sleeper(fail_at=2)]).block(10_000 * MILLISECOND)


def test_an_engine_that_completes_within_start_neither_recurses_nor_holds_up_the_end() -> None:
    with closing(load_of(Load.ASYNC, [Instant(), Instant()])) as load:
        timed = load.block(50 * MILLISECOND, 20_000)
    assert len(timed.latency_ns) >= 20_000
    assert timed.duration_ns < 10_000 * MILLISECOND


def test_a_request_is_not_started_while_its_last_start_goes_on() -> None:
    class Overtaken(InferRequest):
        """Completes on another thread, always before `start` returns."""

        starting = False

        def infer(self, inputs: Tensors) -> Outputs:
            return inputs

        def start(self, inputs: Tensors, on_done: OnDone) -> None:
            assert not self.starting
            self.starting = True
            engine = threading.Thread(target=on_done, args=(inputs, None))
            engine.start()
            engine.join()
            self.starting = False

    with closing(load_of(Load.ASYNC, [Overtaken(), Overtaken()])) as load:
        timed = load.block(0, 50)
    assert len(timed.latency_ns) >= 50


def test_a_request_that_fails_and_then_raises_from_start_is_waited_for_once() -> None:
    class FailingTwice(InferRequest):
        def infer(self, inputs: Tensors) -> Outputs:
            return inputs

        def start(self, inputs: Tensors, on_done: OnDone) -> None:
            on_done(None, RuntimeError("the first"))
            raise RuntimeError("the second")

    requests = [FailingTwice(), Sleeper(20)]
    with pytest.raises(RuntimeError, match="the first"):
        load_of(Load.ASYNC, requests).block(10_000 * MILLISECOND)
    assert not requests[1].active


def test_freeing_the_outputs_is_not_part_of_the_latency() -> None:
    class SlowToFree(dict):
        def __del__(self) -> None:
            time.sleep(0.005)

    class Quick(InferRequest):
        def infer(self, inputs: Tensors) -> Outputs:
            return SlowToFree(inputs)

    timed = load_of(Load.SYNC, [Quick()]).block(0, 10)
    assert sorted(timed.latency_ns)[5] < MILLISECOND
    assert timed.duration_ns > 9 * 5 * MILLISECOND


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    requests = [Sleeper() for _ in range(3)]
    with closing(load_of(Load.ASYNC, requests)) as load:
        load.block(0, 5)
    for request in requests:
        request.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.parametrize("load", [Load.SYNC, Load.ASYNC])
def test_a_block_of_instant_inferences_ends_when_it_is_full_so_that_memory_stays_flat(load: Load) -> None:
    with closing(load_of(load, [Instant()])) as timed_load:
        timed_load.block(MILLISECOND)
        tracemalloc.start()
        held = []
        for _ in range(3):
            block = timed_load.block(60_000 * MILLISECOND)
            assert len(block.latency_ns) < 2 * CAPACITY
            del block
            held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert max(held) < 8 * 1024 * 1024
