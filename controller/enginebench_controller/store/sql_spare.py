"""The processes that queries run in, one for each query.

Such a process takes 0.2 seconds of processor time until it can read the first word of SQL. A page has to answer at
once, so it keeps the next one waiting.
"""

import subprocess
import sys
import threading


class Processes:
    """Starts a process for each query. With `spare` another one waits for the next, and ends when this program does."""

    def __init__(self, *, spare: bool) -> None:
        self._spare = spare
        self._waiting: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def take(self) -> subprocess.Popen[str]:
        """The one that waits, else a new one. It is the caller's from here on."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        return waiting if waiting is not None and waiting.poll() is None else _start()

    def prepare(self) -> None:
        """Have one wait, where one is to."""
        with self._lock:
            if self._spare and (self._waiting is None or self._waiting.poll() is not None):
                self._waiting = _start()


ON_DEMAND = Processes(spare=False)
READY = Processes(spare=True)
"""For programs that live long."""


def _start() -> subprocess.Popen[str]:
    # -P: what lies in the current folder is no module of ours.
    command = [sys.executable, "-P", "-m", "enginebench_controller.store.sql_process"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, encoding="utf-8")
