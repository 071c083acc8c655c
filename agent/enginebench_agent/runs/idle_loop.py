"""An event loop that knows how long it had nothing to do: what it hears after that it hears as it comes.

All else may make it late, and no account of the kernel's has it: other coroutines, a disk that a file is written to, a
lock in /proc that hundreds of processes want.
"""

import asyncio
import selectors
import time


class _IdleSelector(selectors.DefaultSelector):
    """Waits as any other one does, and adds up for how long."""

    idle_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begin_ns = time.perf_counter_ns()
        try:
            return super().select(timeout)
        finally:
            self.idle_ns += time.perf_counter_ns() - begin_ns


class IdleLoop(asyncio.SelectorEventLoop):
    """The loop of an agent."""

    def __init__(self) -> None:
        self._idle = _IdleSelector()
        super().__init__(self._idle)

    @property
    def idle_ns(self) -> int:
        """For how long it has waited so far while nothing was due, in ns."""
        return self._idle.idle_ns


def idle_ns() -> int | None:
    """For how long the running loop has had nothing to do so far, in ns; None where another kind runs, or none."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop.idle_ns if isinstance(loop, IdleLoop) else None
