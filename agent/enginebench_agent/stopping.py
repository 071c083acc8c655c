"""When an agent is to stop: gently, so that runs may end, or at once."""

import asyncio
import os
import signal
import sys


class Stop:
    """What was asked of this process. SIGTERM asks gently; a second one, SIGINT, or a starter that is gone do not.

    Make one in the event loop that is to hear of it.
    """

    def __init__(self, *, with_stdin: bool) -> None:
        """`with_stdin`: the end of standard input means that the starter is gone."""
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()
        self._loop.add_signal_handler(signal.SIGTERM, self._ask)
        self._loop.add_signal_handler(signal.SIGINT, self._insist)
        if with_stdin:
            self._loop.add_reader(sys.stdin.fileno(), self._read_away)

    async def asked(self) -> None:
        """Wait until somebody asks, in whatever way."""
        await self._asked.wait()

    async def at_once(self) -> None:
        """Wait until somebody insists."""
        await self._at_once.wait()

    def _ask(self) -> None:
        if self._asked.is_set():
            self._at_once.set()
        self._asked.set()

    def _insist(self) -> None:
        self._at_once.set()
        self._asked.set()

    def _read_away(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            self._loop.remove_reader(sys.stdin.fileno())
            self._insist()
