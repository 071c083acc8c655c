"""A real client of an agent: what the agent's tests are played on."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from agent_server import AgentProcess
from enginebench_proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    measurement_pb2,
    model_pb2,
    model_pb2_grpc,
    run_pb2,
    run_pb2_grpc,
)
from enginebench_proto.v1 import configuration_pb2 as configuration

MILLISECOND = 1_000_000
ENDLESS_MS = 60_000
"""Longer than any test: for a run that something else ends."""


@dataclass(frozen=True)
class Outcome:
    """What `Result` streamed. `samples_ns` has those of all blocks, one after the other."""

    result: run_pb2.RunResult
    blocks: tuple[measurement_pb2.Block, ...]
    samples_ns: tuple[int, ...]


class Client:
    """Stubs of every service, and the sequences of calls that the tests share."""

    def __init__(self, channel: Any) -> None:
        self.agent = agent_pb2_grpc.AgentServiceStub(channel)
        self.models = model_pb2_grpc.ModelServiceStub(channel)
        self.runs = run_pb2_grpc.RunServiceStub(channel)
        self.health = health_pb2_grpc.HealthStub(channel)

    async def engines(self, *, refresh: bool = False) -> list[Any]:
        return list((await self.agent.ListEngines(agent_pb2.ListEnginesRequest(refresh=refresh))).engines)

    async def health_status(self, service: str = "") -> int:
        return (await self.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)).status

    async def upload(
        self, content: bytes, *, sha256: str = "", size: int | None = None, offset: int = 0, chunk: int = 256 * 1024
    ) -> int:
        """Send `content` from `offset` on; returns the committed bytes."""
        header = model_pb2.UploadHeader(
            sha256=sha256 or digest(content), size_bytes=len(content) if size is None else size, offset_bytes=offset
        )

        async def parts() -> AsyncIterator[model_pb2.UploadRequest]:
            yield model_pb2.UploadRequest(header=header)
            for begin in range(offset, len(content), chunk):
                yield model_pb2.UploadRequest(chunk=content[begin : begin + chunk])

        while True:
            try:
                return (await self.models.Upload(parts(), timeout=60)).committed_bytes
            except grpc.aio.AioRpcError as error:
                # Refused while a message is on its way out: grpc.aio forgets the status (its issue 36066).
                if error.details() != "Internal error from Core":
                    raise

    async def start(self, spec: run_pb2.RunSpec) -> int:
        return (await self.runs.Start(run_pb2.StartRequest(spec=spec), timeout=30)).state

    async def watch(self, run_id: str, from_sequence: int = 0) -> list[run_pb2.RunEvent]:
        request = run_pb2.WatchRequest(run_id=run_id, from_sequence=from_sequence)
        return [event async for event in self.runs.Watch(request, timeout=60)]

    async def wait_for_phase(self, run_id: str, name: str) -> None:
        async for event in self.runs.Watch(run_pb2.WatchRequest(run_id=run_id), timeout=60):
            if event.phase.name == name:
                return
        raise AssertionError(f"{run_id} ended before its phase {name}")

    async def outcome(self, run_id: str) -> Outcome:
        parts = [part async for part in self.runs.Result(run_pb2.ResultRequest(run_id=run_id), timeout=30)]
        parts[0].result.ClearField("sent_at_unix_ns")  # of this answer, and not of the result
        blocks = [part.block for part in parts if part.HasField("block")]
        samples = [value for part in parts[1:] for value in part.samples.latency_ns]
        return Outcome(parts[0].result, tuple(blocks), tuple(samples))

    async def run(self, spec: run_pb2.RunSpec) -> Outcome:
        """Start, watch to the end, fetch."""
        await self.start(spec)
        await self.watch(spec.run_id)
        return await self.outcome(spec.run_id)

    async def cancel(self, run_id: str) -> None:
        await self.runs.Cancel(run_pb2.CancelRequest(run_id=run_id), timeout=30)

    async def acknowledge(self, run_id: str) -> None:
        await self.runs.Acknowledge(run_pb2.AcknowledgeRequest(run_id=run_id), timeout=30)

    async def list_runs(self) -> dict[str, run_pb2.RunSummary]:
        return {run.run_id: run for run in (await self.runs.List(run_pb2.ListRequest())).runs}


@asynccontextmanager
async def connected(agent: AgentProcess) -> AsyncIterator[Client]:
    async with grpc.aio.insecure_channel(agent.address) as channel:
        yield Client(channel)


@asynccontextmanager
async def refused(status: grpc.StatusCode, text: str = "") -> AsyncIterator[None]:
    """The block must end in this status, with a sentence that contains `text`."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        assert error.code() == status, error
        assert text in (error.details() or ""), error.details()
        assert "Traceback" not in (error.details() or "")
        return
    raise AssertionError(f"the call was accepted instead of refused with {status}")


def make_spec(content: bytes, run_id: str = "run-1", /, **changes: Any) -> run_pb2.RunSpec:
    """A run of the fake engine that lasts some milliseconds; keyword arguments replace parts of it."""
    options = {"latency_us": "500", **changes.pop("options", {})}
    duration_ms = changes.pop("duration_ms", 20)
    device = changes.pop("device", "FAKE:0")
    file = model_pb2.ModelFile(name="tiny.onnx", sha256=digest(content), size_bytes=len(content))
    values: dict[str, Any] = {
        "run_id": run_id,
        "kind": run_pb2.RUN_KIND_MEASURE,
        "engine": "fake",
        "environment": "default",
        "model": model_pb2.ModelVersion(digest=file.sha256, format="onnx", files=[file]),
        "configuration": configuration.Configuration(
            device=device,
            batch=1,
            cores=1,
            streams=1,
            precision="f32",
            hint=configuration.HINT_NONE,
            load=configuration.LOAD_SYNC,
            requests=1,
            inputs=[configuration.InputTensor(name="x", dtype="float32", shape=[1, 4])],
            input_set=configuration.InputSet(seed=1, count=2),
            options=options,
            stop=configuration.StopRule(
                min_duration_ns=duration_ms * MILLISECOND,
                min_iterations=3,
                max_duration_ns=(duration_ms + 5_000) * MILLISECOND,
                warmup_ns=2 * MILLISECOND,
            ),
        ),
    }
    return run_pb2.RunSpec(**(values | changes))


def given_inputs(*digests: str) -> configuration.InputSet:
    """An input set of files for the input x."""
    files = [configuration.InputFile(input="x", sha256=sha256) for sha256 in digests]
    items = [configuration.InputItem(files=[file]) for file in files]
    return configuration.InputSet(name="given", count=len(items), items=items)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_alive(pid: int) -> bool:
    """Whether a process exists and is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def eventually(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until the condition holds; fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def run_command(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`enginebench-agent …` to its end."""
    command: Sequence[str] = [sys.executable, "-m", "enginebench_agent", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ | (environment or {}), timeout=280, check=False
    )
