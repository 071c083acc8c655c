"""A real agent process: what the tests of the agent and the integration tests are played on."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

READY = "enginebench-agent listening on "


def only(*engines: str) -> str:
    """An agent.toml with these engines and no other: each takes a process, and some take seconds, to be asked."""
    return f"[environments.default]\nengines = {list(engines)}\n"


ONLY_FAKE = only("fake")


def nobody() -> str:
    """An address on this machine at which nobody listens any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


class AgentProcess:
    """`enginebench-agent serve` on a port of its own. `config` becomes its agent.toml; None leaves what is there."""

    def __init__(
        self, data_dir: Path, *arguments: str, config: str | None = ONLY_FAKE, python: str = sys.executable
    ) -> None:
        self.data_dir = data_dir
        self._arguments = arguments
        self._python = python
        data_dir.mkdir(parents=True, exist_ok=True)
        if config is not None:
            (data_dir / "agent.toml").write_text(config)
        self._start(port=0)

    def _start(self, port: int) -> None:
        self.process = subprocess.Popen(
            serve_command(self.data_dir, "--port", str(port), *self._arguments, python=self._python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith(READY), f"not ready, exit code {self.process.wait()}: {line}"
        self.address = line.removeprefix(READY)

    @property
    def pid(self) -> int:
        """The server's process."""
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def children(self) -> list[int]:
        """The processes that engines live in; the parent of each keeps it, and is a child of the agent."""
        return [kept for pid in _children(self.process.pid) for kept in _children(pid)[:1] or [pid]]

    def resident_bytes(self, field: str = "VmRSS") -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1]) * 1024

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it in an orderly way, if it still runs; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=20)

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Start again on the same port and data folder."""
        self._start(self.port)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def serve_command(data_dir: Path, *arguments: str, python: str = sys.executable) -> list[str]:
    # On machines whose /tmp is in memory, so is the data folder of a test.
    return [python, "-m", "enginebench_agent", "serve", "--in-memory", "--data-dir", str(data_dir), *arguments]
