"""`python clock_going_back.py MARKER … -m MODULE ARGUMENT…`: a module whose wall clock loses an hour at each look.

Whatever subtracts two looks gets a negative duration. The file MARKER is made as a sign that this is in force. gRPC
alone sees the true time: it turns a time to wait into an instant, which its core holds against the machine's clock.
"""

import itertools
import runpy
import sys
import time
from pathlib import Path

HOUR_NS = 3_600 * 1_000_000_000

_true_time_ns, _true_time = time.time_ns, time.time
_looks = itertools.count(1)


def _time_ns() -> int:
    return _true_time_ns() - next(_looks) * HOUR_NS


def _time() -> float:
    asker = sys._getframe(1).f_globals.get("__name__", "")
    return _true_time() if asker.startswith("grpc") else _time_ns() / 1e9


def executable(folder: Path, marker: Path) -> Path:
    """A file to start in the place of a Python interpreter, as `FILE -m MODULE`."""
    path = folder / f"python-of-{marker.name}"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{__file__}" "{marker}" "$@"\n')
    path.chmod(0o700)
    return path


if __name__ == "__main__":
    Path(sys.argv[1]).touch()
    time.time_ns, time.time = _time_ns, _time
    sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
