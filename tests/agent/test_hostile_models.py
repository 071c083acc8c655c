"""Models that want out of their folder, or want to run code, through a real agent: refused, and it serves on."""

import io
import zipfile

import grpc
import numpy as np
import pytest
from agent_process import Client, digest, make_spec, refused
from onnx import TensorProto, helper

from agent_server import AgentProcess
from enginebench_proto.v1 import model_pb2, run_pb2

pytestmark = pytest.mark.slow

SECRET = b"planted-Q7hJx2-secret".ljust(64, b"!")


def reaching(location: str) -> bytes:
    """A model of one weight, which lies at `location`."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[16], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "reaching",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.fault(9)
async def test_a_weight_outside_of_the_model_fails_the_run_and_nothing_else(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    secret = agent.data_dir.parent / "secret.bin"
    secret.write_bytes(SECRET)
    others = f"../../../files/{digest(model)}"
    for number, location in enumerate(("../../../secret.bin", str(secret), "../spec", "model.onnx", others, "w.bin")):
        content = reaching(location)
        await ready.upload(content)
        file = model_pb2.ModelFile(name="model.onnx", sha256=digest(content), size_bytes=len(content))
        version = model_pb2.ModelVersion(digest=file.sha256, format="onnx", files=[file])
        spec = make_spec(content, f"reaching-{number}", model=version)
        spec.configuration.inputs[0].shape[1] = 16
        outcome = await ready.run(spec)
        assert outcome.result.failure.kind == run_pb2.FAILURE_KIND_REFUSED, location
        assert "the weight 'w'" in outcome.result.failure.message
        assert SECRET[:20] not in outcome.result.SerializeToString()
    after = await ready.run(make_spec(model, "after"))
    assert after.result.outcome in (run_pb2.OUTCOME_OK, run_pb2.OUTCOME_INCONCLUSIVE)


def pickled(sentinel: str) -> bytes:
    """A pickle that makes the file `sentinel` when it is loaded."""
    return b"cposix\nsystem\n(S'touch " + sentinel.encode() + b"'\ntR."


def disguises(sentinel: str) -> dict[str, bytes]:
    """Files that run code where somebody loads them as what they are."""
    archive, arrays = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickled(sentinel))
        file.writestr("archive/constants.pkl", pickled(sentinel))
    header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    np.lib.format.write_array_header_1_0(arrays, header)
    return {"pickle": pickled(sentinel), "archive": archive.getvalue(), "array": arrays.getvalue() + pickled(sentinel)}


@pytest.mark.fault(10)
@pytest.mark.parametrize("disguise", ["pickle", "archive", "array"])
async def test_what_runs_code_when_loaded_is_no_model_whatever_it_is_called(
    ready: Client, agent: AgentProcess, disguise: str
) -> None:
    sentinel = agent.data_dir.parent / "sentinel"
    content = disguises(str(sentinel))[disguise]
    await ready.upload(content)
    file = model_pb2.ModelFile(name="m.onnx", sha256=digest(content), size_bytes=len(content))
    for number, claimed in enumerate(("torchscript", "torch_export", "pickle", "pt", "TorchScript", "openvino_ir")):
        version = model_pb2.ModelVersion(digest=file.sha256, format=claimed, files=[file])
        async with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await ready.start(make_spec(content, f"claimed-{number}", model=version))
    outcome = await ready.run(make_spec(content, "as-onnx"))
    assert outcome.result.failure.kind == run_pb2.FAILURE_KIND_COMPILE_FAILED
    assert not sentinel.exists()
    assert await ready.health_status() == 1


@pytest.mark.fault(26)
@pytest.mark.parametrize("sizes", [[2**31, 2**31], [1, 2**40], [2**62, 2]])
async def test_an_input_that_no_memory_holds_is_refused_before_it_is_drawn(
    ready: Client, model: bytes, sizes: list[int]
) -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c"])
    graph = helper.make_graph([relu], "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "c"])])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    await ready.upload(content)
    spec = make_spec(content, f"large-{sizes[0]}")
    spec.configuration.inputs[0].shape[:] = sizes
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "of the model and "):
        await ready.start(spec)
    after = await ready.run(make_spec(model, f"after-{sizes[0]}"))
    assert after.result.outcome in (run_pb2.OUTCOME_OK, run_pb2.OUTCOME_INCONCLUSIVE)
