"""The pipe between agent and child carries whole messages or a typed error."""

import asyncio
import io
import struct

import pytest

from enginebench_agent.worker import pipe
from enginebench_agent.worker.pipe import FramingError, read_frame, read_frame_async, write_frame
from enginebench_proto.v1.run_pb2 import PhaseStarted, Progress
from enginebench_proto.v1.worker_pb2 import WorkerMessage

PHASE = WorkerMessage(phase=PhaseStarted(name="compile"))
PROGRESS = WorkerMessage(progress=Progress(elapsed_ns=1, expected_ns=2, iterations=3))


def framed(*messages: WorkerMessage) -> bytes:
    stream = io.BytesIO()
    for message in messages:
        write_frame(stream, message)
    return stream.getvalue()


def reader_of(content: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    return reader


def test_messages_come_back_in_order_and_then_the_end() -> None:
    stream = io.BytesIO(framed(PHASE, PROGRESS, WorkerMessage()))
    assert [read_frame(stream) for _ in range(4)] == [PHASE, PROGRESS, WorkerMessage(), None]


async def test_the_async_reader_reads_the_same_frames() -> None:
    reader = reader_of(framed(PHASE, PROGRESS))
    assert [await read_frame_async(reader) for _ in range(3)] == [PHASE, PROGRESS, None]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (framed(PHASE)[:2], "2 bytes into the length"),
        (framed(PHASE)[:-3], "bytes into a frame of"),
        (struct.pack("<I", pipe.MAX_FRAME_BYTES + 1), "exceeds the limit"),
        (struct.pack("<I", 4) + b"\xff\xff\xff\xff", "holds no worker message"),
    ],
)
async def test_a_damaged_stream_is_a_typed_error(content: bytes, sentence: str) -> None:
    with pytest.raises(FramingError, match=sentence):
        read_frame(io.BytesIO(content))
    with pytest.raises(FramingError, match=sentence):
        await read_frame_async(reader_of(content))


def test_a_message_beyond_the_limit_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipe, "MAX_FRAME_BYTES", 3)
    stream = io.BytesIO()
    with pytest.raises(FramingError, match="exceeds the limit of 3 bytes"):
        write_frame(stream, PHASE)
    assert stream.getvalue() == b""
