"""Whatever a caller or a child sends, the agent lives on, answers as documented, writes and tells nothing of others."""

import asyncio
import contextlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_process import digest, given_inputs, make_spec
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import strategies as st

import enginebench_proto.v1
from agent_server import AgentProcess
from enginebench_agent.runs.attempt import Attempt, Order
from enginebench_agent.runs.run import Run
from enginebench_agent.runs.spool import Spool
from enginebench_agent.worker.pipe import FramingError, read_frame, read_frame_async
from enginebench_plugins.engines.fake import plugin as fake
from enginebench_plugins.spec import UnsupportedSettingsError
from enginebench_proto.v1 import (
    agent_pb2,
    engine_pb2,
    measurement_pb2,
    model_pb2,
    profile_pb2,
    reservation_pb2,
    run_pb2,
    worker_pb2,
)
from fuzzing import fuzzed
from mutations import edited_bytes, edited_message

pytestmark = pytest.mark.slow

SECRET = "planted-Q7hJx2-secret"
ONLY_FAKE = f'# {SECRET}\n[environments.default]\nengines = ["fake"]\n'
CONTENT = b"not a model"
SERVICES = (agent_pb2.DESCRIPTOR, model_pb2.DESCRIPTOR, run_pb2.DESCRIPTOR, reservation_pb2.DESCRIPTOR)
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for file in SERVICES
    for service in file.services_by_name.values()
    for method in service.methods
}
START = "/enginebench.v1.RunService/Start"
SPEC = make_spec(CONTENT, "fuzzed")
ORIGINALS = {
    "Start": [run_pb2.StartRequest(spec=SPEC), run_pb2.StartRequest(spec=make_spec(CONTENT, kind=2))],
    "Watch": [run_pb2.WatchRequest(run_id="known", from_sequence=1)],
    "Cancel": [run_pb2.CancelRequest(run_id="known")],
    "Result": [run_pb2.ResultRequest(run_id="known")],
    "Acknowledge": [run_pb2.AcknowledgeRequest(run_id="unknown")],
    "FindMissing": [model_pb2.FindMissingRequest(sha256=[digest(CONTENT)])],
    "Reserve": [reservation_pb2.ReserveRequest(for_ns=1_000_000_000, reason="why")],
    "Release": [reservation_pb2.ReleaseRequest()],
    "DeleteFile": [model_pb2.DeleteFileRequest(sha256=digest(b"never uploaded"))],
}
UPLOAD = [
    model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256=digest(CONTENT), size_bytes=len(CONTENT))),
    model_pb2.UploadRequest(chunk=CONTENT),
]
UNEDITED = ("ListEngines",)
"""Refreshing starts a child for each engine, which is slow and is not what is looked at here."""

OWN_NAME = re.compile(
    r"agent/(files/[0-9a-f]{64}(\.part)?|(runs|spool)/[A-Za-z0-9_-]{1,64}(\.\w+|/.*)?|(peaks|reservation)\.json)"
)


@dataclass(frozen=True)
class Target:
    """An agent, what lies around its data folder, and a channel that carries any bytes."""

    agent: AgentProcess
    surroundings: Path
    channel: Any

    def call(self, path: str, requests: list[bytes]) -> tuple[grpc.StatusCode, bytes]:
        """Send serialized requests; how the call ended, and all that came back."""
        method = METHODS[path]
        kinds = {False: "unary", True: "stream"}
        make = getattr(self.channel, f"{kinds[method.client_streaming]}_{kinds[method.server_streaming]}")
        try:
            answer = make(path)(iter(requests) if method.client_streaming else requests[0], timeout=20)
            return grpc.StatusCode.OK, b"".join(answer) if method.server_streaming else answer
        except grpc.RpcError as error:
            return error.code(), (error.details() or "").encode()

    def entries(self) -> set[str]:
        """All names in and around the data folder that are not the agent's to choose."""
        around = {str(path.relative_to(self.surroundings)) for path in self.surroundings.rglob("*")}
        return {path for path in around if not OWN_NAME.fullmatch(path)}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    surroundings = tmp_path_factory.mktemp("fuzzed")
    (surroundings / "agent").mkdir()
    for name in ("secret", "agent/secret.onnx"):
        (surroundings / name).write_text(SECRET)
    agent = AgentProcess(surroundings / "agent", config=ONLY_FAKE)
    with grpc.insecure_channel(agent.address) as channel:
        found = Target(agent, surroundings, channel)
        known = run_pb2.StartRequest(spec=_known_run(found)).SerializeToString()
        assert found.call(START, [known])[0] == grpc.StatusCode.OK
        found.call("/enginebench.v1.RunService/Watch", [run_pb2.WatchRequest(run_id="known").SerializeToString()])
        before = found.entries()
        yield found
        assert found.entries() == before, "written where no request may lead"
        assert agent.process.poll() is None, "the agent died"
    assert agent.stop() == 0


def _known_run(target: Target) -> run_pb2.RunSpec:
    """A run of a file that is no model: it fails at once, and its result stays."""
    content = b"of the known run"
    upload(target, content)
    return make_spec(content, "known")


def upload(target: Target, content: bytes) -> None:
    header = model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content))
    parts = [model_pb2.UploadRequest(header=header), model_pb2.UploadRequest(chunk=content)]
    status, _ = target.call("/enginebench.v1.ModelService/Upload", [part.SerializeToString() for part in parts])
    assert status == grpc.StatusCode.OK


def documented() -> dict[str, set[str]]:
    """The statuses of each method, as the comment above it in the .proto file says."""
    sources = Path(enginebench_proto.v1.__path__[0])
    text = "".join((sources / Path(file.name).name).read_text() for file in SERVICES)
    found = re.findall(r"// Status: ((?:.*\n\s*//)*.*)\n\s*rpc (\w+)\(", text)
    return {name: set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)*\b", words)) for words, name in found}


DOCUMENTED = documented()


def test_every_method_says_how_it_can_end() -> None:
    assert {method.name for method in METHODS.values()} == DOCUMENTED.keys()
    assert all("OK" in statuses for statuses in DOCUMENTED.values())


def check(target: Target, path: str, requests: list[bytes], *allowed: str) -> None:
    """A call must end as documented, or with one of `allowed`, and tell no secret; the agent must be well then."""
    status, told = target.call(path, requests)
    assert status.name in {*DOCUMENTED[METHODS[path].name], *allowed}, (status, told)
    assert SECRET.encode() not in told
    if path == START and status == grpc.StatusCode.OK:  # a calibration needs no file
        run_id = run_pb2.StartRequest.FromString(requests[0]).spec.run_id
        target.call("/enginebench.v1.RunService/Cancel", [run_pb2.CancelRequest(run_id=run_id).SerializeToString()])
    check_health(target)


def check_health(target: Target) -> None:
    answer = health_pb2_grpc.HealthStub(target.channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """A method, and messages of its type that were sound before they were edited."""
    path = draw(st.sampled_from([path for path, method in METHODS.items() if method.name not in UNEDITED]))
    method = METHODS[path]
    if method.client_streaming:
        parts = draw(st.lists(st.sampled_from(UPLOAD).flatmap(edited_message), min_size=0, max_size=4))
        return path, [part.SerializeToString() for part in [*draw(st.sampled_from(([], UPLOAD[:1], UPLOAD))), *parts]]
    originals = ORIGINALS.get(method.name, [GetMessageClass(method.input_type)()])
    return path, [draw(st.sampled_from(originals).flatmap(edited_message)).SerializeToString()]


@pytest.mark.fault(8)
@fuzzed("agent: requests, edited", quick=300, recorded=8_000, request=requests())
def test_any_message_is_answered_as_documented(target: Target, request: tuple[str, list[bytes]]) -> None:
    check(target, *request)


serialized = [message.SerializeToString() for originals in ORIGINALS.values() for message in originals]


@pytest.mark.fault(7)
@fuzzed(
    "agent: requests, raw bytes",
    quick=200,
    recorded=12_000,
    path=st.sampled_from(sorted(METHODS)),
    contents=st.lists(st.binary(max_size=200) | edited_bytes(serialized), min_size=1, max_size=3),
)
def test_bytes_that_are_no_message_are_refused_in_a_sentence(target: Target, path: str, contents: list[bytes]) -> None:
    if METHODS[path].name in UNEDITED:
        contents = [b"\xff" + contents[0]]  # never a sound message
    check(target, path, contents, "INVALID_ARGUMENT")


@fuzzed(
    "agent: health and reflection, raw bytes",
    quick=20,
    recorded=500,
    path=st.sampled_from(("Health/Check", "ServerReflection")),
    content=st.binary(max_size=100),
)
def test_health_and_reflection_take_any_bytes(target: Target, path: str, content: bytes) -> None:
    with contextlib.suppress(grpc.RpcError):
        if path == "Health/Check":
            target.channel.unary_unary("/grpc.health.v1.Health/Check")(content, timeout=5)
        else:
            name = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            list(target.channel.stream_stream(name)(iter([content]), timeout=5))
    check_health(target)


@pytest.mark.parametrize("count", [4_000, 30_000])
def test_a_model_of_many_files_does_not_hold_up_the_agent(target: Target, count: int) -> None:
    files = [model_pb2.ModelFile(name=f"{number}/a/b/c/d", sha256="0" * 64) for number in range(count)]
    spec = make_spec(CONTENT, "many", model=model_pb2.ModelVersion(digest="0" * 64, format="onnx", files=files))
    request = run_pb2.StartRequest(spec=spec).SerializeToString()
    status, _ = target.call(START, [request])
    assert status == grpc.StatusCode.INVALID_ARGUMENT
    check_health(target)


def test_a_refusal_that_names_a_name_of_any_script_arrives(target: Target) -> None:
    request = run_pb2.StartRequest(spec=make_spec(CONTENT, "other-script", engine="漢" * 3_000)).SerializeToString()
    status, told = target.call(START, [request])
    assert (status, "there is no engine '漢漢" in told.decode()) == (grpc.StatusCode.NOT_FOUND, True)


@fuzzed("agent: runs carried out", quick=8, recorded=40, data=st.data())
def test_any_run_that_is_accepted_ends_typed(target: Target, model: bytes, data: st.DataObject) -> None:
    upload(target, model)
    spec = data.draw(edited_message(make_spec(model)))
    spec.run_id, spec.timeout_ns = "carried-out", 1_000_000_000
    spec.ClearField("interleaving")  # its members wait a minute for each other
    service, name = "/enginebench.v1.RunService", {"run_id": spec.run_id}
    status, _ = target.call(START, [run_pb2.StartRequest(spec=spec).SerializeToString()])
    if status == grpc.StatusCode.OK:
        check(target, f"{service}/Watch", [run_pb2.WatchRequest(**name).SerializeToString()])
        check(target, f"{service}/Result", [run_pb2.ResultRequest(**name).SerializeToString()])
        check(target, f"{service}/Acknowledge", [run_pb2.AcknowledgeRequest(**name).SerializeToString()])
    check_health(target)


FRAMES = [
    worker_pb2.WorkerMessage(phase=run_pb2.PhaseStarted(name="read")),
    worker_pb2.WorkerMessage(progress=run_pb2.Progress(elapsed_ns=1, expected_ns=2, iterations=3)),
    worker_pb2.WorkerMessage(turn_wanted=worker_pb2.TurnWanted(unfinished=True)),
    worker_pb2.WorkerMessage(part=run_pb2.ResultPart(block=measurement_pb2.Block(index=0, iterations=2))),
    worker_pb2.WorkerMessage(part=run_pb2.ResultPart(samples=measurement_pb2.Samples(latency_ns=[1, 2]))),
    worker_pb2.WorkerMessage(
        part=run_pb2.ResultPart(
            result=run_pb2.RunResult(
                run_id="r",
                outcome=run_pb2.OUTCOME_OK,
                measurement=measurement_pb2.Measurement(
                    blocks=1, iterations=2, phases=[measurement_pb2.Phase(name="read", duration_ns=1)]
                ),
                profile=profile_pb2.Profile(layers=[profile_pb2.Layer(name="l", time_ns=[1])]),
            )
        )
    ),
    worker_pb2.WorkerMessage(engine=engine_pb2.Engine(name="fake")),
]


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(payload)) + payload for payload in payloads)


STREAM = framed(*(frame.SerializeToString() for frame in FRAMES))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@fuzzed(
    "pipe: bytes",
    quick=400,
    recorded=30_000,
    content=st.binary(max_size=60) | edited_bytes([STREAM, STREAM[:40]]),
)
def test_any_bytes_on_the_pipe_are_messages_or_a_framing_error(runner: asyncio.Runner, content: bytes) -> None:
    stream = BytesIO(content)
    with contextlib.suppress(FramingError):
        while read_frame(stream) is not None:
            pass
    runner.run(_read_all(content))


async def _read_all(content: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    with contextlib.suppress(FramingError):
        while await read_frame_async(reader) is not None:
            pass


class _ScriptedChild:
    """A child of whom nothing but its messages exists."""

    pid = 0

    def __init__(self, messages: list[worker_pb2.WorkerMessage]) -> None:
        self._messages = messages

    async def messages(self) -> Any:
        for message in self._messages:
            # Its own, as if it came through a pipe: what is drawn from must not change while more is drawn.
            yield worker_pb2.WorkerMessage.FromString(message.SerializeToString())

    async def exit(self) -> Any:
        from enginebench_agent.runs.child import ChildExit

        return ChildExit(0, "", "")

    def kill(self) -> None:
        pass


class _Unspawned(Attempt):
    """An attempt whose child was scripted."""

    def __init__(self, child: _ScriptedChild, *parts: Any) -> None:
        super().__init__(*parts)
        self._scripted = child

    @contextlib.asynccontextmanager
    async def _child(self) -> Any:
        yield self._scripted


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Spool:
    return Spool(tmp_path_factory.mktemp("spool"))


@fuzzed(
    "pipe: messages, edited",
    quick=150,
    recorded=6_000,
    messages=st.lists(st.sampled_from(FRAMES).flatmap(edited_message) | st.sampled_from(FRAMES), max_size=6),
)
def test_whatever_a_child_sends_ends_in_a_result_that_can_be_told(
    runner: asyncio.Runner, spool: Spool, messages: list[worker_pb2.WorkerMessage]
) -> None:
    async def heard() -> run_pb2.RunResult:
        run = Run(SPEC)
        with spool.begin("fuzzed") as writer:
            order = Order(Path("python"), Path("folder"), Path("model"), 20.0)
            return await _Unspawned(_ScriptedChild(messages), run, order, writer).make()

    result = runner.run(heard())
    assert result.run_id == "fuzzed"
    assert result.outcome in (run_pb2.OUTCOME_OK, run_pb2.OUTCOME_INCONCLUSIVE, run_pb2.OUTCOME_FAILED)


@fuzzed(
    "child: specifications",
    quick=150,
    recorded=12_000,
    spec=edited_message(make_spec(CONTENT, "fuzzed", options={"latency_us": "0"}))
    | edited_message(make_spec(CONTENT, "given", kind=run_pb2.RUN_KIND_PROFILE)),
)
def test_a_child_takes_any_specification_or_refuses_it(spec: run_pb2.RunSpec) -> None:
    from enginebench_agent.worker.assignment import check_job

    engine = fake.FakeEngine()
    with contextlib.suppress(UnsupportedSettingsError):
        check_job(spec, Path("model.onnx"), engine, engine.info(), tuple(engine.devices()))


def with_files(configuration: Any) -> Any:
    configuration.input_set.CopyFrom(given_inputs(digest(CONTENT), "../../etc/passwd"))
    return configuration


@fuzzed(
    "child: input sets",
    quick=100,
    recorded=6_000,
    configuration=edited_message(make_spec(CONTENT).configuration)
    | edited_message(make_spec(CONTENT).configuration).map(with_files),
)
def test_a_child_makes_any_inputs_or_refuses_them(configuration: Any) -> None:
    from enginebench_agent.worker.inputs import make_inputs
    from enginebench_plugins.spec import TensorSpec

    configuration.input_set.count = min(configuration.input_set.count, 4)
    with contextlib.suppress(UnsupportedSettingsError):
        make_inputs([TensorSpec("x", "float32", (1, 4))], configuration.inputs, configuration.input_set, Path("/tmp"))
