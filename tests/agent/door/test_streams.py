"""What one caller can pile up on an agent: streams, messages, headers. All bounded, and health always answers."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from agent_process import Client, connected, make_spec, refused
from grpc_health.v1 import health_pb2

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_proto.v1 import model_pb2, run_pb2

SERVING = health_pb2.HealthCheckResponse.SERVING
MOST = 20
MEBIBYTE = 1024**2


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent(config=f"max_streams = {MOST}\nmax_queued_runs = 3\n{ONLY_FAKE}")


async def outcome_of(call: Any) -> grpc.StatusCode | None:
    """The status of a stream that was refused; None of one that goes on after its first answer."""
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


@pytest.mark.slow
@pytest.mark.fault(16)
async def test_of_200_idle_streams_those_beyond_the_bound_are_refused_and_health_answers(
    ready: Client, model: bytes
) -> None:
    await ready.start(make_spec(model, options={"fault": "hang"}))
    watches = [ready.runs.Watch(run_pb2.WatchRequest(run_id="run-1")) for _ in range(200)]
    outcomes = await asyncio.gather(*(outcome_of(watch) for watch in watches))
    assert outcomes.count(None) == MOST
    assert outcomes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 200 - MOST
    began = time.monotonic()
    assert await ready.health_status() == SERVING
    assert time.monotonic() - began < 1
    for watch in watches:
        watch.cancel()
    await ready.cancel("run-1")
    await _until_accepted(lambda: ready.outcome("run-1"))


@pytest.mark.slow
@pytest.mark.fault(16)
async def test_streams_of_every_kind_count_and_leave_their_place_when_they_end(ready: Client, model: bytes) -> None:
    health = [ready.health.Watch(health_pb2.HealthCheckRequest()) for _ in range(MOST - 1)]
    assert [await outcome_of(watch) for watch in health] == [None] * (MOST - 1)
    assert (await ready.run(make_spec(model))).result.outcome == run_pb2.OUTCOME_OK, "one place is left"
    last = ready.health.Watch(health_pb2.HealthCheckRequest())
    assert await outcome_of(last) is None
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "max_streams"):
        await ready.outcome("run-1")
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "max_streams"):
        await ready.upload(b"x")
    for watch in (*health, last):
        watch.cancel()
    assert len(await _until_accepted(lambda: ready.watch("run-1"))) > 2


async def _until_accepted(call: Callable[[], Any]) -> Any:
    """What a call answers once the agent has noticed that other streams were given up."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.fault(16)
async def test_a_full_queue_refuses_the_next_run_and_takes_it_later(ready: Client, model: bytes) -> None:
    await ready.start(make_spec(model, "holder", options={"fault": "hang"}))
    await ready.wait_for_phase("holder", "compile")
    for name in ("a", "b", "c"):
        await ready.start(make_spec(model, name))
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "max_queued_runs"):
        await ready.start(make_spec(model, "d"))
    assert await ready.start(make_spec(model, "a")) == run_pb2.RUN_STATE_QUEUED, "no new run"
    await ready.cancel("b")
    await ready.start(make_spec(model, "d"))
    await ready.cancel("holder")
    await ready.watch("d")
    assert (await ready.list_runs())["d"].outcome == run_pb2.OUTCOME_OK


@pytest.mark.slow
@pytest.mark.fault(7)
async def test_an_oversize_message_is_refused_and_health_stays_serving(ready: Client, agent: AgentProcess) -> None:
    async def parts() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256="0" * 64, size_bytes=8 * MEBIBYTE))
        yield model_pb2.UploadRequest(chunk=bytes(8 * MEBIBYTE))

    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        await ready.models.Upload(parts(), timeout=20)
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        await ready.runs.Cancel(run_pb2.CancelRequest(run_id="x" * (5 * MEBIBYTE)), timeout=20)
    assert await ready.health_status() == SERVING


@pytest.mark.slow
@pytest.mark.fault(7)
async def test_a_message_that_is_small_only_while_compressed_is_refused(agent: AgentProcess) -> None:
    bomb = run_pb2.CancelRequest(run_id="x" * (200 * MEBIBYTE))
    assert len(gzip.compress(bomb.SerializeToString(), 1)) < MEBIBYTE
    before = agent.resident_bytes("VmHWM")
    async with connected(agent) as client:
        async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            await client.runs.Cancel(bomb, timeout=60, compression=grpc.Compression.Gzip)
        assert await client.health_status() == SERVING
    assert agent.resident_bytes("VmHWM") - before < 50 * MEBIBYTE


@pytest.mark.slow
@pytest.mark.fault(7)
async def test_20_kilobytes_of_metadata_are_refused_and_health_stays_serving(ready: Client) -> None:
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        await ready.runs.List(run_pb2.ListRequest(), metadata=(("x-large", "x" * 20_000),), timeout=20)
    assert await ready.health_status() == SERVING


@pytest.mark.fault(8)
@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "/etc/passwd", "a/b", "a\0b", "x" * 10_000, "", "ä", "a\n"])
async def test_a_name_that_could_be_a_path_is_used_as_none(shared: Client, name: str) -> None:
    spec = make_spec(b"content", name)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "run id"):
        await shared.start(spec)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "run id"):
        await shared.acknowledge(name)
    for call in (shared.cancel, shared.outcome, shared.watch):
        async with refused(grpc.StatusCode.NOT_FOUND):  # looked up among runs, never on the disk
            await call(name)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "sha256"):
        await shared.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=name))
    assert await shared.health_status() == SERVING
