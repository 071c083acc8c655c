"""What an agent's statuses become: what is tried again, and what ends a target's part."""

import asyncio
import hashlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from contextvars import copy_context
from pathlib import Path

import grpc
import pytest

from enginebench_controller.errors import (
    AgentError,
    BusyError,
    DiskFullError,
    EnginebenchError,
    UnreachableError,
    UnreadableFileError,
)
from enginebench_controller.home import Home
from enginebench_controller.records import ModelFile
from enginebench_controller.targets import channels, connections, session
from enginebench_controller.targets import client as targets_client
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.agreed.words import ERROR_CODE_KEY
from enginebench_proto.v1 import model_pb2, model_pb2_grpc, run_pb2, run_pb2_grpc
from fault_proxy import fault_proxy


class Refusing(model_pb2_grpc.ModelServiceServicer):
    """Misses every file, and refuses it."""

    def __init__(self, code: grpc.StatusCode, details: str, known: str = "") -> None:
        self._refusal = code, details, ((ERROR_CODE_KEY, known),)

    async def FindMissing(self, request, context):  # noqa: N802
        return model_pb2.FindMissingResponse(missing=[model_pb2.MissingFile(sha256=request.sha256[0])])

    async def Upload(self, request_iterator, context):  # noqa: N802
        async for _ in request_iterator:
            pass
        await context.abort(*self._refusal)


@asynccontextmanager
async def serving(servicer: Refusing) -> AsyncIterator[AgentClient]:
    server = grpc.aio.server()
    model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with AgentClient("nuc", f"127.0.0.1:{port}") as client:
        yield client
    await server.stop(None)


@pytest.mark.parametrize(
    ("code", "details", "error"),
    [
        (grpc.StatusCode.ABORTED, "another upload is under way", UnreachableError),
        (grpc.StatusCode.UNAVAILABLE, "socket closed", UnreachableError),
        # As grpc.aio says it when the connection, or the call, ends while a message is on its way out.
        (grpc.StatusCode.INTERNAL, "Internal error from Core", UnreachableError),
        (grpc.StatusCode.INTERNAL, "a defect of the agent", AgentError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "the disk is full", AgentError),
    ],
)
async def test_an_upload_is_tried_again_unless_the_agent_says_why_not(
    tmp_path: Path, code: grpc.StatusCode, details: str, error: type[EnginebenchError]
) -> None:
    (path := tmp_path / "model.onnx").write_bytes(b"content")
    file = ModelFile(path.name, hashlib.sha256(b"content").hexdigest(), 7)
    async with serving(Refusing(code, details)) as client:
        with pytest.raises(EnginebenchError) as raised:
            await client.upload(file, path, 0, lambda *_: None)
    assert type(raised.value) is error


@pytest.mark.parametrize(
    ("known", "kind"), [("disk_full", DiskFullError), ("busy", BusyError), ("too_large", AgentError)]
)
async def test_what_an_agent_does_not_take_for_now_is_told_from_what_it_never_takes(
    tmp_path: Path, known: str, kind: type[AgentError]
) -> None:
    (path := tmp_path / "model.onnx").write_bytes(b"content")
    file = ModelFile(path.name, hashlib.sha256(b"content").hexdigest(), 7)
    async with serving(Refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room: make some.", known)) as client:
        with pytest.raises(AgentError, match=r"^target 'nuc': no room: make some\.$") as raised:
            await client.upload(file, path, 0, lambda *_: None)
    assert type(raised.value) is kind


class Losing(Refusing):
    """Takes what is sent first, says no more of it, and is gone."""

    async def FindMissing(self, request, context):  # noqa: N802
        one = model_pb2.MissingFile(sha256=request.sha256[0], received_bytes=1)
        return model_pb2.FindMissingResponse(missing=[one])

    async def Upload(self, request_iterator, context):  # noqa: N802
        await anext(aiter(request_iterator))
        await asyncio.sleep(0.5)
        await context.abort(*self._refusal)


async def test_an_upload_that_fails_while_it_waits_leaves_nothing_that_waits_on(tmp_path: Path) -> None:
    (path := tmp_path / "weights").write_bytes(os.urandom(2_000_000))
    file = ModelFile(path.name, "0" * 64, 2_000_000)
    async with serving(Losing(grpc.StatusCode.UNAVAILABLE, "socket closed")) as client:
        with pytest.raises(UnreachableError):
            await client.upload(file, path, 0, lambda *_: None)
        await asyncio.sleep(0.2)
        left = [repr(one) for one in asyncio.all_tasks() if "_consume_request_iterator" in repr(one)]
    assert left == []


async def test_who_takes_connections_and_says_nothing_is_not_to_be_started_but_its_line_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(targets_client, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(targets_client, "FIRST_CONTACT_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        async with AgentClient("nuc", address) as client:
            with pytest.raises(UnreachableError) as raised:
                await client.host()
        home, remarks, context = Home(tmp_path), list[str](), copy_context()
        context.run(session.remark.set, remarks.append)

        async def meet() -> None:
            async with session.open_session(home, [address]):
                """Never."""

        with pytest.raises(UnreachableError):
            await asyncio.create_task(meet(), context=context)
    assert remarks == [f"waiting for {address} (up to 15 s)"]
    told = f"target 'nuc' at {address} does not answer (nothing within 0.5 s): see whether the line is up"
    assert (str(raised.value), raised.value.lasting) == (told, False)


class Taking(Refusing):
    """Misses every file, and keeps what comes of it."""

    async def Upload(self, request_iterator, context):  # noqa: N802
        kept = [len(one.chunk) async for one in request_iterator]
        return model_pb2.UploadResponse(committed_bytes=sum(kept))


async def test_an_upload_of_a_file_that_is_gone_names_it_and_is_not_taken_for_a_cancellation(tmp_path: Path) -> None:
    file, told = ModelFile("model.onnx", "0" * 64, 7), list[int]()
    async with serving(Taking(grpc.StatusCode.OK, "")) as client:
        with pytest.raises(UnreadableFileError, match=r"model\.onnx any more \(No such file"):
            await client.upload(file, tmp_path / file.name, 0, lambda offset, _: told.append(offset))
    assert told == []


def set_option(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    others = [one for one in channels.CHANNEL_OPTIONS if one[0] != name]
    monkeypatch.setattr(channels, "CHANNEL_OPTIONS", (*others, (name, value)))


async def test_a_connection_that_idles_is_closed_and_the_next_call_opens_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_option(monkeypatch, "grpc.client_idle_timeout_ms", 200)
    file = ModelFile("model.onnx", "0" * 64, 7)
    callers = Callers()
    async with serving(callers) as client:
        await client.committed_bytes(file)
        await client.committed_bytes(file)
        await asyncio.sleep(2)
        await client.committed_bytes(file)
    assert len(callers.seen) == 3
    assert callers.seen[0] == callers.seen[1] != callers.seen[2]


class Callers(Refusing):
    """Keeps the address, with its port, of each connection that asked."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.INTERNAL, "")
        self.seen: list[str] = []

    async def FindMissing(self, request, context):  # noqa: N802
        self.seen.append(context.peer())
        return await super().FindMissing(request, context)


class Telling(run_pb2_grpc.RunServiceServicer):
    """Has a result of twelve parts, of 50 kB each."""

    async def Result(self, request, context):  # noqa: N802
        for _ in range(12):
            yield run_pb2.ResultPart(result=run_pb2.RunResult(engine_version="x" * 50_000))


@pytest.mark.slow
async def test_a_slow_line_is_not_cut_while_a_result_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In three seconds, with pings that may take 0.5; as in 18, with the three that they may take otherwise."""
    set_option(monkeypatch, "grpc.http2.ping_timeout_ms", 500)
    server = grpc.aio.server()
    run_pb2_grpc.add_RunServiceServicer_to_server(Telling(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with fault_proxy(port) as proxy, AgentClient("nuc", proxy.address) as client:
        proxy.bytes_per_s, proxy.delay_seconds = 200_000, 0.02
        async with aclosing(client.result("r")) as parts:
            assert len([part async for part in parts]) == 12
        assert proxy.connections == 1
    await server.stop(None)


async def test_a_connection_that_cannot_be_made_leaves_no_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    @asynccontextmanager
    async def tunnel(_: str) -> AsyncIterator[str]:
        try:
            yield "unix:/nowhere"
        finally:
            closed.append(True)

    def refuse(*_: object) -> None:
        raise UnreachableError("no certificate to show")

    monkeypatch.setattr(connections, "reachable", tunnel)
    monkeypatch.setattr(connections, "open_channel", refuse)
    with pytest.raises(UnreachableError, match="no certificate"):
        async with AgentClient("nuc", "ssh://nuc"):
            raise AssertionError("not reached")
    assert closed == [True]
