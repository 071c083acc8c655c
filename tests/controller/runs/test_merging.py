"""Several fresh processes become one measurement: its numbers, its verdict, and what makes it a failure."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import invented
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import (
    Block,
    BlockSamples,
    Configuration,
    EngineRef,
    FailureKind,
    IntervalMethod,
    Measurement,
    ModelFile,
    ModelVersion,
    Status,
    StopRule,
)
from enginebench_controller.runs.outcome import merge, share_of_one_process
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_proto.v1 import measurement_pb2, run_pb2

MODEL = ModelVersion("a" * 64, "net", "onnx", (ModelFile("net.onnx", "a" * 64, 10),), 1)
MET, CUT_OFF = measurement_pb2.STOP_REASON_TARGET_MET, measurement_pb2.STOP_REASON_MAX_DURATION
BLOCKS, ITERATIONS = 5, 40
PAUSE_NS = 20_000_000_000


def case(**stop: object) -> Case:
    configuration = Configuration("CPU", batch=4, cores=1, stop=StopRule(**stop))  # type: ignore[arg-type]  # by name
    return Case("local", EngineRef("fake", "default"), MODEL, configuration, ("cpu",))


def result(stop_reason: measurement_pb2.StopReason = MET, **fields: object) -> run_pb2.RunResult:
    steady_ns = BLOCKS * ITERATIONS * 1_000_000
    measured = measurement_pb2.Measurement(
        iterations=BLOCKS * ITERATIONS,
        batch=4,
        steady_state_ns=steady_ns,
        cpu_time_ns=steady_ns // 2,
        stop_reason=stop_reason,
        blocks=BLOCKS,
        input_set_sha256="c" * 64,
    )
    measured.phases.add(name="compile", duration_ns=5)
    return run_pb2.RunResult(outcome=run_pb2.OUTCOME_OK, engine_version="2.0", measurement=measured, **fields)


def failure(kind: run_pb2.FailureKind = run_pb2.FAILURE_KIND_CRASHED) -> run_pb2.RunResult:
    outcome = run_pb2.OUTCOME_CANCELLED if kind == run_pb2.FAILURE_KIND_CANCELLED else run_pb2.OUTCOME_FAILED
    return run_pb2.RunResult(outcome=outcome, failure=run_pb2.Failure(kind=kind, message="it went away"))


def fill(
    samples: SampleFile, process: int, median_ns: int, disturbed: Sequence[int] = (), paused: Sequence[int] = ()
) -> None:
    random = np.random.default_rng(process)
    samples.begin(process)
    for index in range(BLOCKS):
        latency_ns = (median_ns * random.normal(1, 0.002, ITERATIONS)).astype(np.int64)
        if index in disturbed:
            latency_ns *= 3
        if index in paused:
            latency_ns[-1] += PAUSE_NS
        reasons = (invented.STEAL,) if index in disturbed else (invented.PAUSED,) if index in paused else ()
        paused_ns = PAUSE_NS if index in paused else 0
        duration_ns = int(latency_ns.sum())
        block = Block(process, index, 0, duration_ns, ITERATIONS, disturbances=reasons, paused_ns=paused_ns)
        samples.add_block(block)
        samples.add_samples(BlockSamples(process, index, latency_ns))


def merged(
    folder: Path, medians_ns: Sequence[int], disturbed: Sequence[int] = (), paused: Sequence[int] = (), **stop: object
) -> Measurement:
    with SampleFile(folder) as samples:
        for process, median_ns in enumerate(medians_ns):
            fill(samples, process, median_ns, disturbed, paused)
        results = [result() for _ in medians_ns]
        return merge(case(processes=len(medians_ns), **stop), "b1", "m1", results, samples)


def test_the_stop_rule_is_shared_out_and_iterations_are_rounded_up() -> None:
    share = share_of_one_process(StopRule(9_000, 10, 30_000, 500, 0.01, processes=3))
    assert share == StopRule(3_000, 4, 10_000, 500, 0.01, processes=1)


def test_processes_that_agree_are_one_measurement_with_all_their_samples(tmp_path: Path) -> None:
    measurement = merged(tmp_path, [1_000_000, 1_001_000, 999_000])
    assert (measurement.status, measurement.id, measurement.engine.version) == (Status.OK, "m1", "2.0")
    assert measurement.latency is not None and measurement.latency.samples == 3 * BLOCKS * ITERATIONS
    assert measurement.latency.median_interval is not None
    assert measurement.latency.median_interval.method is IntervalMethod.PROCESSES_T
    assert measurement.iterations == 3 * BLOCKS * ITERATIONS and len(measurement.blocks) == 3 * BLOCKS
    assert measurement.cpu_time_ns == 3 * BLOCKS * ITERATIONS * 500_000
    assert measurement.throughput_items_per_s == pytest.approx(4000, rel=0.01)
    assert [process.median_ns for process in measurement.processes] == pytest.approx([1e6, 1.001e6, 0.999e6], rel=2e-3)
    assert measurement.process_spread == pytest.approx(0.002, abs=1e-3)


def test_processes_that_differ_by_half_are_inconclusive_however_sure_each_was_of_itself(tmp_path: Path) -> None:
    measurement = merged(tmp_path, [1_000_000, 1_500_000, 1_010_000])
    assert measurement.status is Status.INCONCLUSIVE
    assert measurement.process_spread == pytest.approx(0.5, abs=0.02)


def test_with_no_target_processes_that_differ_are_as_good_as_any(tmp_path: Path) -> None:
    measurement = merged(tmp_path, [1_000_000, 1_500_000], target_relative_half_width=0.0)
    assert measurement.status is Status.OK


def test_too_few_iterations_are_inconclusive_even_where_processes_agree(tmp_path: Path) -> None:
    measurement = merged(tmp_path, [1_000_000, 1_000_500, 1_000_200], min_iterations=10_000)
    assert measurement.status is Status.INCONCLUSIVE


@pytest.mark.parametrize(("reason", "status"), [(MET, Status.OK), (CUT_OFF, Status.INCONCLUSIVE)])
def test_a_single_process_decides_for_itself(
    tmp_path: Path, reason: measurement_pb2.StopReason, status: Status
) -> None:
    with SampleFile(tmp_path) as samples:
        fill(samples, 0, 1_000_000)
        measurement = merge(case(processes=1), "b1", "m1", [result(reason)], samples)
    assert measurement.status is status and measurement.process_spread is None


def test_disturbed_blocks_count_unless_they_were_to_be_measured_again(tmp_path: Path) -> None:
    counted = merged(tmp_path, [1_000_000], disturbed=(1, 2, 3))
    left_out = merged(tmp_path, [1_000_000], disturbed=(1, 2, 3), retry_noisy=True)
    assert counted.latency is not None and left_out.latency is not None
    assert counted.latency.median_ns > 2_500_000 and counted.latency.excluded == 0
    assert left_out.latency.median_ns < 1_100_000 and left_out.latency.excluded == 3 * ITERATIONS
    assert len(left_out.blocks) == BLOCKS, "they are kept all the same"


def test_blocks_that_stood_still_never_count(tmp_path: Path) -> None:
    measurement = merged(tmp_path, [1_000_000], paused=(1,), disturbed=(2,))
    assert measurement.latency is not None
    assert measurement.latency.excluded == ITERATIONS and measurement.latency.max_ns < 4_000_000
    assert measurement.throughput_items_per_s == pytest.approx(4 * 1000 * 4 / (3 + 3), rel=0.02)
    both = merged(tmp_path, [1_000_000], paused=(1,), disturbed=(2,), retry_noisy=True)
    assert both.latency is not None and both.latency.excluded == 2 * ITERATIONS
    assert len(both.blocks) == BLOCKS


def test_where_nothing_was_quiet_blocks_that_stood_still_are_left_out_all_the_same(tmp_path: Path) -> None:
    rest = tuple(index for index in range(BLOCKS) if index != 1)
    measurement = merged(tmp_path, [1_000_000], paused=(1,), disturbed=rest, retry_noisy=True)
    assert measurement.latency is not None
    assert measurement.latency.excluded == ITERATIONS and measurement.latency.max_ns < PAUSE_NS


def test_where_nothing_was_quiet_the_disturbed_numbers_are_shown_as_inconclusive(tmp_path: Path) -> None:
    everything = tuple(range(BLOCKS))
    measurement = merged(tmp_path, [1_000_000, 1_000_100, 999_900], disturbed=everything, retry_noisy=True)
    assert measurement.status is Status.INCONCLUSIVE
    assert measurement.latency is not None and measurement.latency.excluded == 0


def test_of_a_process_without_a_quiet_block_the_disturbed_ones_count(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        fill(samples, 0, 1_000_000)
        fill(samples, 1, 1_000_000, disturbed=range(BLOCKS))
        measurement = merge(case(processes=2, retry_noisy=True), "b1", "m1", [result(), result()], samples)
    assert measurement.latency is not None and measurement.latency.excluded == 0
    assert [one.median_ns is not None for one in measurement.processes] == [True, True]


def test_two_versions_of_an_engine_never_become_one_number(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        for process in range(3):
            fill(samples, process, 1_000_000)
        later = result()
        later.engine_version = "3.0"
        measurement = merge(case(processes=3), "b1", "m1", [result(), result(), later], samples)
    assert measurement.status is Status.FAILED and measurement.latency is None
    assert measurement.failure is not None and measurement.failure.kind is FailureKind.REFUSED
    assert measurement.failure.message == "the engine was 2.0 in process 1 and 3.0 in process 3: measure it again"


def test_one_failed_process_fails_the_measurement_and_says_which_it_was(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        fill(samples, 0, 1_000_000)
        measurement = merge(case(), "b1", "m1", [result(), failure()], samples)
    assert measurement.status is Status.FAILED and measurement.latency is None
    assert measurement.failure is not None
    assert (measurement.failure.kind, measurement.failure.message) == (
        FailureKind.CRASHED,
        "process 2 of 3: it went away",
    )
    assert [phase.name for phase in measurement.phases] == ["compile"], "of the first process"


def test_fewer_processes_than_were_asked_for_are_inconclusive_even_where_they_agree(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        for process in range(2):
            fill(samples, process, 1_000_000)
        found = {
            asked: merge(case(processes=asked, min_iterations=1), "b1", "m1", [result(), result()], samples).status
            for asked in (2, 3)
        }
    assert found == {2: Status.OK, 3: Status.INCONCLUSIVE}


def test_a_run_that_somebody_cancelled_is_cancelled(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        measurement = merge(case(), "b1", "m1", [failure(run_pb2.FAILURE_KIND_CANCELLED)], samples)
    assert measurement.status is Status.CANCELLED


def test_a_result_without_samples_is_a_failure_and_no_zero(tmp_path: Path) -> None:
    with SampleFile(tmp_path) as samples:
        measurement = merge(case(processes=1), "b1", "m1", [result()], samples)
    assert measurement.failure is not None and measurement.failure.kind is FailureKind.INTERNAL
