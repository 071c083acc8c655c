"""When this process was stopped and went on, told by its keeper: the kernel tells a parent, and nobody else.

SIGSTOP falls into an inference most times, where it looks like a slow one, and the process itself never hears of it.
"""

import mmap
import struct
import time
from collections.abc import Iterator

_ENTRY = struct.Struct("qq")
_COUNT = struct.Struct("q")
_ENTRIES = 64
"""Pauses that are remembered: far more than there can sensibly be in a block."""

UNKNOWN_NS = -(1 << 62)
"""When a pause began of which a keeper hears only afterwards, for it was stopped too."""

clock = time.perf_counter_ns


class Pauses:
    """Memory that keeper and engine share. One writes begin and end of each pause, the other reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT.size + _ENTRIES * _ENTRY.size)

    def begin(self, at_ns: int) -> None:
        """The engine's process was stopped, at the latest now. Harmless while it is."""
        count = self._count()
        if count and not self._entry(count - 1)[1]:
            return
        _ENTRY.pack_into(self._memory, self._place(count), at_ns, 0)
        _COUNT.pack_into(self._memory, 0, count + 1)

    def end(self, at_ns: int) -> None:
        """It goes on. Where nobody has seen it stopped, as the keeper was stopped too, only that is kept."""
        count = self._count()
        if count and not (entry := self._entry(count - 1))[1]:
            _ENTRY.pack_into(self._memory, self._place(count - 1), entry[0], at_ns)
        else:
            _ENTRY.pack_into(self._memory, self._place(count), UNKNOWN_NS, at_ns)
            _COUNT.pack_into(self._memory, 0, count + 1)

    def within(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        """The pauses that began in this stretch, which the engine's process has just come through.

        The one before may be told to have ended in it, for a keeper gets a processor when the engine leaves it one.
        """
        count = self._count()
        for number in range(max(0, count - _ENTRIES), count):
            paused_ns, continued_ns = self._entry(number)
            if begin_ns <= paused_ns < end_ns:
                yield paused_ns, min(continued_ns or end_ns, end_ns)

    def total_ns(self, begin_ns: int, end_ns: int) -> int:
        """How long those pauses were together."""
        return sum(continued_ns - paused_ns for paused_ns, continued_ns in self.within(begin_ns, end_ns))

    def went_on(self, begin_ns: int) -> bool:
        """Whether it went on after this instant and nobody had seen it stopped."""
        count = self._count()
        ended = (self._entry(number) for number in range(max(0, count - _ENTRIES), count))
        return any(paused_ns == UNKNOWN_NS and continued_ns >= begin_ns for paused_ns, continued_ns in ended)

    def _count(self) -> int:
        return int(_COUNT.unpack_from(self._memory)[0])

    def _entry(self, number: int) -> tuple[int, int]:
        begin_ns, end_ns = _ENTRY.unpack_from(self._memory, self._place(number))
        return begin_ns, end_ns

    def _place(self, number: int) -> int:
        return _COUNT.size + number % _ENTRIES * _ENTRY.size
