"""What a bootstrapped machine needs of `systemctl --user`, played with real processes: one unit, one agent.

A copy of this file, behind a line that names an interpreter, is the machine's `systemctl`. It waits for the agent's
word that it serves, as systemd does for a unit of Type=notify.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

UNIT = Path.home() / ".config" / "systemd" / "user" / "enginebench-agent.service"
PID = Path.home() / "agent.pid"
CALLS = Path.home() / "systemctl.calls"


def is_active() -> bool:
    """Whether the agent lives; a zombie does not, and in a container nobody may have fetched it."""
    try:
        return Path(f"/proc/{PID.read_text()}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def start() -> None:
    if is_active():
        return
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    name = f"enginebench-systemctl-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(60)
        listening.bind("\0" + name)
        agent = subprocess.Popen(
            shlex.split(line.partition("=")[2]),
            env=os.environ | {"NOTIFY_SOCKET": "@" + name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        PID.write_text(str(agent.pid))
        assert listening.recv(100) == b"READY=1"


def stop() -> None:
    if is_active():
        os.kill(int(PID.read_text()), signal.SIGTERM)
    while is_active():
        time.sleep(0.02)


def main() -> None:
    verb = next(word for word in sys.argv[1:] if not word.startswith("-"))
    with CALLS.open("a") as calls:
        calls.write(verb + "\n")
    if verb in ("stop", "restart"):
        stop()
    if verb in ("start", "restart"):
        start()
    if verb == "is-active" and not is_active():
        sys.exit(3)


if __name__ == "__main__":
    main()
