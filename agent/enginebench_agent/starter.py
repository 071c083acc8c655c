"""Whoever started this process: they hold the other end of its standard input, which closes however they end."""

import os
import selectors
import signal
import sys
import threading

from enginebench_agent.errors import SetupError


def check_stdin() -> None:
    """Raise `SetupError` where standard input is nothing whose end can be waited for."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
    except (PermissionError, ValueError) as error:  # a file, or /dev/null; none at all, as after `<&-`
        raise SetupError(
            "--exit-with-stdin needs a pipe or a terminal as standard input, for files and /dev/null never close: "
            "leave it out, and end this with a signal"
        ) from error


def end_with_stdin() -> None:
    """Have all processes of this one's group interrupted, as by Ctrl-C, once standard input closes.

    Only for the main thread. Raises `SetupError` where standard input is nothing whose end can be waited for.
    """
    check_stdin()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a script starts with `&` begins with it ignored
    threading.Thread(target=_interrupt_at_its_end, daemon=True).start()


def _interrupt_at_its_end() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGINT)
