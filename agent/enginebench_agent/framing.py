"""Frames on the pipe between an agent and its child: a length, then one `WorkerMessage`.

The length is an unsigned 32-bit little-endian integer that counts the bytes of the message only. The child
writes with `write_frame`; the agent reads with `read_frame_async`, tests and tools with `read_frame`.
"""

import asyncio
import struct
from typing import BinaryIO

from google.protobuf.message import DecodeError

from enginebench_proto.v1.worker_pb2 import WorkerMessage

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Bound on one message: far above a real one (65,536 samples take 0.6 MB), far below what hurts an agent."""

_LENGTH = struct.Struct("<I")


class FramingError(Exception):
    """The bytes on the pipe are no frame: too long, cut off in the middle, or not a message."""


class TruncatedError(FramingError):
    """The pipe ended within a frame: whoever wrote it is gone, and how it went says more than these bytes."""


def write_frame(stream: BinaryIO, message: WorkerMessage) -> None:
    """Write one message as a frame and flush it.

    Raises `FramingError` for a message larger than `MAX_FRAME_BYTES`, before anything is written.
    """
    payload = message.SerializeToString()
    check_length(len(payload))
    stream.write(_LENGTH.pack(len(payload)) + payload)
    stream.flush()


def read_frame(stream: BinaryIO) -> WorkerMessage | None:
    """Read one message; None where the stream ends between two frames.

    `stream` is a buffered reader, whose `read(n)` returns fewer than n bytes only at the end.
    Raises `FramingError`.
    """
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    length = _length_of(head)
    return parse(stream.read(length), length)


async def read_frame_async(reader: asyncio.StreamReader) -> WorkerMessage | None:
    """Read one message from an asyncio pipe; None where it ends between two frames. Raises `FramingError`."""
    head = await _read_up_to(reader, _LENGTH.size)
    if not head:
        return None
    length = _length_of(head)
    return parse(await _read_up_to(reader, length), length)


async def _read_up_to(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        return error.partial


def _length_of(head: bytes) -> int:
    if len(head) < _LENGTH.size:
        raise TruncatedError(f"The pipe ended {len(head)} bytes into the length of a frame.")
    length: int = _LENGTH.unpack(head)[0]
    check_length(length)
    return length


def check_length(length: int) -> None:
    """Raises `FramingError` for a message larger than `MAX_FRAME_BYTES`."""
    if length > MAX_FRAME_BYTES:
        raise FramingError(f"A frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES} bytes.")


def parse(payload: bytes, length: int) -> WorkerMessage:
    """The message that `length` bytes are to hold. Raises `FramingError`."""
    if len(payload) < length:
        raise TruncatedError(f"The pipe ended {len(payload)} bytes into a frame of {length} bytes.")
    try:
        return WorkerMessage.FromString(payload)
    except DecodeError as error:
        raise FramingError(f"A frame of {length} bytes holds no worker message: {error}.") from error
