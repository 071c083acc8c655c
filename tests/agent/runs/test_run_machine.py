"""Any sequence of calls to an agent, restarts included, leaves it with the runs and files a simple model expects."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_process import digest, make_spec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from onnx import TensorProto, helper

from agent_server import AgentProcess
from enginebench_proto.v1 import model_pb2, model_pb2_grpc, run_pb2, run_pb2_grpc
from fuzzing import count, extent

ENDED = (run_pb2.OUTCOME_OK, run_pb2.OUTCOME_INCONCLUSIVE, run_pb2.OUTCOME_FAILED, run_pb2.OUTCOME_CANCELLED)
run_ids = st.sampled_from(["a", "b", "c"])


def tiny(number: int) -> bytes:
    """One of several models."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], f"relu-{number}")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


MODELS = [tiny(number) for number in range(2)]
models = st.sampled_from(MODELS)


@pytest.fixture
def own_agent(tmp_path: Path) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path / "agent")
    yield agent
    assert agent.stop() == 0


@contextmanager
def status(expected: grpc.StatusCode) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        assert error.code() == expected, (error.code(), error.details())
    else:
        raise AssertionError(f"accepted instead of {expected}")


class RunMachine(RuleBasedStateMachine):
    """Runs by id with their specification; `finished` are those whose end was seen."""

    agent: AgentProcess  # one for all sequences; each leaves it empty

    @initialize()
    def begin(self) -> None:
        self.connect()
        self.specs: dict[str, run_pb2.RunSpec] = {}
        self.finished: set[str] = set()
        self.files: set[str] = set()

    def connect(self) -> None:
        self.channel = grpc.insecure_channel(self.agent.address)
        grpc.channel_ready_future(self.channel).result(timeout=20)
        self.runs = run_pb2_grpc.RunServiceStub(self.channel)
        self.models = model_pb2_grpc.ModelServiceStub(self.channel)

    def call(self, name: str, run_id: str) -> Any:
        request = getattr(run_pb2, f"{name}Request")(run_id=run_id)
        return getattr(self.runs, name)(request, timeout=60)

    @rule(content=models)
    def upload(self, content: bytes) -> None:
        header = model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content))
        parts = [model_pb2.UploadRequest(header=header), model_pb2.UploadRequest(chunk=content)]
        assert self.models.Upload(iter(parts), timeout=20).committed_bytes == len(content)
        self.files.add(digest(content))

    @rule(content=models)
    def delete(self, content: bytes) -> None:
        request = model_pb2.DeleteFileRequest(sha256=digest(content))
        if digest(content) not in self.files:
            with status(grpc.StatusCode.NOT_FOUND):
                self.models.DeleteFile(request, timeout=20)
            return
        used = [run_id for run_id, spec in self.specs.items() if spec.model.digest == digest(content)]
        if any(self.is_endless(run_id) for run_id in used):
            with status(grpc.StatusCode.FAILED_PRECONDITION):
                self.models.DeleteFile(request, timeout=20)
        elif all(run_id in self.finished for run_id in used):
            self.models.DeleteFile(request, timeout=20)
            self.files.discard(digest(content))

    @rule(run_id=run_ids, content=models, endless=st.booleans(), device=st.sampled_from(["FAKE:0", "FAKE:1"]))
    def start(self, run_id: str, content: bytes, endless: bool, device: str) -> None:
        spec = make_spec(content, run_id, duration_ms=60_000 if endless else 1, device=device)
        request = run_pb2.StartRequest(spec=spec)
        if run_id in self.specs:
            if self.specs[run_id] == spec:
                state = self.runs.Start(request, timeout=20).state
                assert state != run_pb2.RUN_STATE_FINISHED or not self.is_endless(run_id)
                return
            with status(grpc.StatusCode.ALREADY_EXISTS):
                self.runs.Start(request, timeout=20)
        elif digest(content) not in self.files:
            with status(grpc.StatusCode.FAILED_PRECONDITION):
                self.runs.Start(request, timeout=20)
        else:
            assert self.runs.Start(request, timeout=20).state == run_pb2.RUN_STATE_QUEUED
            self.specs[run_id] = spec

    @rule(run_id=run_ids)
    def start_again(self, run_id: str) -> None:
        if run_id in self.specs:
            state = self.runs.Start(run_pb2.StartRequest(spec=self.specs[run_id]), timeout=20).state
            assert (state == run_pb2.RUN_STATE_FINISHED) or run_id not in self.finished

    @rule(run_id=run_ids, from_sequence=st.sampled_from([0, 1, 2**40]))
    def watch(self, run_id: str, from_sequence: int) -> None:
        if run_id not in self.specs:
            with status(grpc.StatusCode.NOT_FOUND):
                list(self.call("Watch", run_id))
            return
        if self.waits_for_endless(run_id):
            return
        request = run_pb2.WatchRequest(run_id=run_id, from_sequence=from_sequence)
        events = list(self.runs.Watch(request, timeout=60))
        numbers = [event.sequence for event in events]
        assert numbers == sorted(numbers) and all(number >= from_sequence for number in numbers)
        if from_sequence == 0:
            assert events[-1].state.state == run_pb2.RUN_STATE_FINISHED
        self.finished.add(run_id)

    @rule(run_id=run_ids)
    def cancel(self, run_id: str) -> None:
        if run_id not in self.specs:
            with status(grpc.StatusCode.NOT_FOUND):
                self.call("Cancel", run_id)
            return
        self.call("Cancel", run_id)
        self.finished.add(run_id)

    @rule(run_id=run_ids)
    def result(self, run_id: str) -> None:
        if run_id not in self.specs:
            with status(grpc.StatusCode.NOT_FOUND):
                list(self.call("Result", run_id))
        elif run_id in self.finished:
            first, *parts = self.call("Result", run_id)
            assert first.result.spec == self.specs[run_id] and first.result.outcome in ENDED
            blocks = [part.block.index for part in parts if part.HasField("block")]
            assert blocks == list(range(first.result.measurement.blocks))
            assert sum(len(part.samples.latency_ns) for part in parts) == first.result.measurement.iterations
        elif self.is_endless(run_id):
            with status(grpc.StatusCode.FAILED_PRECONDITION):
                list(self.call("Result", run_id))

    @rule(run_id=run_ids)
    def acknowledge(self, run_id: str) -> None:
        if self.is_endless(run_id):
            with status(grpc.StatusCode.FAILED_PRECONDITION):
                self.call("Acknowledge", run_id)
        elif run_id not in self.specs or run_id in self.finished:
            self.call("Acknowledge", run_id)
            self.specs.pop(run_id, None)
            self.finished.discard(run_id)

    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        """What had ended is there again; what went on is cancelled in an orderly end, and lost with a killed agent."""
        self.channel.close()
        if orderly:
            assert self.agent.stop() == 0
            self.finished |= self.specs.keys()
        else:
            self.agent.kill()
        self.agent.restart()
        self.connect()
        there = self.listed()
        for run_id in self.specs.keys() - self.finished:
            if run_id in there:  # its end had been spooled, unseen
                self.finished.add(run_id)
            else:
                del self.specs[run_id]

    @invariant()
    def everything_is_listed(self) -> None:
        count("agent: steps of the state machine")
        if not hasattr(self, "channel"):
            return
        listed = self.listed()
        assert listed.keys() == self.specs.keys()
        for run_id, summary in listed.items():
            if run_id in self.finished:
                assert summary.state == run_pb2.RUN_STATE_FINISHED and summary.outcome in ENDED
            elif self.is_endless(run_id):
                assert summary.state in (run_pb2.RUN_STATE_QUEUED, run_pb2.RUN_STATE_RUNNING)
        files = self.models.ListFiles(model_pb2.ListFilesRequest(), timeout=20).files
        assert {file.sha256 for file in files if file.complete} == self.files

    def listed(self) -> dict[str, Any]:
        return {run.run_id: run for run in self.runs.List(run_pb2.ListRequest(), timeout=20).runs}

    def is_endless(self, run_id: str) -> bool:
        """Whether the run surely goes on."""
        spec = self.specs.get(run_id)
        return spec is not None and run_id not in self.finished and spec.configuration.stop.min_duration_ns > 10**10

    def waits_for_endless(self, run_id: str) -> bool:
        """Whether the run may have to wait for one that never ends on its own."""
        device = self.specs[run_id].configuration.device
        endless = [one for one in self.specs if self.is_endless(one)]
        return any(self.specs[one].configuration.device == device for one in endless)

    def teardown(self) -> None:
        if not hasattr(self, "channel"):
            return
        for run_id in self.specs:
            self.call("Cancel", run_id)
            self.call("Acknowledge", run_id)
        for sha256 in self.files:
            self.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=sha256), timeout=20)
        self.channel.close()


@pytest.mark.slow
def test_any_sequence_of_calls_ends_where_the_model_does(own_agent: AgentProcess) -> None:
    class Machine(RunMachine):
        agent = own_agent

    run_state_machine_as_test(Machine, settings=extent(quick=3, recorded=12, steps=15))
