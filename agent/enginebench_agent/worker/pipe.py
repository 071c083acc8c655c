"""What agent and child say to each other: frames through one pipe, and turns, one byte each, through another.

The length is an unsigned 32-bit little-endian integer that counts the bytes of the message only. The child
writes with `write_frame`; the agent reads with `read_frame_async`, tests and tools with `read_frame`. A child imports
no asyncio: that took 47 ms of the 217 that it imports before its engine.
"""

import os
import struct
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO, Final

from google.protobuf.message import DecodeError

from enginebench_proto.v1.engine_pb2 import Engine
from enginebench_proto.v1.measurement_pb2 import Block, Samples
from enginebench_proto.v1.run_pb2 import PhaseStarted, Progress, ResultPart, RunResult
from enginebench_proto.v1.worker_pb2 import TurnWanted, WorkerMessage

if TYPE_CHECKING:
    from asyncio import StreamReader

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


async def read_frame_async(reader: "StreamReader") -> WorkerMessage | None:
    """Read one message from an asyncio pipe; None where it ends between two frames. Raises `FramingError`."""
    head = await _read_up_to(reader, _LENGTH.size)
    if not head:
        return None
    length = _length_of(head)
    return parse(await _read_up_to(reader, length), length)


async def _read_up_to(reader: "StreamReader", size: int) -> bytes:
    from asyncio import IncompleteReadError  # noqa: PLC0415  # the agent has it

    try:
        return await reader.readexactly(size)
    except IncompleteReadError as error:
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


GO: Final = b"g"
"""Run one block."""

STOP: Final = b"s"
"""There are no more turns."""


class TurnsLostError(Exception):
    """The agent went away, or sent what is no turn."""


class Turns:
    """Asks through `want`, told whether this process is unfinished, and is answered through a pipe's read end.

    `members` share the device, this one among them.
    """

    def __init__(self, descriptor: int, want: Callable[[bool], None], members: int = 1) -> None:
        self.members = members
        self._descriptor = descriptor
        self._want = want

    def await_turn(self, *, unfinished: bool) -> bool:
        """Wait for a turn; False when there are no more. Raises `TurnsLostError`."""
        self._want(unfinished)
        answer = os.read(self._descriptor, 1)
        if answer not in (GO, STOP):
            raise TurnsLostError(f"The pipe for turns ended or brought {answer!r}.")
        return answer == GO


SAMPLES_PER_PART = 65_536


class Channel:
    """Writes worker messages to one stream. For one thread at a time."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @classmethod
    def claim_stdout(cls) -> "Channel":
        """Take over this process's standard output; what anybody prints from now on goes to standard error."""
        sys.stdout.flush()
        private = os.dup(1)  # not inherited by children of an engine
        os.dup2(2, 1)
        return cls(os.fdopen(private, "wb"))

    def process(self) -> None:
        """Tell which process the engine lives in."""
        write_frame(self._stream, WorkerMessage(pid=os.getpid()))

    def engine(self, engine: Engine) -> None:
        """Send one engine of a listing."""
        write_frame(self._stream, WorkerMessage(engine=engine))

    def notice(self, text: str) -> None:
        """Tell the agent's log something."""
        write_frame(self._stream, WorkerMessage(notice=text))

    def phase(self, name: str) -> None:
        """Tell that a phase begins."""
        write_frame(self._stream, WorkerMessage(phase=PhaseStarted(name=name), sent_ns=time.perf_counter_ns()))

    def progress(self, elapsed_ns: int, expected_ns: int, iterations: int) -> None:
        """Tell how far the phase has come."""
        progress = Progress(elapsed_ns=elapsed_ns, expected_ns=expected_ns, iterations=iterations)
        write_frame(self._stream, WorkerMessage(progress=progress))

    def turn_wanted(self, unfinished: bool) -> None:
        """Ask for the next turn."""
        write_frame(self._stream, WorkerMessage(turn_wanted=TurnWanted(unfinished=unfinished)))

    def block(self, block: Block, ended_ns: int, samples: Iterable[Samples]) -> None:
        """Send a block, with when it ended, and then its samples, at most `SAMPLES_PER_PART` in each part."""
        first = ResultPart(block=block)
        write_frame(self._stream, WorkerMessage(part=first, sent_ns=time.perf_counter_ns(), ended_ns=ended_ns))
        for part in samples:
            write_frame(self._stream, WorkerMessage(part=ResultPart(samples=part)))

    def result(self, result: RunResult) -> None:
        """Send the outcome, when all blocks are sent."""
        write_frame(self._stream, WorkerMessage(part=ResultPart(result=result), sent_ns=time.perf_counter_ns()))
