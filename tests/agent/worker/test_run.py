"""A run in a real child: its phases, its numbers, and what ends it."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from agent.worker.pliable import ENGINE
from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1 import measurement_pb2, run_pb2

pytestmark = pytest.mark.slow


def test_a_measurement_has_its_phases_its_samples_and_its_evidence(run_mine: Callable) -> None:
    child = run_mine()
    result, measurement = child.result, child.result.measurement
    assert (result.run_id, result.outcome, result.engine_version) == ("r1", run_pb2.OUTCOME_OK, "4.2")
    assert not result.HasField("failure")
    names = ["read", "compile", "first_inference", "warm_up", "steady_state", "teardown"]
    assert [phase.name for phase in measurement.phases] == child.phases == names
    assert all(phase.duration_ns > 0 and phase.peak_rss_bytes > 1 << 20 for phase in measurement.phases)
    samples = child.latencies_ns
    assert len(samples) == measurement.iterations >= 10
    assert measurement.steady_state_ns >= max(sum(samples), 20_000_000)
    assert 0 < measurement.cpu_time_ns < 2 * measurement.steady_state_ns
    assert measurement.stop_reason == measurement_pb2.STOP_REASON_TARGET_MET
    assert measurement.warm_up.iterations >= 3 + 4
    assert 0 < measurement.calibration.timer_ns < measurement.calibration.empty_loop_ns
    assert measurement.calibration.block_ns == 20_000_000
    assert len(measurement.input_set_sha256) == 64
    assert measurement.inputs[0] == configuration.InputTensor(name="x", dtype="float32", shape=[2, 4])
    assert measurement.outputs[0] == measurement_pb2.OutputTensor(name="x_scaled", dtype="float32", shape=[2, 4])


def test_a_block_is_told_with_when_it_ended_by_the_clock_it_is_sent_by(run_mine: Callable) -> None:
    messages = run_mine().messages
    start = next(one for one in messages if one.phase.name == "steady_state")
    blocks = [one for one in messages if one.part.HasField("block")]
    assert blocks
    first = blocks[0].part.block
    for one in blocks:
        assert start.sent_ns < one.ended_ns < one.sent_ns
        since_first_ns = one.part.block.begin_ns + one.part.block.duration_ns - first.begin_ns - first.duration_ns
        assert one.ended_ns - blocks[0].ended_ns == since_first_ns


def test_what_the_engine_does_not_tell_is_observed_or_absent(run_mine: Callable) -> None:
    effective = run_mine().result.measurement.effective
    assert effective.streams == measurement_pb2.IntegerReadback(
        value=1, source=measurement_pb2.READBACK_SOURCE_ENGINE_API
    )
    assert effective.threads == measurement_pb2.IntegerReadback(
        value=1, source=measurement_pb2.READBACK_SOURCE_OBSERVED
    )
    assert not effective.HasField("precision")
    assert len(effective.affinity) == 1


def test_a_process_is_confined_before_the_engine_is_imported_and_has_loaded_little_until_then(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    note = """
import os, sys
cpus, threads = len(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"]
sys.stderr.write(f"imported on {cpus} with {threads} thread, numpy {'numpy' in sys.modules}")
sys.stderr.write(f", asyncio {'asyncio' in sys.modules}")
"""
    folder = install_plugin("mine", note + ENGINE)
    child = run_worker("run", str(tiny_model), spec=make_spec("mine"), folders=[folder])
    assert "imported on 1 with 1 thread, numpy False, asyncio False" in child.stderr


def test_convert_is_a_phase_where_the_engine_overrides_it(run_mine: Callable) -> None:
    child = run_mine({"convert": "def convert(self, model, source): return model + 1"})
    assert child.phases[:3] == ["read", "convert", "compile"]


def test_a_converter_knows_what_is_compiled_for(run_mine: Callable) -> None:
    converting = "def convert(self, model, source): self.asked = source.settings; return model"
    compiling = "assert settings == self.asked == source.settings and settings.batch == 4, self.asked"
    child = run_mine({"convert": converting, "compile": compiling}, batch=4)
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure.detail


def test_three_requests_in_flight_give_a_sample_each(run_mine: Callable) -> None:
    child = run_mine({"infer": "import time; time.sleep(0.001)"}, load=configuration.LOAD_ASYNC, requests=3, batch=4)
    measurement, samples = child.result.measurement, child.latencies_ns
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert measurement.batch == 4
    assert len(samples) == measurement.iterations
    assert max(samples) <= measurement.steady_state_ns < sum(samples)


def test_many_samples_travel_in_parts(run_mine: Callable) -> None:
    stop = configuration.StopRule(min_iterations=70_000, block_ns=1_500_000_000)
    child = run_mine({"infer": "return {'y': inputs['x']}"}, stop=stop)
    for block in child.blocks:
        parts = [len(part.latency_ns) for part in child.sample_parts if part.block == block.index]
        assert sum(parts) == block.iterations
        assert all(size == 65_536 for size in parts[:-1])
        assert parts[-1] <= 65_536
    assert any(len(part.latency_ns) == 65_536 for part in child.sample_parts)


def test_one_inference_goes_before_each_block_and_is_no_sample(run_mine: Callable) -> None:
    stop = configuration.StopRule(min_duration_ns=400_000_000, block_ns=30_000_000)
    child = run_mine({"infer": "import sys, time; time.sleep(0.001); sys.stderr.write('u')"}, stop=stop)
    measurement = child.result.measurement
    apart = 1 + measurement.warm_up.iterations + measurement.afterwards.inferences
    untimed = child.stderr.count("u") - (apart + measurement.iterations)
    # None goes where a single inference filled the block before, as on a busy machine, or what was left of the warm-up.
    lone = sum(block.iterations == 1 for block in child.blocks[:-1])
    assert 0 <= measurement.blocks - lone - untimed <= 1
    assert measurement.blocks >= 3, "else one before them all would do"


@pytest.mark.parametrize(("load", "requests"), [(configuration.LOAD_SYNC, 1), (configuration.LOAD_ASYNC, 2)])
def test_blocks_come_in_order_with_their_samples_and_their_evidence(
    run_mine: Callable, load: int, requests: int
) -> None:
    stop = configuration.StopRule(min_duration_ns=200_000_000, block_ns=30_000_000)
    child = run_mine({"infer": "import time; time.sleep(0.001)"}, load=load, requests=requests, stop=stop)
    blocks, measurement = child.blocks, child.result.measurement
    assert [block.index for block in blocks] == list(range(measurement.blocks)) == [p.block for p in child.sample_parts]
    assert [block.iterations for block in blocks] == [len(part.latency_ns) for part in child.sample_parts]
    assert sum(block.duration_ns for block in blocks) == measurement.steady_state_ns >= 200_000_000
    assert sum(block.iterations for block in blocks) == measurement.iterations
    assert sum(block.evidence.cpu_time_ns for block in blocks) == measurement.cpu_time_ns
    assert blocks[0].begin_ns == 0
    gaps = [after.begin_ns - before.begin_ns - before.duration_ns for before, after in pairwise(blocks)]
    assert all(gap == 0 for gap in gaps) if load == configuration.LOAD_ASYNC else min(gaps) > 0
    assert [bool(block.evidence.missing) for block in blocks][1:] == [False] * (len(blocks) - 1)
    assert not child.sample_parts[0].scheduled_ns


@pytest.mark.parametrize(("load", "requests"), [(configuration.LOAD_SYNC, 1), (configuration.LOAD_ASYNC, 3)])
def test_the_outputs_of_every_input_are_captured(run_mine: Callable, load: int, requests: int) -> None:
    measurement = run_mine(load=load, requests=requests).result.measurement
    captured = measurement.captured_outputs
    assert [(output.input_index, output.name) for output in captured] == [(index, "x_scaled") for index in range(3)]
    assert len({output.values for output in captured}) == 3
    assert measurement.warm_up.iterations >= 3 + 4 * requests


WAVERING = {"infer": "import time; time.sleep(0.002 if Request.calls // 20 % 2 else 0.001)"}
SHORT = {"min_duration_ns": 20_000_000, "max_duration_ns": 400_000_000, "block_ns": 20_000_000}


def test_a_target_that_is_met_ends_the_run(run_mine: Callable) -> None:
    result = run_mine(WAVERING, stop=configuration.StopRule(**SHORT, target_relative_half_width=5)).result
    assert result.outcome == run_pb2.OUTCOME_OK
    assert result.measurement.stop_reason == measurement_pb2.STOP_REASON_TARGET_MET
    assert 6 <= result.measurement.blocks < 20


def test_a_target_that_is_missed_makes_it_inconclusive(run_mine: Callable) -> None:
    result = run_mine(WAVERING, stop=configuration.StopRule(**SHORT, target_relative_half_width=1e-6)).result
    assert result.outcome == run_pb2.OUTCOME_INCONCLUSIVE
    assert result.measurement.stop_reason == measurement_pb2.STOP_REASON_MAX_DURATION
    assert result.measurement.steady_state_ns >= 400_000_000


SLOW_FIRST = "time.sleep(0.02 if Request.calls == 1 or time.monotonic() < Request.slow_until else 0.001)"


def test_a_warm_up_that_is_cut_off_says_so(run_mine: Callable) -> None:
    # By the time since it began and not by calls, of which fewer fit into a half on a busy machine.
    since = "if Request.calls == 2: Request.slow_until = time.monotonic() + 0.6"
    infer = {"infer": f"import time\n        {since}\n        {SLOW_FIRST}"}
    stop = configuration.StopRule(min_iterations=1, warmup_ns=800_000_000, max_warmup_ns=800_000_000)
    warm_up = run_mine(infer, stop=stop).result.measurement.warm_up
    assert not (warm_up.steady or warm_up.undecided)
    assert "still" in warm_up.reason


OVERLOAD = configuration.Arrivals(process=configuration.ARRIVAL_PROCESS_POISSON, rate_per_s=800, seed=3)


def test_an_overloaded_open_loop_ends_and_shows_its_queue(run_mine: Callable) -> None:
    """400 inferences per second can be served of 800; what waits at the maximum is counted."""
    stop = configuration.StopRule(min_duration_ns=200_000_000, max_duration_ns=300_000_000, block_ns=50_000_000)
    infer = {"infer": "import time; time.sleep(0.0025)"}
    child = run_mine(infer, load=configuration.LOAD_OPEN_LOOP, arrivals=OVERLOAD, stop=stop)
    measurement, parts = child.result.measurement, child.sample_parts
    assert child.result.outcome == run_pb2.OUTCOME_INCONCLUSIVE, child.result.failure
    assert measurement.stop_reason == measurement_pb2.STOP_REASON_MAX_DURATION
    assert measurement.unsent_arrivals > 10
    # Of those that could not be sent in time, some were sent later.
    assert measurement.iterations <= measurement.scheduled_arrivals
    assert measurement.iterations + measurement.unsent_arrivals >= measurement.scheduled_arrivals
    assert measurement.scheduled_arrivals == pytest.approx(160, abs=60)
    assert 200_000_000 <= measurement.steady_state_ns < 400_000_000
    for part in parts:
        due, sent, done = list(part.scheduled_ns), list(part.sent_ns), list(part.completed_ns)
        assert [end - begin for begin, end in zip(due, done, strict=True)] == list(part.latency_ns)
        assert all(a <= b <= c for a, b, c in zip(due, sent, done, strict=True))
    assert parts[-1].latency_ns[-1] > 20_000_000


def test_an_overload_that_is_served_to_its_end_is_told(run_mine: Callable) -> None:
    """A tenth more arrives than is served: all of it completes within the longest duration, after a queue that grew."""
    arrivals = configuration.Arrivals(process=configuration.ARRIVAL_PROCESS_CONSTANT, rate_per_s=500)
    stop = configuration.StopRule(min_duration_ns=1_000_000_000, max_duration_ns=9_000_000_000, block_ns=50_000_000)
    infer = {"infer": "import time; time.sleep(0.0022)"}
    child = run_mine(infer, load=configuration.LOAD_OPEN_LOOP, arrivals=arrivals, stop=stop)
    measurement = child.result.measurement
    assert measurement.iterations == measurement.scheduled_arrivals
    assert measurement.unsent_arrivals > 40
    assert measurement.stop_reason == measurement_pb2.STOP_REASON_MAX_DURATION


SLOWER_LATE = """import threading, time
        if any(one.name == "open-loop-sender" for one in threading.enumerate()):
            Request.begun = getattr(Request, "begun", time.monotonic())
            time.sleep(0.003 if time.monotonic() - Request.begun > 0.95 else 0)"""


@pytest.mark.alone
def test_who_happens_to_wait_as_a_fixed_time_is_up_makes_no_overload(run_mine: Callable) -> None:
    """Of 500 arrivals, about ten wait at the end, since the last 50 ms are slower than they arrive."""
    arrivals = configuration.Arrivals(process=configuration.ARRIVAL_PROCESS_CONSTANT, rate_per_s=500)
    stop = configuration.StopRule(min_duration_ns=1_000_000_000, max_duration_ns=1_000_000_000, block_ns=50_000_000)
    child = run_mine({"infer": SLOWER_LATE}, load=configuration.LOAD_OPEN_LOOP, arrivals=arrivals, stop=stop)
    assert child.result.measurement.unsent_arrivals > 0
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    assert child.result.measurement.stop_reason == measurement_pb2.STOP_REASON_TARGET_MET


def test_an_open_loop_within_capacity_serves_all_its_arrivals(run_mine: Callable) -> None:
    arrivals = configuration.Arrivals(process=configuration.ARRIVAL_PROCESS_CONSTANT, rate_per_s=200)
    stop = configuration.StopRule(min_duration_ns=200_000_000, max_duration_ns=2_000_000_000)
    child = run_mine(load=configuration.LOAD_OPEN_LOOP, requests=2, arrivals=arrivals, stop=stop)
    measurement = child.result.measurement
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    # 40 in 200 ms; a busy machine may stop later, but never beyond the 2 s.
    assert 36 <= measurement.iterations == measurement.scheduled_arrivals <= 400
    assert measurement.unsent_arrivals <= 1


def test_memory_stays_flat_over_two_million_inferences(run_mine: Callable) -> None:
    stop = configuration.StopRule(min_iterations=2_000_000, warmup_ns=100_000_000)
    child = run_mine({"infer": "return inputs"}, stop=stop)
    peaks = {phase.name: phase.peak_rss_bytes for phase in child.result.measurement.phases}
    assert child.result.measurement.iterations >= 2_000_000
    assert peaks["steady_state"] - peaks["warm_up"] < 8 * 1024 * 1024  # as 64-bit integers they would fill twice that


def test_too_few_iterations_are_inconclusive_and_still_numbers(run_mine: Callable) -> None:
    stop = configuration.StopRule(min_iterations=1000, max_duration_ns=20_000_000)
    child = run_mine({"infer": "import time; time.sleep(0.002)"}, stop=stop)
    assert child.result.outcome == run_pb2.OUTCOME_INCONCLUSIVE
    assert 0 < child.result.measurement.iterations == len(child.latencies_ns) < 1000


def test_progress_tells_how_far_it_has_come(run_mine: Callable) -> None:
    stop = configuration.StopRule(min_duration_ns=600_000_000)
    child = run_mine({"infer": "import time; time.sleep(0.001)"}, stop=stop)
    progress = [message.progress for message in child.messages if message.HasField("progress")]
    assert progress
    assert progress[0].expected_ns == 600_000_000
    assert 0 < progress[0].elapsed_ns < 600_000_000
    assert progress[0].iterations > 0
