"""A run in a real child: its phases, its numbers, and a typed failure for whatever an engine does."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1 import measurement_pb2, run_pb2

# An engine whose every method can be told to misbehave, by a statement put in its place.
ENGINE = """
import numpy as np
from enginebench_plugins import spec

class Mine(spec.Engine):
    def info(self):
        return spec.EngineInfo(version="4.2", formats=frozenset({spec.ModelFormat.ONNX}), profiling=True)
    def devices(self):
        return [spec.Device(name="CPU", full_name="any")]
    def read(self, source):
        #read
        return 3
    #convert
    def compile(self, model, source, settings):
        #compile
        return Compiled(model, source.inputs)

class Compiled(spec.CompiledModel):
    def __init__(self, factor, inputs):
        self.factor, self._inputs = factor, inputs
    @property
    def inputs(self):
        return self._inputs
    def effective(self):
        return spec.Effective(streams=spec.Readback(1, spec.Source.ENGINE_API))
    def create_request(self):
        #create_request
        return Request(self.factor)
    def profile(self, inputs, iterations):
        #profile
        layers = (spec.LayerProfile("scale", "Multiply", order=0, time_ns=(1000,) * iterations),
                  spec.LayerProfile("gone", "Identity", order=1, state=spec.LayerState.OPTIMIZED_AWAY))
        return spec.ModelProfile(layers, latency_ns=(5000,) * iterations)
    def close(self):
        #close
        pass

class Request(spec.InferRequest):
    calls = 0
    def __init__(self, factor):
        self.factor = factor
    def infer(self, inputs):
        Request.calls += 1
        #infer
        return {name + "_scaled": array * self.factor for name, array in inputs.items()}

@spec.hookimpl
def enginebench_engine():
    return Mine()
"""


def engine_with(**statements: str) -> str:
    source = ENGINE
    for place, statement in statements.items():
        assert f"#{place}\n" in source
        source = source.replace(f"#{place}\n", f"{statement}\n")
    return source


@pytest.fixture
def run_mine(run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path) -> Callable:
    """Run the engine above with statements put in."""

    def run(statements: dict[str, str] | None = None, **spec: object):
        folder = install_plugin("mine", engine_with(**statements or {}))
        return run_worker("run", str(tiny_model), spec=make_spec("mine", **spec), folders=[folder])

    return run


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


def test_a_process_is_confined_before_the_engine_is_imported(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    note = """
import os, sys
cpus, threads = len(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"]
sys.stderr.write(f"imported on {cpus} with {threads} thread, numpy {'numpy' in sys.modules}")
"""
    folder = install_plugin("mine", note + ENGINE)
    child = run_worker("run", str(tiny_model), spec=make_spec("mine"), folders=[folder])
    assert "imported on 1 with 1 thread, numpy False" in child.stderr


def test_convert_is_a_phase_where_the_engine_overrides_it(run_mine: Callable) -> None:
    child = run_mine({"convert": "def convert(self, model, source): return model + 1"})
    assert child.phases[:3] == ["read", "convert", "compile"]


def test_three_requests_in_flight_give_a_sample_each(run_mine: Callable) -> None:
    child = run_mine({"infer": "import time; time.sleep(0.001)"}, load=configuration.LOAD_ASYNC, requests=3, batch=4)
    measurement, samples = child.result.measurement, child.latencies_ns
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert measurement.batch == 4
    assert len(samples) == measurement.iterations
    assert max(samples) <= measurement.steady_state_ns < sum(samples)


def test_many_samples_travel_in_parts(run_mine: Callable) -> None:
    stop = configuration.StopRule(min_iterations=70_000, block_ns=300_000_000)
    child = run_mine({"infer": "return {'y': inputs['x']}"}, stop=stop)
    for block in child.blocks:
        parts = [len(part.latency_ns) for part in child.sample_parts if part.block == block.index]
        assert sum(parts) == block.iterations
        assert all(size == 65_536 for size in parts[:-1])
        assert parts[-1] <= 65_536
    assert any(len(part.latency_ns) == 65_536 for part in child.sample_parts)


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


def test_a_warm_up_that_is_cut_off_says_so(run_mine: Callable) -> None:
    infer = {"infer": "import time; time.sleep(0.03 / Request.calls)"}
    stop = configuration.StopRule(min_iterations=1, warmup_ns=60_000_000, max_warmup_ns=60_000_000)
    warm_up = run_mine(infer, stop=stop).result.measurement.warm_up
    assert not warm_up.steady
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
    assert measurement.iterations + measurement.unsent_arrivals == measurement.scheduled_arrivals
    assert measurement.scheduled_arrivals == pytest.approx(160, abs=60)
    assert 200_000_000 <= measurement.steady_state_ns < 400_000_000
    for part in parts:
        due, sent, done = list(part.scheduled_ns), list(part.sent_ns), list(part.completed_ns)
        assert [end - begin for begin, end in zip(due, done, strict=True)] == list(part.latency_ns)
        assert all(a <= b <= c for a, b, c in zip(due, sent, done, strict=True))
    assert parts[-1].latency_ns[-1] > 20_000_000


def test_an_open_loop_within_capacity_serves_all_its_arrivals(run_mine: Callable) -> None:
    arrivals = configuration.Arrivals(process=configuration.ARRIVAL_PROCESS_CONSTANT, rate_per_s=200)
    stop = configuration.StopRule(min_duration_ns=200_000_000, max_duration_ns=2_000_000_000)
    child = run_mine(load=configuration.LOAD_OPEN_LOOP, requests=2, arrivals=arrivals, stop=stop)
    measurement = child.result.measurement
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    assert measurement.iterations == measurement.scheduled_arrivals == pytest.approx(40, abs=4)
    assert measurement.unsent_arrivals == 0


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


COMPILE_FAILED = run_pb2.FAILURE_KIND_COMPILE_FAILED
INFERENCE_FAILED = run_pb2.FAILURE_KIND_INFERENCE_FAILED


@pytest.mark.parametrize(
    ("place", "statement", "kind", "phase", "detail"),
    [
        ("read", "raise OSError('truncated')", COMPILE_FAILED, "read", "truncated"),
        ("compile", "raise ValueError('no op Foo')", COMPILE_FAILED, "compile", "no op Foo"),
        ("compile", "raise SystemExit('bye')", COMPILE_FAILED, "compile", "bye"),
        ("compile", "return 5", COMPILE_FAILED, "compile", "returned int instead of a CompiledModel"),
        ("compile", "raise MemoryError", run_pb2.FAILURE_KIND_OUT_OF_MEMORY, "compile", "MemoryError"),
        (
            "compile",
            "raise spec.UnsupportedSettingsError('no such thing')",
            run_pb2.FAILURE_KIND_REFUSED,
            "compile",
            "no such thing",
        ),
        (
            "compile",
            "raise spec.EngineUnavailableError('no licence')",
            run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE,
            "compile",
            "no licence",
        ),
        ("create_request", "raise ValueError('full')", COMPILE_FAILED, "compile", "full"),
        ("infer", "raise ValueError('bad index')", INFERENCE_FAILED, "first_inference", "bad index"),
        ("infer", "return [1]", INFERENCE_FAILED, "first_inference", "returned list"),
        ("infer", "return {'y': [1]}", INFERENCE_FAILED, "first_inference", "list instead of an array as 'y'"),
        ("infer", "if Request.calls > 1: raise ValueError('second')", INFERENCE_FAILED, "warm_up", "second"),
    ],
)
def test_a_misbehaving_engine_is_a_typed_failure(
    run_mine: Callable, place: str, statement: str, kind: int, phase: str, detail: str
) -> None:
    child = run_mine({place: statement})
    failure = child.result.failure
    assert (child.returncode, child.result.outcome) == (0, run_pb2.OUTCOME_FAILED)
    assert (failure.kind, failure.phase) == (kind, phase)
    assert detail in failure.detail
    assert "mine" in failure.message
    assert "tiny.onnx" in failure.message
    assert not child.result.HasField("measurement")
    assert child.sample_parts == []


def test_an_error_among_requests_in_flight_is_joined(run_mine: Callable) -> None:
    statement = "import time; time.sleep(0.001)\n        if Request.calls > 300: raise ValueError('late')"
    stop = configuration.StopRule(min_duration_ns=5_000_000_000)
    child = run_mine({"infer": statement}, load=configuration.LOAD_ASYNC, requests=3, stop=stop)
    failure = child.result.failure
    assert (failure.kind, failure.phase, failure.detail) == (INFERENCE_FAILED, "steady_state", "late")


@pytest.mark.parametrize(("load", "requests"), [(configuration.LOAD_SYNC, 1), (configuration.LOAD_ASYNC, 2)])
def test_blocks_measured_before_a_failure_stay(run_mine: Callable, load: int, requests: int) -> None:
    statement = "import time; time.sleep(0.001)\n        if Request.calls > 150: raise ValueError('late')"
    stop = configuration.StopRule(min_duration_ns=5_000_000_000, block_ns=20_000_000)
    child = run_mine({"infer": statement}, load=load, requests=requests, stop=stop)
    measurement = child.result.measurement
    assert child.result.outcome == run_pb2.OUTCOME_FAILED
    assert child.result.failure.detail == "late"
    assert measurement.blocks == len(child.blocks) > 0
    assert measurement.iterations == len(child.latencies_ns) == sum(block.iterations for block in child.blocks)
    assert measurement.warm_up.iterations > 0


def test_a_failure_to_release_the_model_keeps_the_numbers(run_mine: Callable) -> None:
    child = run_mine({"close": "raise RuntimeError('busy')"})
    assert (child.result.failure.phase, child.result.failure.detail) == ("teardown", "busy")
    assert child.result.measurement.iterations == len(child.latencies_ns)
    assert [phase.name for phase in child.result.measurement.phases][-1] == "steady_state"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"x": "1"}}, "Unknown option 'x'"),
        ({"device": "TPU"}, "TPU"),
        ({"precision": "f16"}, "f16"),
        ({"hint": configuration.HINT_LATENCY}, "latency"),
        ({"streams": 2}, "stream"),
        ({"cores": 4096}, "4096 physical cores"),
        ({"requests": 2}, "synchronous load has 1 request"),
        ({"kind": 0}, "no kind"),
        ({"input_set": configuration.InputSet()}, "0 inputs"),
    ],
)
def test_an_impossible_configuration_is_refused(run_mine: Callable, changes: dict[str, object], words: str) -> None:
    failure = run_mine(None, **changes).result.failure
    assert failure.kind == run_pb2.FAILURE_KIND_REFUSED
    assert words in failure.message


def test_a_format_the_engine_does_not_read_is_refused(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    spec = make_spec("mine")
    spec.model.format = "torchscript"
    folder = install_plugin("mine", ENGINE)
    failure = run_worker("run", str(tiny_model), spec=spec, folders=[folder]).result.failure
    assert failure.kind == run_pb2.FAILURE_KIND_REFUSED
    assert "does not read the format torchscript; it reads onnx." in failure.message


def test_an_engine_that_cannot_be_imported_fails_its_run(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    folder = install_plugin("mine", "raise RuntimeError('boom')")
    failure = run_worker("run", str(tiny_model), spec=make_spec("mine"), folders=[folder]).result.failure
    assert failure.kind == run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE
    assert (failure.detail, failure.phase) == ("boom", "")
    assert "boom" in failure.message


def test_a_profile_has_its_layers_and_both_latencies(run_mine: Callable) -> None:
    child = run_mine(kind=run_pb2.RUN_KIND_PROFILE)
    profile = child.result.profile
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert not child.result.HasField("measurement")
    assert profile.iterations == 10
    assert profile.profiled_latency_ns == 5000
    assert profile.unprofiled_latency_ns > 0
    assert [layer.name for layer in profile.layers] == ["scale", "gone"]
    assert [len(layer.time_ns) for layer in profile.layers] == [10, 0]
    assert child.phases.count("compile") == 2
    assert child.sample_parts == []


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("[]", "no layers"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1,))]", "1 times for the layer 'a'"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(-1,) * iterations)]", "-1 ns"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(float('nan'),) * iterations)]", "nan ns"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1.5,) * iterations)]", "whole nanoseconds"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)] * 2", "two layers named 'a'"),
        ("[spec.LayerProfile('a', 'T', 0, spec.LayerState.NOT_EXECUTED, (1,))]", "0 belong to it"),
        ("[spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)], (5,)", "1 latencies"),
    ],
)
def test_impossible_layers_fail_the_profile(run_mine: Callable, layers: str, words: str) -> None:
    child = run_mine({"profile": f"return spec.ModelProfile({layers})"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.result.failure.kind == INFERENCE_FAILED
    assert words in child.result.failure.detail
    assert not child.result.HasField("profile")


def test_a_profile_without_latencies_leaves_them_unknown(run_mine: Callable) -> None:
    layer = "spec.LayerProfile('a', 'T', 0, time_ns=(1,) * iterations)"
    child = run_mine({"profile": f"return spec.ModelProfile(({layer},))"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert not child.result.profile.HasField("profiled_latency_ns")


def test_a_bare_list_is_no_profile(run_mine: Callable) -> None:
    child = run_mine({"profile": "return []"}, kind=run_pb2.RUN_KIND_PROFILE)
    assert "instead of a ModelProfile" in child.result.failure.detail


def test_counters_are_off_in_the_first_pass_and_on_in_the_second(run_mine: Callable) -> None:
    statement = "import sys; sys.stderr.write(f'profiling={settings.profiling} ')"
    child = run_mine({"compile": statement}, kind=run_pb2.RUN_KIND_PROFILE)
    assert "profiling=False profiling=True" in child.stderr


@pytest.mark.parametrize("kind", [run_pb2.RUN_KIND_MEASURE, run_pb2.RUN_KIND_PROFILE])
@pytest.mark.parametrize(("engine", "device"), [("onnxruntime", "CPU"), ("fake", "FAKE:1")])
def test_our_engines_run_a_model(
    run_worker: Callable, make_spec: Callable, tiny_model: Path, engine: str, device: str, kind: int
) -> None:
    child = run_worker("run", str(tiny_model), spec=make_spec(engine, kind, device=device))
    result = child.result
    assert result.outcome == run_pb2.OUTCOME_OK, (result.failure, child.stderr)
    if kind == run_pb2.RUN_KIND_MEASURE:
        assert result.measurement.outputs[0] == measurement_pb2.OutputTensor(name="y", dtype="float32", shape=[2, 3])
        assert result.measurement.effective.threads.value == 1
    else:
        assert {node for layer in result.profile.layers for node in layer.source_nodes}


def test_two_engines_get_the_same_inputs(run_worker: Callable, make_spec: Callable, tiny_model: Path) -> None:
    specs = [make_spec("onnxruntime"), make_spec("fake", device="FAKE:0")]
    results = [run_worker("run", str(tiny_model), spec=spec).result for spec in specs]
    first, second = (result.measurement.input_set_sha256 for result in results)
    assert first == second != ""


@pytest.mark.parametrize("requests", [1, 3])
def test_onnxruntime_runs_asynchronously(
    run_worker: Callable, make_spec: Callable, tiny_model: Path, requests: int
) -> None:
    spec = make_spec("onnxruntime", load=configuration.LOAD_ASYNC, requests=requests, batch=4)
    child = run_worker("run", str(tiny_model), spec=spec)
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    assert len(child.latencies_ns) == child.result.measurement.iterations


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("compile_error", COMPILE_FAILED),
        ("inference_error", INFERENCE_FAILED),
        ("out_of_memory", run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
    ],
)
def test_planted_faults_are_typed(
    run_worker: Callable, make_spec: Callable, tiny_model: Path, fault: str, kind: int
) -> None:
    spec = make_spec("fake", device="FAKE:0", options={"fault": fault, "latency_us": "100"})
    assert run_worker("run", str(tiny_model), spec=spec).result.failure.kind == kind


def test_garbage_on_standard_output_does_not_touch_the_channel(
    run_worker: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    spec = make_spec("fake", device="FAKE:0", options={"fault": "garbage_stdout"})
    child = run_worker("run", str(tiny_model), spec=spec)
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert "not a message" in child.stderr


def test_a_crash_leaves_frames_whole_and_a_stack_behind(
    run_worker: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    spec = make_spec("fake", device="FAKE:0", options={"fault": "segfault", "fault_phase": "compile"})
    child = run_worker("run", str(tiny_model), spec=spec)
    assert child.returncode == -11
    assert child.phases == ["read", "compile"]
    assert "Segmentation fault" in child.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_observed_threads_follow_the_cores(run_worker: Callable, make_spec: Callable, tmp_path: Path) -> None:
    """Two cores on a matrix product large enough to be split."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((1024, 1024), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [256, 1024])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [256, 1024])],
        [weights],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    inputs = [configuration.InputTensor(name="x", dtype="float32", shape=[256, 1024])]
    stop = configuration.StopRule(min_duration_ns=200_000_000)
    for cores in (1, 2):
        spec = make_spec("onnxruntime", batch=256, cores=cores, inputs=inputs, stop=stop)
        measurement = run_worker("run", str(path), spec=spec).result.measurement
        assert measurement.effective.threads.value == cores
        assert len(measurement.effective.affinity) == cores
