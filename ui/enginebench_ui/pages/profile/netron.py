"""Netron, where it is installed: started when a person asks for it, on loopback only, as a process of its own.

It is somebody else's program, so its output goes nowhere and its page is only linked to. It has no address for a single
node: the page that links to it says the node's name, to be found with Netron's own search.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from enginebench_controller.errors import EnginebenchError

INSTALL = "pip install netron"
LOOPBACK = "127.0.0.1"
_READY_WITHIN_S = 10.0
_STOP_WITHIN_S = 5.0


class NetronError(EnginebenchError):
    """Netron cannot be shown."""


@dataclass(frozen=True)
class _Viewer:
    process: subprocess.Popen[bytes]
    url: str


_viewers: dict[Path, _Viewer] = {}
_gate = threading.Lock()


def program() -> str | None:
    """Return the program to start: that of this environment, else the one on the PATH; None where it is missing."""
    places = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    return shutil.which("netron", path=os.pathsep.join(places))


def running(model: Path) -> str | None:
    """Return the address of the Netron that shows this file; None where none does."""
    viewer = _viewers.get(model)
    return viewer.url if viewer is not None and viewer.process.poll() is None else None


def start(model: Path) -> str:
    """Start Netron over a file unless it shows that already, and return its address once it answers.

    It goes on when the pages stop. Raises `NetronError` where it is missing, or does not come up.
    """
    with _gate:
        if (url := running(model)) is not None:
            return url
        if (found := program()) is None:
            raise NetronError(f"Netron is not installed; install it with `{INSTALL}`")
        if not model.is_file():
            raise NetronError(f"there is no file {model} any more")
        viewer = _started(found, model)
        _viewers[model] = viewer
        return viewer.url


def stop(model: Path) -> None:
    """End the Netron that shows this file, if one does."""
    with _gate:
        viewer = _viewers.pop(model, None)
    if viewer is not None:
        viewer.process.terminate()
        try:
            viewer.process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            viewer.process.kill()
            viewer.process.wait()


def _started(found: str, model: Path) -> _Viewer:
    port = _free_port()
    command = [found, "--host", LOOPBACK, "--port", str(port), "--", str(model)]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    deadline = time.monotonic() + _READY_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        if _answers(port):
            return _Viewer(process, f"http://{LOOPBACK}:{port}")
        time.sleep(0.1)
    process.kill()
    process.wait()
    raise NetronError(f"Netron did not start; try it yourself: netron {model}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0
