"""A cluster of Dask on this machine: a scheduler and workers, each a process, as people start them."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_server import only
from integration.bench import wait_until

THREADS = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
"""What Dask's nanny sets to 1 where a login has not set it."""
FOR_MEASURING = ("--resources", "enginebench=1")


class DaskCluster:
    """Starts processes of Dask, whose logs are in `folder`, and ends them. Workers measure in a home of their own."""

    def __init__(self, folder: Path, *options: str, variables: Mapping[str, str] | None = None) -> None:
        """The scheduler; `options` are for all processes, and `variables` as well."""
        self.folder = folder
        self.home = folder / "home"
        self.agent_data = self.home / "cluster" / socket.gethostname()
        self.agent_data.mkdir(parents=True, mode=0o700)
        (self.agent_data / "agent.toml").write_text(only("fake", "onnxruntime"))
        self._options = options
        self._variables = variables or {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self._file))
        wait_until(self._file.exists, 60)

    @property
    def address(self) -> str:
        """The scheduler's HOST:PORT."""
        return self._file.read_text().partition('"address": "')[2].partition('"')[0].partition("://")[2]

    @property
    def executor(self) -> str:
        return f"dask://{self.address}"

    def add_workers(self, *options: str, count: int = 1, variables: Mapping[str, str] | None = None) -> None:
        """Start workers of one thread each, and wait until the scheduler has them."""
        before = self._log("scheduler").count("Register worker")
        name = f"workers-{len(self._processes)}"
        words = ("--nworkers", str(count), "--nthreads", "1")
        self._start(name, "--scheduler-file", str(self._file), *words, *options, variables=variables)
        wait_until(lambda: self._log("scheduler").count("Register worker") >= before + count, 60)

    def agents(self) -> list[int]:
        """The agents that workers have started, also those that wait for the machine."""
        processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [pid for pid in processes if str(self.home) in _agent_of(pid)]

    def lose_scheduler(self) -> None:
        """Kill the scheduler alone."""
        self._processes[0].kill()

    def stop(self) -> None:
        """End all of it at once: what a process of Dask has started ends with it, and an agent with its worker."""
        for process in self._processes:
            process.kill()
            process.wait()
        wait_until(lambda: not self.agents(), 30)

    def _start(self, name: str, *words: str, variables: Mapping[str, str] | None = None) -> None:
        kind = "scheduler" if name == "scheduler" else "worker"
        command: Sequence[str] = (sys.executable, "-m", "dask", kind, "--no-dashboard", *self._options, *words)
        login = {key: value for key, value in os.environ.items() if key not in THREADS}
        login |= {"ENGINEBENCH_HOME": str(self.home), "DASK_TEMPORARY_DIRECTORY": str(self.folder)}
        login |= {**self._variables, **(variables or {})}
        with (self.folder / f"{name}.log").open("w") as log:
            self._processes.append(subprocess.Popen(command, env=login, stdout=log, stderr=log, cwd=self.folder))

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _agent_of(pid: int) -> str:
    """The data folder and all other words of an agent that has its machine alone; "" for any other process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    return " ".join(words) if "enginebench_agent" in words and "--alone" in words else ""
