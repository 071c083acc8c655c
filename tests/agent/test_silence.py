"""A peer that falls silent is noticed within a set time, on either side, and what it says later is kept apart."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from agent_process import Client, connected, digest, eventually, make_spec, refused

from agent_server import AgentProcess
from enginebench_proto.v1 import model_pb2, run_pb2
from fault_proxy import fault_proxy

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000
PINGS = [
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 1_000),
    ("grpc.http2.ping_timeout_ms", 1_000),
    ("grpc.http2.max_pings_without_data", 0),
]
NOTICED_SECONDS = 10
CALLER_SECONDS = 40
"""The agent asks after 15 s of silence and waits 5 s for an answer; the rest is for a busy machine."""


@pytest.mark.fault(2)
async def test_a_stopped_agent_is_noticed_and_its_late_result_stays_under_its_own_attempt(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    first = make_spec(model, "attempt-1", duration_ms=500)
    await ready.start(first)
    async with grpc.aio.insecure_channel(agent.address, options=PINGS) as channel:
        watching = asyncio.ensure_future(Client(channel).watch("attempt-1"))
        await ready.wait_for_phase("attempt-1", "steady_state")
        os.kill(agent.pid, signal.SIGSTOP)
        began = time.monotonic()
        try:
            async with refused(grpc.StatusCode.UNAVAILABLE):
                await asyncio.wait_for(watching, 2 * NOTICED_SECONDS)
            assert time.monotonic() - began < NOTICED_SECONDS
        finally:
            os.kill(agent.pid, signal.SIGCONT)
    second = make_spec(model, "attempt-2", options={"latency_us": "900"})
    assert (await ready.run(second)).result.spec == second
    late = await ready.run(first)  # the same id again is the same run, finished long since
    assert late.result.spec == first
    async with refused(grpc.StatusCode.ALREADY_EXISTS, "attempt-1"):
        await ready.start(make_spec(model, "attempt-1", options={"latency_us": "900"}))
    await ready.acknowledge("attempt-1")
    async with refused(grpc.StatusCode.NOT_FOUND, "attempt-1"):
        await ready.outcome("attempt-1")
    assert (await ready.outcome("attempt-2")).result.outcome == run_pb2.OUTCOME_OK


@pytest.mark.slow
@pytest.mark.fault(5)
async def test_a_caller_that_falls_silent_in_an_upload_makes_way_for_the_next_one(
    client: Client, agent: AgentProcess
) -> None:
    content = os.urandom(4 * MEGABYTE)
    part = agent.data_dir / "files" / f"{digest(content)}.part"
    async with fault_proxy(agent.port) as proxy, grpc.aio.insecure_channel(proxy.address) as channel:
        proxy.stall_at(2 * MEGABYTE)
        silent = asyncio.ensure_future(Client(channel).upload(content))
        await eventually(lambda: part.exists() and part.stat().st_size >= MEGABYTE)
        async with refused(grpc.StatusCode.ABORTED, "under way"):
            await client.upload(content)
        assert await asyncio.wait_for(_send_rest(client, content), CALLER_SECONDS) == len(content)
        silent.cancel()
        await asyncio.gather(silent, return_exceptions=True)


@pytest.mark.fault(5)
async def test_an_upload_that_is_cut_and_then_meets_a_new_agent_goes_on_where_it_was(
    start_agent: Callable[..., AgentProcess],
) -> None:
    agent = start_agent()
    content = os.urandom(10 * MEGABYTE)
    part = agent.data_dir / "files" / f"{digest(content)}.part"

    async def arrived(begin: int) -> None:
        if begin == 5 * MEGABYTE:  # an agent that is killed has written nothing of what still waits in buffers
            await eventually(lambda: part.exists() and part.stat().st_size > 2 * MEGABYTE)

    async with fault_proxy(agent.port) as proxy, grpc.aio.insecure_channel(proxy.address) as channel:
        proxy.cut_at(6 * MEGABYTE)
        with pytest.raises(grpc.aio.AioRpcError) as cut:
            await Client(channel).models.Upload(_from(content, 0, arrived), timeout=30)
        # grpc.aio forgets the status where it was just about to send (its issue 36066).
        assert cut.value.code() == grpc.StatusCode.UNAVAILABLE or cut.value.details() == "Internal error from Core"
    agent.kill()
    agent.restart()
    async with connected(agent) as client:
        committed = await _committed(client, content)
        assert 2 * MEGABYTE < committed < 6.1 * MEGABYTE
        sent = 0

        async def count(begin: int) -> None:
            nonlocal sent
            sent += len(content[begin : begin + MEGABYTE])

        upload = client.models.Upload(_from(content, committed, count), timeout=30)
        assert (await upload).committed_bytes == len(content)
        assert sent == len(content) - committed
    assert (agent.data_dir / "files" / digest(content)).read_bytes() == content


@pytest.mark.fault(2)
async def test_events_go_on_after_a_network_that_was_slow_and_then_broke(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    await ready.start(make_spec(model, duration_ms=500))
    async with fault_proxy(agent.port) as proxy, grpc.aio.insecure_channel(proxy.address) as channel:
        proxy.delay_seconds = 0.05
        client, seen = Client(channel), []
        async with refused(grpc.StatusCode.UNAVAILABLE):
            async for event in client.runs.Watch(run_pb2.WatchRequest(run_id="run-1"), timeout=30):
                seen.append(event)
                if event.HasField("phase"):
                    proxy.cut()
        proxy.mend()
        rest = await _patiently(lambda: client.watch("run-1", seen[-1].sequence + 1))
    everything = await ready.watch("run-1")
    assert [*seen, *rest] == everything


async def _from(
    content: bytes, offset: int, before: Callable[[int], Awaitable[None]]
) -> AsyncIterator[model_pb2.UploadRequest]:
    """The messages of an upload that goes on at `offset`; `before` is waited for with the begin of each piece."""
    header = model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content), offset_bytes=offset)
    yield model_pb2.UploadRequest(header=header)
    for begin in range(offset, len(content), MEGABYTE):
        await before(begin)
        yield model_pb2.UploadRequest(chunk=content[begin : begin + MEGABYTE])


async def _send_rest(client: Client, content: bytes) -> int:
    while True:
        try:
            return await client.upload(content, offset=await _committed(client, content))
        except grpc.aio.AioRpcError as error:
            assert error.code() == grpc.StatusCode.ABORTED, error
            await asyncio.sleep(0.2)


async def _patiently(call: Callable[[], object]) -> list[run_pb2.RunEvent]:
    async with asyncio.timeout(20):
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, error
                await asyncio.sleep(0.1)


async def _committed(client: Client, content: bytes) -> int:
    response = await client.models.FindMissing(model_pb2.FindMissingRequest(sha256=[digest(content)]))
    return response.missing[0].committed_bytes if response.missing else len(content)
