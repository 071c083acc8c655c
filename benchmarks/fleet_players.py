"""`python -m benchmarks.fleet_players FOLDER COUNT`: many agents in one process, which answer and measure nothing.

Each has a port, and speaks the wire over mutual TLS. What a real agent told of itself and of a run lies in FOLDER and
is told again, with the id and the order of the run that was asked for: their numbers are that run's, a thousand times.
"""

# ruff: noqa: N802  # the wire names these methods

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from enginebench_proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)

HOST = "127.0.0.1"
READY = "ports "
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class Recording:
    """What a real agent said: of itself, of its engines, and of a run that it measured."""

    host: agent_pb2.GetHostResponse
    engines: agent_pb2.ListEnginesResponse
    events: tuple[run_pb2.RunEvent, ...]
    parts: tuple[run_pb2.ResultPart, ...]

    def write(self, folder: Path) -> None:
        """Write a file for each."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "host").write_bytes(self.host.SerializeToString())
        (folder / "engines").write_bytes(self.engines.SerializeToString())
        (folder / "events").write_bytes(_joined(self.events))
        (folder / "parts").write_bytes(_joined(self.parts))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what `write` has written."""
        return cls(
            agent_pb2.GetHostResponse.FromString((folder / "host").read_bytes()),
            agent_pb2.ListEnginesResponse.FromString((folder / "engines").read_bytes()),
            tuple(map(run_pb2.RunEvent.FromString, _taken_apart((folder / "events").read_bytes()))),
            tuple(map(run_pb2.ResultPart.FromString, _taken_apart((folder / "parts").read_bytes()))),
        )


def _joined(messages: Iterable[Message]) -> bytes:
    contents = [one.SerializeToString() for one in messages]
    return b"".join(len(one).to_bytes(_LENGTH_BYTES, "big") + one for one in contents)


def _taken_apart(content: bytes) -> Iterable[bytes]:
    place = 0
    while place < len(content):
        end = place + _LENGTH_BYTES + int.from_bytes(content[place : place + _LENGTH_BYTES], "big")
        yield content[place + _LENGTH_BYTES : end]
        place = end


class _Agent(agent_pb2_grpc.AgentServiceServicer):
    def __init__(self, told: Recording) -> None:
        self._told = told

    async def GetHost(self, request: agent_pb2.GetHostRequest, context: Any) -> agent_pb2.GetHostResponse:
        return self._told.host

    async def ListEngines(self, request: agent_pb2.ListEnginesRequest, context: Any) -> agent_pb2.ListEnginesResponse:
        return self._told.engines


class _Models(model_pb2_grpc.ModelServiceServicer):
    """Takes every file in, and keeps none."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    async def FindMissing(self, request: model_pb2.FindMissingRequest, context: Any) -> model_pb2.FindMissingResponse:
        missing = [one for one in request.sha256 if one not in self._known]
        return model_pb2.FindMissingResponse(missing=[model_pb2.MissingFile(sha256=one) for one in missing])

    async def Upload(self, requests: AsyncIterator[model_pb2.UploadRequest], context: Any) -> model_pb2.UploadResponse:
        async for one in requests:
            if one.HasField("header"):
                sha256 = one.header.sha256
        self._known.add(sha256)
        return model_pb2.UploadResponse()


class _Runs(run_pb2_grpc.RunServiceServicer):
    """Runs that are over at once; those that nobody has acknowledged are known."""

    def __init__(self, told: Recording) -> None:
        self._told = told
        self._specs: dict[str, run_pb2.RunSpec] = {}
        self.acknowledged = 0

    async def Start(self, request: run_pb2.StartRequest, context: Any) -> run_pb2.StartResponse:
        self._specs[request.spec.run_id] = request.spec
        return run_pb2.StartResponse(state=run_pb2.RUN_STATE_QUEUED)

    async def Watch(self, request: run_pb2.WatchRequest, context: Any) -> AsyncIterator[run_pb2.RunEvent]:
        await self._spec(request.run_id, context)
        for one in self._told.events:
            if one.sequence >= request.from_sequence:
                yield one

    async def Result(self, request: run_pb2.ResultRequest, context: Any) -> AsyncIterator[run_pb2.ResultPart]:
        spec = await self._spec(request.run_id, context)
        for one in self._told.parts:
            if one.HasField("result"):
                told = run_pb2.ResultPart()
                told.CopyFrom(one)
                told.result.run_id = request.run_id
                told.result.spec.CopyFrom(spec)
                yield told
            else:
                yield one

    async def Acknowledge(self, request: run_pb2.AcknowledgeRequest, context: Any) -> run_pb2.AcknowledgeResponse:
        self.acknowledged += self._specs.pop(request.run_id, None) is not None
        return run_pb2.AcknowledgeResponse()

    async def Cancel(self, request: run_pb2.CancelRequest, context: Any) -> run_pb2.CancelResponse:
        return run_pb2.CancelResponse()

    async def List(self, request: run_pb2.ListRequest, context: Any) -> run_pb2.ListResponse:
        state = run_pb2.RUN_STATE_FINISHED
        return run_pb2.ListResponse(runs=[run_pb2.RunSummary(run_id=one, state=state) for one in self._specs])

    async def _spec(self, run_id: str, context: Any) -> run_pb2.RunSpec:
        if run_id not in self._specs:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no run {run_id!r}")
        return self._specs[run_id]


async def serve(folder: Path, count: int) -> None:
    """Serve on `count` ports until standard input ends; prints them, and at the end how many runs were acknowledged."""
    told = Recording.read(folder)
    tls = folder / "tls"
    credentials = grpc.ssl_server_credentials(
        [((tls / "agent.key").read_bytes(), (tls / "agent.crt").read_bytes())],
        (tls / "ca.crt").read_bytes(),
        require_client_auth=True,
    )
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", 1000)])
    runs = _Runs(told)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(_Agent(told), server)
    model_pb2_grpc.add_ModelServiceServicer_to_server(_Models(), server)
    run_pb2_grpc.add_RunServiceServicer_to_server(runs, server)
    healthy = health.aio.HealthServicer()
    await healthy.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    ports = [server.add_secure_port(f"{HOST}:0", credentials) for _ in range(count)]
    await server.start()
    print(READY + " ".join(map(str, ports)), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(runs.acknowledged, flush=True)
    await server.stop(None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.folder, arguments.count))
