"""Having a machine alone: of all agents that are started so, by whomever, one at a time is there, and the others wait.

What is held is the name of a socket. Every user of the machine reaches it, a temporary folder of one's own, as batch
systems give each job, hides none, no file is left behind, and the kernel frees it with its process, however that ends.
"""

import contextlib
import logging
import os
import select
import socket
import sys
import time
from collections.abc import Iterator

from enginebench_agent.errors import SetupError

NAME = "\0enginebench-alone"
"""Without a place in the file system: all processes share it that share a network."""
POLL_SECONDS = 0.2

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def alone_here(*, with_stdin: bool) -> Iterator[None]:
    """Wait until no other agent has this machine alone, and have it for the block.

    Raises `SetupError` when `with_stdin` and standard input ends meanwhile: whoever started this is gone.
    """
    with socket.socket(socket.AF_UNIX) as held:
        if not _is_ours(held):
            _log.info("another agent has this machine alone: waiting for it to end")
            while not _is_ours(held):
                _pause(with_stdin=with_stdin)
        yield


def _is_ours(held: socket.socket) -> bool:
    try:
        held.bind(NAME)
    except OSError:
        return False
    return True


def _pause(*, with_stdin: bool) -> None:
    if not with_stdin:
        time.sleep(POLL_SECONDS)
    elif select.select([sys.stdin], [], [], POLL_SECONDS)[0] and not os.read(sys.stdin.fileno(), 4096):
        raise SetupError("whoever started this agent is gone: it does not wait for the machine any longer")
