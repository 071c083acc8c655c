"""Memory bandwidth by NumPy's loops, in as many threads as cores, for data that fit a cache and data that do not.

NumPy releases the interpreter's lock within a call. A pass over data in a core's own cache takes microseconds, and
threads that take the lock as often mostly wait for each other: so one call makes many passes, over an array that has a
further axis without extent in memory. Copying has no such form and is only tried where a pass is long.

Bytes are counted as in STREAM (McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers",
1995): what the loop reads and writes, without what the processor fetches only to overwrite it.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from enginebench_agent.worker.loads.block import clock
from enginebench_agent.worker.peaks.rates import RateMeter, Work
from enginebench_proto.v1.peaks_pb2 import Rate

WORKING_SETS_BYTES = tuple(1 << exponent for exponent in range(18, 29, 2))
"""256 KiB to 256 MiB: from a core's own cache to several times the largest cache of most processors."""

LARGEST_SHARE_OF_MEMORY = 1 / 16
BLOCK_NS = 10_000_000
COPIES_FROM_BYTES = 4 << 20

_ITEM_BYTES = 4

Array = NDArray[Any]


@dataclass(frozen=True)
class Bandwidth:
    """One way to walk through a working set of all threads together."""

    working_set_bytes: int
    what: str
    rate: Rate


@dataclass(frozen=True)
class _Walk:
    """One thread's share: `run(passes)` walks so often, and `bytes_of(passes)` says what that reads and writes."""

    run: Callable[[int], object]
    bytes_of: Callable[[int], int]


_Make = Callable[[int], _Walk]
"""Makes the walk through a share of so many bytes."""


def bandwidths(threads: int, memory_bytes: int | None, meter: RateMeter) -> Iterator[Bandwidth]:
    """Every working set by every way, smallest first; none larger than a 16th of the memory, where that is known."""
    largest = WORKING_SETS_BYTES[-1] if memory_bytes is None else memory_bytes * LARGEST_SHARE_OF_MEMORY
    with _Team(threads) as team:
        for working_set_bytes in WORKING_SETS_BYTES:
            if working_set_bytes > largest:
                return
            for what, make in _ways(working_set_bytes // threads):
                team.take([make(working_set_bytes // threads) for _ in range(threads)])
                yield Bandwidth(working_set_bytes, what, meter.measure(team.block))


def _ways(share_bytes: int) -> Iterator[tuple[str, _Make]]:
    yield "read", _reading
    yield "update", _updating
    if share_bytes >= COPIES_FROM_BYTES:
        yield "copy", _copying


def _reading(share_bytes: int) -> _Walk:
    """The largest of all numbers, again and again."""
    data = np.ones(share_bytes // _ITEM_BYTES, np.int32)  # comparing integers needs no care for NaN

    def run(passes: int) -> None:
        np.maximum.reduce(_repeated(data, passes), axis=1)

    return _Walk(run, lambda passes: passes * data.nbytes)


def _updating(share_bytes: int) -> _Walk:
    """a = max(a, b): half of the data are read, half are read and written. The first pass is a copy."""
    source = np.ones(share_bytes // 2 // _ITEM_BYTES, np.int32)
    changed = np.zeros_like(source)

    def run(passes: int) -> None:
        np.maximum.reduce(_repeated(source, passes + 1), axis=0, out=changed)

    return _Walk(run, lambda passes: (3 * passes + 2) * source.nbytes)


def _copying(share_bytes: int) -> _Walk:
    source = np.ones(share_bytes // 2 // _ITEM_BYTES, np.int32)
    changed = np.zeros_like(source)

    def run(passes: int) -> None:
        for _ in range(passes):
            np.copyto(changed, source)

    return _Walk(run, lambda passes: 2 * passes * source.nbytes)


def _repeated(values: Array, times: int) -> Array:
    """A view of shape (times, size) whose rows are all these very values."""
    return as_strided(values, (times, values.size), (0, values.itemsize), writeable=False)


class _Team:
    """Threads that walk at the same time, each through memory of its own."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._barrier = threading.Barrier(threads)
        self._walks: list[_Walk] = []
        self._passes = 1

    def __enter__(self) -> "_Team":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def take(self, walks: list[_Walk]) -> None:
        """Walk these from now on; so often in a block that it lasts about `BLOCK_NS`."""
        self._walks, self._passes = walks, 1
        while (duration_ns := self.block()[1]) < BLOCK_NS // 8:
            self._passes *= 4
        self._passes = max(1, round(self._passes * BLOCK_NS / duration_ns))

    def block(self) -> Work:
        """Bytes of all threads, and the time from the first start to the last end."""
        times = list(self._pool.map(self._walk, self._walks))
        done_bytes = sum(walk.bytes_of(self._passes) for walk in self._walks)
        return done_bytes, max(end for _, end in times) - min(begin for begin, _ in times)

    def _walk(self, walk: _Walk) -> tuple[int, int]:
        self._barrier.wait()
        begin = clock()
        walk.run(self._passes)
        return begin, clock()
