"""Turns on a device that several processes share: the agent says when this one may run its next block."""

import os
from collections.abc import Callable

from enginebench_agent.turn_answers import GO, STOP


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
