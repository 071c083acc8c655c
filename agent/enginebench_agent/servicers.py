"""The four services: each method takes a message apart, asks the agent, and puts the answer together."""

# ruff: noqa: N802  # the wire names these methods

import asyncio
import contextlib
import time
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import unquote

import grpc

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.door.permissions import Peer
from enginebench_agent.environments.discovery import Discovery
from enginebench_agent.errors import AgentError, InvalidRequestError
from enginebench_agent.files.cache import FileCache
from enginebench_agent.files.reception import Reception
from enginebench_agent.machine.host import read_host_facts
from enginebench_agent.runs.calibrations import PeakFile
from enginebench_agent.runs.reservations import Reservations
from enginebench_agent.runs.supervisor import Supervisor
from enginebench_proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    reservation_pb2,
    reservation_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)

HEAR_OUT_SECONDS = 5.0
MAX_CHUNK_BYTES = 1024 * 1024

Identify = Callable[[Any], Peer]
"""Tells the caller of a call by its context."""


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    """What a target is and what it can run."""

    def __init__(
        self,
        discovery: Discovery,
        folder: DataFolder,
        peaks: PeakFile,
        reservations: Reservations,
        identify: Identify,
    ) -> None:
        self._discovery = discovery
        self._folder = folder
        self._peaks = peaks
        self._reservations = reservations
        self._identify = identify

    async def GetHost(self, request: agent_pb2.GetHostRequest, context: Any) -> agent_pb2.GetHostResponse:
        """Facts about the machine, and who has reserved it."""
        host = await asyncio.to_thread(read_host_facts, folder=self._folder)
        host.now_unix_ns = time.time_ns()
        return agent_pb2.GetHostResponse(host=host, reservation=self._reservations.told(self._identify(context)))

    async def ListEngines(self, request: agent_pb2.ListEnginesRequest, context: Any) -> agent_pb2.ListEnginesResponse:
        """The engines of every environment, and what calibrations found of them."""
        within_seconds = request.within_ns / 1e9 if request.within_ns else None
        engines = await self._discovery.engines(request.names, refresh=request.refresh, within_seconds=within_seconds)
        return agent_pb2.ListEnginesResponse(engines=engines, peaks=self._peaks.all())


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """The agent's cache of model files."""

    def __init__(self, cache: FileCache) -> None:
        self._cache = cache

    async def FindMissing(self, request: model_pb2.FindMissingRequest, context: Any) -> model_pb2.FindMissingResponse:
        """Which digests are not whole."""
        return model_pb2.FindMissingResponse(
            missing=[
                model_pb2.MissingFile(
                    sha256=sha256, committed_bytes=committed_bytes, received_bytes=self._cache.received_bytes(sha256)
                )
                for sha256, committed_bytes in self._cache.missing(request.sha256)
            ]
        )

    async def Upload(self, requests: AsyncIterator[model_pb2.UploadRequest], context: Any) -> model_pb2.UploadResponse:
        """Receives one file, or the rest of it."""
        try:
            response = await self._upload(requests)
        except AgentError:
            await _hear_out(requests)
            raise
        await _hear_out(requests)
        return response

    async def _upload(self, requests: AsyncIterator[model_pb2.UploadRequest]) -> model_pb2.UploadResponse:
        header = await _header(requests)
        if self._cache.holds(header.sha256):
            return model_pb2.UploadResponse(committed_bytes=header.size_bytes)
        async with self._cache.receiving(header.sha256, header.size_bytes, header.offset_bytes) as reception:
            await reception.resume()
            return model_pb2.UploadResponse(committed_bytes=await _receive(requests, reception))

    async def ListFiles(self, request: model_pb2.ListFilesRequest, context: Any) -> model_pb2.ListFilesResponse:
        """The files in the cache."""
        return model_pb2.ListFilesResponse(
            files=[
                model_pb2.CachedFile(
                    sha256=file.sha256,
                    size_bytes=file.size_bytes,
                    complete=file.complete,
                    used_at_unix_ns=file.used_at_unix_ns,
                )
                for file in self._cache.files()
            ]
        )

    async def DeleteFile(self, request: model_pb2.DeleteFileRequest, context: Any) -> model_pb2.DeleteFileResponse:
        """Removes one file."""
        self._cache.delete(request.sha256)
        return model_pb2.DeleteFileResponse()


class RunServicer(run_pb2_grpc.RunServiceServicer):
    """Runs, from Start to Acknowledge."""

    def __init__(self, supervisor: Supervisor, identify: Identify) -> None:
        self._supervisor = supervisor
        self._identify = identify

    async def Start(self, request: run_pb2.StartRequest, context: Any) -> run_pb2.StartResponse:
        """Queues a run."""
        caller = self._identify(context).name
        return run_pb2.StartResponse(state=await self._supervisor.start(request.spec, request.wait_quiet_ns, caller))

    async def Watch(self, request: run_pb2.WatchRequest, context: Any) -> AsyncIterator[run_pb2.RunEvent]:
        """The events of a run."""
        async for event in self._supervisor.watch(request.run_id, request.from_sequence):
            yield event

    async def Cancel(self, request: run_pb2.CancelRequest, context: Any) -> run_pb2.CancelResponse:
        """Ends a run."""
        await self._supervisor.cancel(request.run_id)
        return run_pb2.CancelResponse()

    async def Result(self, request: run_pb2.ResultRequest, context: Any) -> AsyncIterator[run_pb2.ResultPart]:
        """The outcome of a finished run; compressed where it goes over a network."""
        if not comes_from_here(context.peer()):
            context.set_compression(grpc.Compression.Gzip)
        async for part in self._supervisor.result(request.run_id):
            if part.HasField("result"):
                part.result.sent_at_unix_ns = time.time_ns()
            yield part

    async def Acknowledge(self, request: run_pb2.AcknowledgeRequest, context: Any) -> run_pb2.AcknowledgeResponse:
        """The caller has stored the outcome."""
        self._supervisor.acknowledge(request.run_id)
        return run_pb2.AcknowledgeResponse()

    async def List(self, request: run_pb2.ListRequest, context: Any) -> run_pb2.ListResponse:
        """The runs the agent knows."""
        return run_pb2.ListResponse(runs=self._supervisor.summaries())


class ReservationServicer(reservation_pb2_grpc.ReservationServiceServicer):
    """The target for one name alone."""

    def __init__(self, reservations: Reservations, identify: Identify) -> None:
        self._reservations = reservations
        self._identify = identify

    async def Reserve(self, request: reservation_pb2.ReserveRequest, context: Any) -> reservation_pb2.ReserveResponse:
        """Reserves it for the caller."""
        return await self._reservations.reserve(self._identify(context), request.for_ns, request.reason)

    async def Release(self, request: reservation_pb2.ReleaseRequest, context: Any) -> reservation_pb2.ReleaseResponse:
        """Ends a reservation."""
        return await self._reservations.release(self._identify(context), request.holder or None)


def comes_from_here(peer: str) -> bool:
    """Whether a caller, by gRPC's word for it, is on this machine, or at the other end of a tunnel."""
    kind, _, address = peer.partition(":")
    host = unquote(address).rpartition(":")[0].strip("[]")
    return kind == "unix" or host in ("127.0.0.1", "::1")


async def _hear_out(requests: AsyncIterator[model_pb2.UploadRequest]) -> None:
    """Let the sender finish for a moment: one that is cut off while it sends sees an internal error, not our answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HEAR_OUT_SECONDS):
            async for _ in requests:
                pass


async def _header(requests: AsyncIterator[model_pb2.UploadRequest]) -> model_pb2.UploadHeader:
    async for request in requests:
        if request.HasField("header"):
            return request.header
        break
    raise InvalidRequestError("the first message of an upload must be its header.")


def _inflated(deflated: bytes) -> bytes:
    """A compressed chunk as it was; no more than a chunk may have comes of it, whatever it says."""
    stream = zlib.decompressobj()
    try:
        chunk = stream.decompress(deflated, MAX_CHUNK_BYTES + 1)
    except zlib.error as error:
        raise InvalidRequestError("a chunk of the upload is not what zlib compresses.") from error
    if not stream.eof or len(chunk) > MAX_CHUNK_BYTES:
        raise InvalidRequestError(f"a chunk of the upload holds more than {MAX_CHUNK_BYTES} bytes, or is cut off.")
    return chunk


async def _receive(requests: AsyncIterator[model_pb2.UploadRequest], reception: Reception) -> int:
    try:
        async for request in requests:
            if request.HasField("header"):
                raise InvalidRequestError("an upload has one header, as its first message.")
            await reception.add(_inflated(request.deflated) if request.deflated else request.chunk)
    except asyncio.CancelledError:
        await reception.flush()  # the caller is gone, but what arrived counts
        raise
    return await reception.finish()
