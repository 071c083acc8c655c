"""The timing loops count, rotate, warm and stop as they say, whatever the engine does meanwhile."""

import threading
import time
from collections import Counter

import pytest

from enginebench_agent.worker.timing import REPORT_PERIOD_NS, Limits, Timings, collector_paused, time_requests
from enginebench_plugins.spec import InferRequest, Load, OnDone, Outputs, Tensors

INPUTS = [{"x": index} for index in range(3)]
MILLISECOND = 1_000_000


class Sleeper(InferRequest):
    """Sleeps one millisecond and remembers what it was given; fails at a given call."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: list[int] = []
        self.fail_at = fail_at
        self.active = False

    def infer(self, inputs: Tensors) -> Outputs:
        assert not self.active, "one request served two inferences at once"
        self.active = True
        self.seen.append(inputs["x"])
        time.sleep(0.001)
        self.active = False
        if self.fail_at == len(self.seen):
            raise RuntimeError(f"call {self.fail_at} failed")
        return {"y": inputs["x"]}


class Inline(Sleeper):
    """Completes within `start`, on the caller's thread, as an engine without threads may."""

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        on_done(self.infer(inputs), None)


class Refusing(Sleeper):
    """Raises from `start` itself once it has been called a few times."""

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        if len(self.seen) == 3:
            raise RuntimeError("no more starts")
        super().start(inputs, on_done)


def run(load: Load, requests: list[Sleeper], limits: Limits) -> Timings:
    try:
        return time_requests(load, requests, INPUTS, limits, lambda *_: None)
    finally:
        for request in requests:
            request.close()


@pytest.mark.parametrize(("load", "count"), [(Load.SYNC, 1), (Load.ASYNC, 1), (Load.ASYNC, 3)])
def test_every_inference_is_one_sample_and_inputs_rotate(load: Load, count: int) -> None:
    requests = [Sleeper() for _ in range(count)]
    timings = run(load, requests, Limits(0, 30))
    seen = [index for request in requests for index in request.seen]
    assert len(timings.latency_ns) == len(seen) >= 30
    assert max(Counter(seen).values()) - min(Counter(seen).values()) <= 1
    assert min(timings.latency_ns) >= MILLISECOND
    assert timings.conclusive


def test_three_requests_in_flight_overlap_within_the_wall_clock() -> None:
    timings = run(Load.ASYNC, [Sleeper() for _ in range(3)], Limits(0, 60))
    assert max(timings.latency_ns) <= timings.wall_ns < sum(timings.latency_ns) * 0.75


def test_a_synchronous_wall_clock_holds_all_latencies() -> None:
    timings = run(Load.SYNC, [Sleeper()], Limits(0, 20))
    assert timings.wall_ns >= sum(timings.latency_ns)


@pytest.mark.parametrize("load", list(Load))
def test_both_minima_are_met(load: Load) -> None:
    long_enough = run(load, [Sleeper()], Limits(30 * MILLISECOND, 2))
    often_enough = run(load, [Sleeper()], Limits(1, 25))
    assert long_enough.wall_ns >= 30 * MILLISECOND
    assert len(often_enough.latency_ns) >= 25


@pytest.mark.parametrize("load", list(Load))
def test_the_maximum_cuts_off_and_makes_it_inconclusive(load: Load) -> None:
    timings = run(load, [Sleeper()], Limits(0, 1_000_000, 10 * MILLISECOND))
    assert not timings.conclusive
    assert 1 <= len(timings.latency_ns) < 100


@pytest.mark.parametrize("count", [1, 4])
def test_every_request_runs_even_when_the_time_is_over_at_once(count: int) -> None:
    requests = [Sleeper() for _ in range(count)]
    run(Load.ASYNC, requests, Limits(0, 1, 0))
    assert all(request.seen for request in requests)


def test_an_error_in_flight_is_raised_once_nothing_is_in_flight_any_more() -> None:
    requests = [Sleeper(), Sleeper(fail_at=3), Sleeper()]
    with pytest.raises(RuntimeError, match="call 3 failed"):
        run(Load.ASYNC, requests, Limits(10_000 * MILLISECOND, 1))
    assert not any(request.active for request in requests)


def test_an_error_from_start_is_joined_too() -> None:
    with pytest.raises(RuntimeError, match="no more starts"):
        run(Load.ASYNC, [Sleeper(), Refusing()], Limits(10_000 * MILLISECOND, 1))


def test_a_synchronous_error_ends_the_loop() -> None:
    with pytest.raises(RuntimeError, match="call 2 failed"):
        run(Load.SYNC, [Sleeper(fail_at=2)], Limits(10_000 * MILLISECOND, 1))


def test_an_engine_that_completes_within_start_does_not_recurse() -> None:
    class Instant(Inline):
        def infer(self, inputs: Tensors) -> Outputs:
            return inputs

    timings = run(Load.ASYNC, [Instant()], Limits(0, 20_000))
    assert len(timings.latency_ns) == 20_000


@pytest.mark.parametrize("load", list(Load))
def test_progress_is_reported_a_few_times_a_second_with_what_is_to_come(load: Load) -> None:
    reports: list[tuple[int, int, int]] = []
    request = Sleeper()
    limits = Limits(600 * MILLISECOND, 1)
    timings = time_requests(load, [request], INPUTS, limits, lambda *values: reports.append(values))
    request.close()
    assert 1 <= len(reports) <= timings.wall_ns // REPORT_PERIOD_NS
    assert all(expected == 600 * MILLISECOND and done > 0 for _, expected, done in reports)


def test_progress_expects_what_the_fewest_iterations_will_take() -> None:
    reports: list[tuple[int, int, int]] = []
    time_requests(Load.SYNC, [Sleeper()], INPUTS, Limits(0, 400), lambda *values: reports.append(values))
    elapsed, expected, done = reports[0]
    assert expected == elapsed * 400 // done


def test_the_collector_rests_only_while_measuring() -> None:
    import gc

    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    run(Load.ASYNC, [Sleeper() for _ in range(3)], Limits(0, 5))
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
