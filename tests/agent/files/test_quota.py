"""The cache has a bound: what was not used for longest makes way, and never what somebody needs."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from agent_process import ENDLESS_MS, Client, connected, digest, eventually, make_spec, refused

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_agent.errors import DiskFullError, TooLargeError
from enginebench_agent.files.cache import EVICTED_SUFFIX, FileCache, Quota
from enginebench_proto.v1 import model_pb2

MEGABYTE = 1_000_000
SMALL_CACHE = 'max_cache_bytes = "10 MB"\n' + ONLY_FAKE
CONTENTS = [bytes([number]) * (4 * MEGABYTE) for number in range(4)]

pytestmark = [pytest.mark.slow, pytest.mark.fault(6)]


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent(config=SMALL_CACHE)


def held(agent: AgentProcess) -> set[str]:
    return {path.name for path in (agent.data_dir / "files").iterdir()}


async def test_the_least_recently_used_file_makes_way(client: Client, agent: AgentProcess) -> None:
    first, second, third, _ = CONTENTS
    await client.upload(first)
    await client.upload(second)
    os.utime(agent.data_dir / "files" / digest(second), ns=(1, 1))
    await client.upload(third)
    assert held(agent) == {digest(first), digest(third)}


async def test_a_file_that_a_caller_was_told_of_does_not_make_way_for_what_it_uploads_next(
    client: Client, agent: AgentProcess
) -> None:
    told, other, new, _ = CONTENTS
    await client.upload(told)
    await client.upload(other)
    os.utime(agent.data_dir / "files" / digest(told), ns=(1, 1))
    asked = model_pb2.FindMissingRequest(sha256=[digest(told)])
    assert not (await client.models.FindMissing(asked)).missing
    await client.upload(new)
    await client.start(make_spec(told, "told"))
    async with refused(grpc.StatusCode.FAILED_PRECONDITION, "raise max_cache_bytes in "):
        await client.start(make_spec(other, "other"))


async def test_a_file_of_a_queued_run_never_makes_way(ready: Client, agent: AgentProcess, model: bytes) -> None:
    waiting = CONTENTS[0]
    await ready.upload(waiting)
    await ready.start(make_spec(model, "holder", duration_ms=ENDLESS_MS))
    await ready.wait_for_phase("holder", "steady_state")
    file = model_pb2.ModelFile(name="m.onnx", sha256=digest(waiting), size_bytes=len(waiting))
    version = model_pb2.ModelVersion(digest=digest(waiting), format="onnx", files=[file])
    await ready.start(make_spec(waiting, "queued", model=version))
    for name in (digest(model), digest(waiting)):
        os.utime(agent.data_dir / "files" / name, ns=(1, 1))
    await ready.upload(CONTENTS[1])
    await ready.upload(CONTENTS[2])
    assert held(agent) == {digest(model), digest(waiting), digest(CONTENTS[2])}
    await ready.cancel("queued")
    await ready.cancel("holder")
    await ready.upload(CONTENTS[3])
    assert digest(waiting) not in held(agent)


async def test_what_cannot_fit_is_refused_with_a_remedy_and_nothing_makes_way_for_it(
    client: Client, agent: AgentProcess
) -> None:
    await client.upload(CONTENTS[0])
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "max_cache_bytes"):
        await client.upload(b"x", sha256=digest(b"large"), size=10 * MEGABYTE + 1)
    assert held(agent) == {digest(CONTENTS[0])}


async def test_an_upload_that_was_given_up_makes_way_like_any_other_file(client: Client, agent: AgentProcess) -> None:
    given_up = os.urandom(6 * MEGABYTE)
    await client.upload(given_up[: 5 * MEGABYTE], sha256=digest(given_up), size=len(given_up))
    assert held(agent) == {f"{digest(given_up)}.part"}
    await client.upload(CONTENTS[0])
    assert held(agent) == {f"{digest(given_up)}.part", digest(CONTENTS[0])}
    os.utime(agent.data_dir / "files" / f"{digest(given_up)}.part", ns=(1, 1))
    await client.upload(CONTENTS[1])
    assert held(agent) == {digest(CONTENTS[0]), digest(CONTENTS[1])}


async def test_the_room_of_an_upload_under_way_is_its_own(client: Client, agent: AgentProcess) -> None:
    announced = CONTENTS[0] + CONTENTS[1]
    sent = asyncio.Event()

    async def slow() -> AsyncIterator[model_pb2.UploadRequest]:
        header = model_pb2.UploadHeader(sha256=digest(announced), size_bytes=len(announced))
        yield model_pb2.UploadRequest(header=header)
        for begin in range(0, len(announced), MEGABYTE):
            if begin == 5 * MEGABYTE:
                await sent.wait()
            yield model_pb2.UploadRequest(chunk=announced[begin : begin + MEGABYTE])

    call = asyncio.ensure_future(client.models.Upload(slow()))
    part = agent.data_dir / "files" / f"{digest(announced)}.part"
    await eventually(lambda: part.exists() and part.stat().st_size >= 4 * MEGABYTE)
    os.utime(part, ns=(1, 1))
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "max_cache_bytes"):
        await client.upload(CONTENTS[2])
    sent.set()
    assert (await call).committed_bytes == len(announced)


async def test_an_offset_for_a_file_that_was_never_begun_leaves_nothing(client: Client, agent: AgentProcess) -> None:
    async with refused(grpc.StatusCode.ABORTED, "byte 0"):
        await client.upload(CONTENTS[0], offset=MEGABYTE)
    assert held(agent) == set()


async def test_a_lowered_bound_holds_from_the_next_upload_on(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent(config=SMALL_CACHE)
    async with connected(agent) as client:
        for content in CONTENTS[:2]:
            await client.upload(content)
    agent.stop()
    (agent.data_dir / "agent.toml").write_text(SMALL_CACHE.replace("10 MB", "5 MB"))
    agent.restart()
    async with connected(agent) as client:
        assert len(held(agent)) == 2
        await client.upload(CONTENTS[2])
    assert held(agent) == {digest(CONTENTS[2])}


def test_what_a_killed_agent_had_set_aside_is_removed(tmp_path: Path) -> None:
    leftover = tmp_path / f"{'0' * 64}{EVICTED_SUFFIX}"
    leftover.write_bytes(b"x")
    Quota(tmp_path)
    assert not leftover.exists()


@pytest.mark.parametrize(("free", "most"), [(1000, 500), (300, 300)])
def test_without_a_bound_of_the_owner_it_is_half_of_the_disk_and_no_more_than_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, most: int
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, used=1000 - free, free=free))
    quota = Quota(tmp_path)
    assert quota.make_room(most, 0, lambda _: False) == []
    with pytest.raises(DiskFullError, match="max_cache_bytes"):
        quota.make_room(most + 1, 0, lambda _: False)


@pytest.mark.parametrize(
    ("bound", "size", "told"),
    [
        (None, 501, r"needs 501 B, more than all model files may take on .* \(500 B\): raise max_cache_bytes in "),
        (300, 301, r"needs 301 B, more than all model files may take on .* \(300 B\): raise max_cache_bytes in "),
        (5000, 1001, r"needs 1001 B, more than the whole disk of .* has \(1000 B\): start the agent with a --data-dir"),
    ],
)
async def test_a_file_that_would_fit_into_no_empty_cache_is_not_refused_for_now_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int | None, size: int, told: str
) -> None:
    """Not although a part of it is there already."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, used=990, free=10))
    cache, name = FileCache(tmp_path, bound), "0" * 64
    (tmp_path / f"{name}.part").write_bytes(b"x" * 400)
    with pytest.raises(TooLargeError, match=told):
        async with cache.receiving(name, size, 400):
            pass
    (tmp_path / f"{name}.part").unlink()
    with pytest.raises(DiskFullError, match="make room"):
        async with cache.receiving("1" * 64, 300, 0):
            pass


def test_files_that_no_run_needs_any_more_leave_nothing_in_memory(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    with cache.pinned(["0" * 64, "1" * 64]), cache.pinned(["1" * 64]):
        assert len(cache._pins) == 2
    assert len(cache._pins) == 0
