"""Model files on their way into a real agent's cache."""

import asyncio
import os
import zlib
from collections.abc import AsyncIterator, Callable

import grpc
import pytest
from agent_process import Client, connected, digest, eventually, make_spec, refused

from agent_server import AgentProcess
from enginebench_proto.v1 import model_pb2

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000
BLOCK = 1024 * 1024


async def missing(client: Client, *digests: str) -> dict[str, int]:
    response = await client.models.FindMissing(model_pb2.FindMissingRequest(sha256=digests))
    return {file.sha256: file.committed_bytes for file in response.missing}


async def test_a_file_arrives_whole_and_is_listed(client: Client, agent: AgentProcess) -> None:
    content = os.urandom(9 * MEGABYTE)
    assert await missing(client, digest(content)) == {digest(content): 0}
    assert await client.upload(content) == len(content)
    assert (agent.data_dir / "files" / digest(content)).read_bytes() == content
    assert await missing(client, digest(content)) == {}
    (file,) = (await client.models.ListFiles(model_pb2.ListFilesRequest())).files
    assert (file.sha256, file.size_bytes, file.complete) == (digest(content), len(content), True)


async def test_a_file_that_vanishes_while_files_are_listed_is_left_out(client: Client, agent: AgentProcess) -> None:
    """An upload that is published in that moment takes its unfinished file away, as a link to nowhere has none."""
    await client.upload(b"content")
    (agent.data_dir / "files" / f"{digest(b'other')}.part").symlink_to(agent.data_dir / "nowhere")
    (file,) = (await client.models.ListFiles(model_pb2.ListFilesRequest())).files
    assert file.sha256 == digest(b"content")


async def test_an_empty_file_is_a_file(client: Client) -> None:
    assert await client.upload(b"") == 0
    assert await missing(client, digest(b"")) == {}


@pytest.mark.fault(5)
async def test_an_upload_resumes_from_the_committed_size_after_a_restart(
    start_agent: Callable[..., AgentProcess],
) -> None:
    agent = start_agent()
    content = os.urandom(20 * MEGABYTE)
    part = agent.data_dir / "files" / f"{digest(content)}.part"

    async def stuck() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content)))
        for begin in range(0, 12 * MEGABYTE, 500_000):
            yield model_pb2.UploadRequest(chunk=content[begin : begin + 500_000])
        await asyncio.Event().wait()

    async with connected(agent) as client:
        call = asyncio.ensure_future(client.models.Upload(stuck()))
        await eventually(lambda: part.exists() and part.stat().st_size >= 2 * BLOCK)
        agent.kill()
        with pytest.raises(grpc.aio.AioRpcError):
            await call
    agent.restart()
    async with connected(agent) as client:
        committed = (await missing(client, digest(content)))[digest(content)]
        assert 2 * BLOCK <= committed <= 12 * MEGABYTE
        async with refused(grpc.StatusCode.ABORTED, str(committed)):
            await client.upload(content, offset=committed - 1)
        assert await client.upload(content, offset=committed) == len(content)
    assert (agent.data_dir / "files" / digest(content)).read_bytes() == content
    assert not part.exists()


@pytest.mark.fault(15)
async def test_a_caller_that_goes_away_leaves_what_it_sent(client: Client, agent: AgentProcess) -> None:
    content = os.urandom(3 * MEGABYTE)
    part = agent.data_dir / "files" / f"{digest(content)}.part"
    sent = asyncio.Event()

    async def stuck() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content)))
        yield model_pb2.UploadRequest(chunk=content[:MEGABYTE])
        yield model_pb2.UploadRequest(chunk=content[MEGABYTE : 2 * MEGABYTE])
        sent.set()
        await asyncio.Event().wait()

    call = client.models.Upload(stuck())
    await sent.wait()
    await eventually(part.exists)
    async with refused(grpc.StatusCode.ABORTED, digest(content)):
        await client.upload(content)
    call.cancel()
    assert await _upload_rest(client, content) == len(content)


async def _upload_rest(client: Client, content: bytes) -> int:
    """Continue from what the agent kept, once it has noticed that the other caller is gone."""
    async with asyncio.timeout(10):
        while True:
            committed = (await missing(client, digest(content)))[digest(content)]
            try:
                sent = await client.upload(content, offset=committed)
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.ABORTED
                await asyncio.sleep(0.02)
            else:
                assert committed in {MEGABYTE, 2 * MEGABYTE}
                return sent


@pytest.mark.fault(6)
async def test_content_that_does_not_match_its_digest_is_not_kept(client: Client, agent: AgentProcess) -> None:
    content = os.urandom(MEGABYTE)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "sha256"):
        await client.upload(content, sha256=digest(b"something else"))
    assert list((agent.data_dir / "files").iterdir()) == []


@pytest.mark.fault(6)
async def test_more_bytes_than_announced_are_refused_and_not_kept(client: Client, agent: AgentProcess) -> None:
    content = os.urandom(MEGABYTE)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "announced"):
        await client.upload(content, size=MEGABYTE - 1)
    assert list((agent.data_dir / "files").iterdir()) == []


async def test_fewer_bytes_than_announced_wait_for_the_rest(client: Client) -> None:
    content = os.urandom(2 * MEGABYTE)
    sent = await client.upload(content[:MEGABYTE], sha256=digest(content), size=len(content))
    assert sent == MEGABYTE
    assert await client.upload(content, offset=sent) == len(content)


async def test_a_digest_that_is_whole_is_never_received_again(client: Client, agent: AgentProcess) -> None:
    content = os.urandom(MEGABYTE)
    await client.upload(content)
    inode = (agent.data_dir / "files" / digest(content)).stat().st_ino
    taken = 0

    async def endless() -> AsyncIterator[model_pb2.UploadRequest]:
        nonlocal taken
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256=digest(content), size_bytes=len(content)))
        while True:
            taken += 1
            yield model_pb2.UploadRequest(chunk=content[:100_000])
            await asyncio.sleep(0.01)

    response = await client.models.Upload(endless(), timeout=20)
    assert response.committed_bytes == len(content)
    assert (agent.data_dir / "files" / digest(content)).stat().st_ino == inode


@pytest.mark.fault(6)
async def test_a_file_larger_than_the_disk_is_refused_at_once(client: Client, agent: AgentProcess) -> None:
    async with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "more than the whole disk of"):
        await client.upload(b"x", sha256=digest(b"huge"), size=1 << 60)
    assert list((agent.data_dir / "files").iterdir()) == []


@pytest.mark.fault(8)
@pytest.mark.parametrize("name", ["", "abc", "../../etc/passwd", "A" * 64, "g" * 64, "0" * 63 + "\n"])
async def test_what_is_not_a_digest_is_refused_everywhere(shared: Client, name: str) -> None:
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await missing(shared, name)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await shared.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=name))

    async def header() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256=name, size_bytes=1))

    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await shared.models.Upload(header())


async def test_an_upload_without_a_header_is_refused(shared: Client) -> None:
    async def chunk_first() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(chunk=b"x")

    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "header"):
        await shared.models.Upload(chunk_first())


@pytest.mark.parametrize(
    ("deflated", "text"),
    [
        (lambda: b"no zlib", "is not what zlib compresses"),
        (lambda: zlib.compress(bytes(2**20 + 1)), "holds more than 1048576 bytes"),
        (lambda: zlib.compress(bytes(2**28)), "holds more than 1048576 bytes"),
        (lambda: zlib.compress(b"some bytes")[:-4], "or is cut off"),
    ],
    ids=["garbage", "too long", "a bomb", "cut"],
)
async def test_a_compressed_chunk_is_a_chunk_and_nothing_else(
    shared: Client, deflated: Callable[[], bytes], text: str
) -> None:
    async def parts() -> AsyncIterator[model_pb2.UploadRequest]:
        yield model_pb2.UploadRequest(header=model_pb2.UploadHeader(sha256="0" * 64, size_bytes=2**31))
        yield model_pb2.UploadRequest(deflated=deflated())

    async with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
        await shared.models.Upload(parts())


async def test_a_deleted_file_is_gone(client: Client) -> None:
    await client.upload(b"content")
    await client.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=digest(b"content")))
    assert digest(b"content") in await missing(client, digest(b"content"))
    async with refused(grpc.StatusCode.NOT_FOUND):
        await client.models.DeleteFile(model_pb2.DeleteFileRequest(sha256=digest(b"content")))


async def test_a_run_renews_the_time_of_last_use(ready: Client, model: bytes) -> None:
    before = (await ready.models.ListFiles(model_pb2.ListFilesRequest())).files[0].used_at_unix_ns
    await ready.run(make_spec(model))
    assert (await ready.models.ListFiles(model_pb2.ListFilesRequest())).files[0].used_at_unix_ns > before


async def test_memory_stays_flat_while_a_large_file_passes(client: Client, agent: AgentProcess) -> None:
    content = os.urandom(MEGABYTE) * 250
    await client.engines()
    await client.upload(content[: 50 * MEGABYTE], chunk=1024 * 1024)  # buffers grow to their size
    before = agent.resident_bytes("VmHWM")
    await client.upload(content, chunk=1024 * 1024)
    # gRPC lets a fast sender run ahead of a busy reader by some tens of megabytes, however large the file is.
    assert agent.resident_bytes("VmHWM") - before < 60 * MEGABYTE
