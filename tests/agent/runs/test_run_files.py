"""The files of a run, its model and its inputs: uploaded before, copied for it, and confined to its folder."""

import io
import os
from pathlib import Path

import grpc
import numpy as np
import pytest
from agent_process import ENDLESS_MS, Client, digest, given_inputs, make_spec, refused
from scripted_runs import Bench, finished

from agent_server import AgentProcess
from enginebench_agent.errors import InvalidRequestError
from enginebench_proto.v1 import configuration_pb2, model_pb2, run_pb2


@pytest.mark.slow
async def test_a_model_that_was_not_uploaded_is_refused_by_name(client: Client, model: bytes) -> None:
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "tiny.onnx"):
        await client.start(make_spec(model))


async def test_inputs_that_were_not_uploaded_are_refused_by_name(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "inputs-not-uploaded")
    spec.configuration.input_set.CopyFrom(given_inputs("1" * 64))
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "'x'"):
        await shared.start(spec)


@pytest.mark.slow
async def test_given_inputs_are_measured_with_and_kept_while_in_use(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    content = io.BytesIO()
    np.save(content, np.ones((1, 4), np.float32))
    await ready.upload(content.getvalue())
    sha256 = digest(content.getvalue())
    spec = make_spec(model, duration_ms=ENDLESS_MS)
    spec.configuration.input_set.CopyFrom(given_inputs(sha256))
    await ready.start(spec)
    await ready.wait_for_phase("run-1", "steady_state")
    assert [path.name for path in (agent.data_dir / "runs" / "run-1" / "inputs").iterdir()] == [sha256]
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "in use"):
        await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=sha256))
    await ready.cancel("run-1")
    await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=sha256))


@pytest.mark.fault(8)
@pytest.mark.parametrize(
    "name", ["../x.onnx", "/etc/passwd", "a/../../x", "a\0b", "", ".", "x" * 10_000, "a\\b", "./a"]
)
async def test_file_names_that_could_leave_the_run_folder_are_refused(shared: Client, model: bytes, name: str) -> None:
    file = model_pb2.ModelFile(name=name, sha256=digest(model), size_bytes=len(model))
    version = model_pb2.ModelVersion(digest=digest(model), format="onnx", files=[file])
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await shared.start(make_spec(model, "file-names-that", model=version))


@pytest.mark.fault(10)
async def test_executable_formats_need_the_owners_consent(shared: Client, model: bytes) -> None:
    file = model_pb2.ModelFile(name="m.pt2", sha256=digest(model), size_bytes=len(model))
    version = model_pb2.ModelVersion(digest=digest(model), format="torch_export", files=[file])
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "allow_executable_formats"):
        await shared.start(make_spec(model, "executable-formats", model=version))


@pytest.mark.slow
async def test_several_files_lie_beside_each_other_as_copies(ready: Client, agent: AgentProcess, model: bytes) -> None:
    weights = b"weights" * 1000
    await ready.upload(weights)
    files = [
        model_pb2.ModelFile(name="net/tiny.onnx", sha256=digest(model), size_bytes=len(model)),
        model_pb2.ModelFile(name="net/data/w.bin", sha256=digest(weights), size_bytes=len(weights)),
    ]
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in files)
    version = model_pb2.ModelVersion(digest=digest("".join(lines).encode()), format="onnx", files=files)
    await ready.start(make_spec(model, model=version, duration_ms=ENDLESS_MS))
    await ready.wait_for_phase("run-1", "steady_state")
    copy = agent.data_dir / "runs" / "run-1" / "model" / "net" / "data" / "w.bin"
    assert copy.read_bytes() == weights
    assert copy.stat().st_nlink == 1
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "in use"):
        await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=digest(weights)))
    await ready.cancel("run-1")
    assert not copy.exists()
    await ready.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=digest(weights)))


async def test_files_of_another_account_are_measured_with_although_their_use_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    bench = Bench(tmp_path)
    monkeypatch.setattr(os, "utime", refuse)  # these tests may run as root, whom nothing is refused
    assert (await bench.run("result()")).outcome == run_pb2.OUTCOME_OK


async def test_a_run_that_cannot_begin_to_wait_is_in_nobodys_way(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    nowhere = configuration_pb2.InputItem(files=[configuration_pb2.InputFile(input="x", sha256="no digest")])
    with pytest.raises(InvalidRequestError):
        bench.start("result()", "refused", items=(nowhere,), interleaving=run_pb2.Interleaving(group="g", members=1))
    run = bench.start("result()", "next")
    assert run.summary().runs_before == 0
    await finished(run)
    assert run.summary().outcome == run_pb2.OUTCOME_OK
