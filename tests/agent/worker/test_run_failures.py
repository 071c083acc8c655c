"""A run in a real child: a typed failure for whatever an engine does, and a refusal of what it cannot do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.worker.pliable import ENGINE
from enginebench_agent.runs.limits import RESERVED_BYTES
from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1 import run_pb2

COMPILE_FAILED = run_pb2.FAILURE_KIND_COMPILE_FAILED
INFERENCE_FAILED = run_pb2.FAILURE_KIND_INFERENCE_FAILED


@pytest.mark.slow
@pytest.mark.fault(11)
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


@pytest.mark.slow
def test_an_error_among_requests_in_flight_is_joined(run_mine: Callable) -> None:
    statement = "import time; time.sleep(0.001)\n        if Request.calls > 300: raise ValueError('late')"
    stop = configuration.StopRule(min_duration_ns=5_000_000_000)
    child = run_mine({"infer": statement}, load=configuration.LOAD_ASYNC, requests=3, stop=stop)
    failure = child.result.failure
    assert (failure.kind, failure.phase, failure.detail) == (INFERENCE_FAILED, "steady_state", "late")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_that_says_more_than_its_worker_knows_is_refused(
    run_worker: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    spec = make_spec("fake", device="FAKE:0")
    spec.configuration.stop.MergeFromString(b"\xfa\x06\x01x")  # number 111, a text
    failure = run_worker("run", str(tiny_model), spec=spec).result.failure
    assert failure.kind == run_pb2.FAILURE_KIND_ENGINE_UNAVAILABLE
    assert "does not know a part of this RunSpec: `enginebench-agent environment upgrade`" in failure.message


@pytest.mark.slow
def test_a_crash_leaves_frames_whole_and_a_stack_behind(
    run_worker: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    spec = make_spec("fake", device="FAKE:0", options={"fault": "segfault", "fault_phase": "compile"})
    child = run_worker("run", str(tiny_model), spec=spec)
    assert child.returncode == -11
    assert child.phases == ["read", "compile"]
    assert "Segmentation fault" in child.stderr


@pytest.mark.fault(11)
@pytest.mark.parametrize(
    ("limit", "statement", "kind", "words"),
    [
        (
            f"RLIMIT_DATA, ({RESERVED_BYTES + 2**30},) * 2",
            "bytearray(2**32)",
            run_pb2.FAILURE_KIND_OUT_OF_MEMORY,
            "1 GiB (max_memory_bytes",
        ),
        (
            "RLIMIT_FSIZE, (2**20, 2**20)",
            "open('large', 'wb').write(bytes(2**21))",
            run_pb2.FAILURE_KIND_REFUSED,
            "1 MiB (max_file_bytes",
        ),
    ],
)
def test_a_failure_at_a_limit_names_it_and_where_it_is_raised(
    run_mine: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    statement: str,
    kind: run_pb2.FailureKind,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    statements = {"compile": f"import resource; resource.setrlimit(resource.{limit}); {statement}"}
    failure = run_mine(statements).result.failure
    assert failure.kind == kind
    assert words in failure.message
