"""Damaged and doctored models through a real agent and real engines: each run ends typed, and the agent serves on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import onnx
import pytest
from agent_process import digest, make_spec
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import strategies as st
from onnx import TensorProto, helper

from agent_server import AgentProcess
from enginebench_proto.v1 import model_pb2, model_pb2_grpc, run_pb2, run_pb2_grpc
from fuzzing import fuzzed
from mutations import edited_bytes, edited_message

pytestmark = pytest.mark.slow

SECRET = b"planted-Q7hJx2-secret"
ENGINES = '[environments.default]\nengines = ["fake", "onnxruntime", "openvino"]\n'
DEVICES = {"fake": "FAKE:0", "onnxruntime": "CPU", "openvino": "CPU"}


def network() -> onnx.ModelProto:
    """y = relu(x @ w), x being of 4 elements."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [0.1 * each for each in range(12)])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["z"], "matmul"), helper.make_node("Relu", ["z"], ["y"], "relu")],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ONNX = network()
IR = (
    b'<net name="n" version="11"><layers>'
    b'<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,4" element_type="f32"/>'
    b'<output><port id="0" precision="FP32" names="x"><dim>1</dim><dim>4</dim></port></output></layer>'
    b'<layer id="1" name="w" type="Const" version="opset1">'
    b'<data element_type="f32" shape="1,4" offset="0" size="16"/>'
    b'<output><port id="0" precision="FP32"><dim>1</dim><dim>4</dim></port></output></layer>'
    b'<layer id="2" name="y" type="Add" version="opset1"><data auto_broadcast="numpy"/>'
    b'<input><port id="0"><dim>1</dim><dim>4</dim></port><port id="1"><dim>1</dim><dim>4</dim></port></input>'
    b'<output><port id="2" precision="FP32" names="y"><dim>1</dim><dim>4</dim></port></output></layer>'
    b'<layer id="3" name="out" type="Result" version="opset1">'
    b'<input><port id="0"><dim>1</dim><dim>4</dim></port></input></layer></layers>'
    b'<edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>'
    b'<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>'
    b'<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>'
)
WEIGHTS = bytes(16)
PROGRAM = b"PK\x03\x04" + SECRET


@dataclass(frozen=True)
class Served:
    """An agent with real engines, and what is asked of it."""

    agent: AgentProcess
    runs: run_pb2_grpc.RunServiceStub
    models: model_pb2_grpc.ModelServiceStub
    health: health_pb2_grpc.HealthStub

    def uploaded(self, name: str, content: bytes) -> model_pb2.ModelFile:
        header = model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content))
        parts = [model_pb2.UploadRequest(header=header), model_pb2.UploadRequest(chunk=content)]
        self.models.Upload(iter(parts), timeout=20)
        return model_pb2.ModelFile(name=name, sha256=digest(content), size_bytes=len(content))

    def ended(self, spec: run_pb2.RunSpec) -> run_pb2.RunResult:
        """Carry out a run to its end and forget it."""
        self.runs.Start(run_pb2.StartRequest(spec=spec), timeout=60)
        for _ in self.runs.Watch(run_pb2.WatchRequest(run_id=spec.run_id), timeout=60):
            pass
        parts = list(self.runs.Result(run_pb2.ResultRequest(run_id=spec.run_id), timeout=60))
        assert not any(SECRET in part.SerializeToString() for part in parts[1:])
        self.runs.Acknowledge(run_pb2.AcknowledgeRequest(run_id=spec.run_id), timeout=60)
        return parts[0].result

    def check(self) -> None:
        assert self.agent.process.poll() is None, "the agent died"
        answer = self.health.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "secret").write_bytes(SECRET)
    agent = AgentProcess(folder / "agent", config=ENGINES)
    with grpc.insecure_channel(agent.address) as channel:
        stubs = run_pb2_grpc.RunServiceStub(channel), model_pb2_grpc.ModelServiceStub(channel)
        yield Served(agent, *stubs, health_pb2_grpc.HealthStub(channel))
    assert agent.stop() == 0


def run_of(engine: str, form: str, *files: model_pb2.ModelFile) -> run_pb2.RunSpec:
    """A short run, with time enough for an engine to start on a busy machine."""
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in files)
    whole = files[0].sha256 if len(files) == 1 else digest("".join(lines).encode())
    version = model_pb2.ModelVersion(digest=whole, format=form, files=files)
    spec = make_spec(b"", "fuzzed", engine=engine, model=version, device=DEVICES[engine], timeout_ns=20_000_000_000)
    spec.configuration.options.clear()
    spec.configuration.stop.min_duration_ns = 1
    return spec


def assert_typed(result: run_pb2.RunResult) -> None:
    measured = result.outcome in (run_pb2.OUTCOME_OK, run_pb2.OUTCOME_INCONCLUSIVE)
    assert measured != bool(result.failure.message), result
    assert result.failure.kind != run_pb2.FAILURE_KIND_INTERNAL, result.failure


@pytest.mark.fault(11)
@fuzzed(
    "agent: ONNX models to real engines",
    quick=6,
    recorded=60,
    engine=st.sampled_from(sorted(DEVICES)),
    content=edited_bytes([ONNX.SerializeToString()]) | edited_message(ONNX).map(lambda made: made.SerializeToString()),
)
def test_an_engine_measures_a_damaged_model_or_its_run_fails_typed(served: Served, engine: str, content: bytes) -> None:
    assert_typed(served.ended(run_of(engine, "onnx", served.uploaded("m.onnx", content))))
    served.check()


@pytest.mark.fault(11)
@fuzzed("agent: IR files to OpenVINO", quick=3, recorded=30, content=edited_bytes([IR]))
def test_openvino_measures_a_damaged_ir_or_its_run_fails_typed(served: Served, content: bytes) -> None:
    files = [served.uploaded("m.xml", content), served.uploaded("m.bin", WEIGHTS)]
    assert_typed(served.ended(run_of("openvino", "openvino_ir", *files)))
    served.check()


@pytest.mark.fault(10)
@fuzzed("agent: saved programs", quick=20, recorded=500, content=edited_bytes([PROGRAM]))
def test_no_saved_program_gets_as_far_as_a_child(served: Served, content: bytes) -> None:
    file = served.uploaded("m.pt2", content)
    for form in ("torch_export", "torchscript"):
        with pytest.raises(grpc.RpcError) as refusal:
            served.runs.Start(run_pb2.StartRequest(spec=run_of("openvino", form, file)), timeout=60)
        assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "allow_executable_formats" in refusal.value.details()
    served.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=file.sha256), timeout=20)
    served.check()


def test_the_originals_are_sound(served: Served) -> None:
    """Otherwise nothing above would get as far as an engine."""
    network = served.uploaded("m.onnx", ONNX.SerializeToString())
    for engine in DEVICES:
        result = served.ended(run_of(engine, "onnx", network))
        assert result.outcome in (run_pb2.OUTCOME_OK, run_pb2.OUTCOME_INCONCLUSIVE), result.failure
    files = [served.uploaded("m.xml", IR), served.uploaded("m.bin", WEIGHTS)]
    assert served.ended(run_of("openvino", "openvino_ir", *files)).failure.message == ""
