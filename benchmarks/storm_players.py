"""Who is killed in the storm: agents, commands, pages, workers of a cluster, and the children of all. Each is started
again by itself.
"""

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from enginebench_controller.home import JOB_VARIABLE
from enginebench_controller.jobs.folder import JobFolder

BATCHES = (1, 2, 3)
_QUICK = (
    "--processes",
    "2",
    "--interval",
    "0%",
    "--duration",
    "200ms",
    "--warmup",
    "20ms",
    "--max-duration",
    "1m",
    "--keep-noisy",
    "--wait-quiet",
    "0s",
)
_ONLY_FAKE = '[environments.default]\nengines = ["fake"]\n'
POLL_S = 0.005
_PATIENCE_S = 10.0
STARTING_S = 10.0
"""How long one process may take to listen, where it does not share the processors with others."""
_LANES = itertools.count()


class Player:
    """A process that is started again whenever it has ended, until `stop`."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.starts = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)
        self._thread.start()

    def victim(self) -> int | None:
        """The process to kill now; None where there is none."""
        process = self.process
        return process.pid if process is not None and process.poll() is None else None

    def stop(self) -> None:
        """Let it end by itself where it does, and start no other."""
        self._stopping.set()
        self._thread.join()

    def _keep_alive(self) -> None:
        while not self._stopping.is_set():
            self.process = self._start()
            self.starts += 1
            self._attend(self.process)

    def _start(self) -> "subprocess.Popen[str]":
        raise NotImplementedError

    def _attend(self, process: "subprocess.Popen[str]") -> None:
        while process.poll() is None and not self._stopping.wait(0.02):
            pass
        if process.poll() is None:
            process.terminate()
        process.communicate()


class Host(Player):
    """A player that carries runs out in children, whose files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._order = random.Random(1)  # noqa: S311  # an order, not a secret
        super().__init__()

    def child(self) -> int | None:
        """One that carries out a run, whether it has a turn or rests: its keeper, or the engine's; None without any."""
        return self._any_with(b"\0run\0")

    def task(self) -> int | None:
        """The agent that a worker has started; None where it has none now."""
        return self._any_with(b"\0serve\0")

    def _any_with(self, word: bytes) -> int | None:
        family = [one for one in self.family() if word in _command_line(one)]
        return self._order.choice(family) if family else None

    def family(self) -> list[int]:
        """All that have come of this process."""
        found = children_of(pid) if (pid := self.victim()) else []
        for one in found:
            found += children_of(one)
        return found

    def strays(self, family: Sequence[int], patience_s: float = _PATIENCE_S) -> int:
        """How many of the family of one that was killed are still there, stopped or alive, after time to end."""
        deadline = time.monotonic() + patience_s
        while (left := [one for one in family if self._is_ours(one)]) and time.monotonic() < deadline:
            time.sleep(0.01)
        return len(left)

    def _is_ours(self, pid: int) -> bool:
        return str(self.folder).encode() in _command_line(pid)  # a zombie has none, nor has who got its number


class Agent(Host):
    """An agent with the fake engine, always on the same port and folder. Notes every result that reaches its spool.

    It looks there each `poll_s` seconds.
    """

    def __init__(self, folder: Path, poll_s: float = POLL_S) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.spooled: set[str] = set()
        self._poll_s = poll_s
        folder.mkdir(parents=True)
        (folder / "agent.toml").write_text(_ONLY_FAKE)
        super().__init__(folder)
        threading.Thread(target=self._note, daemon=True).start()

    def _start(self) -> "subprocess.Popen[str]":
        serve = ("-m", "enginebench_agent", "serve", "--port", self.address.rpartition(":")[2])
        return _quiet([*serve, "--data-dir", str(self.folder)])

    def _note(self) -> None:
        while not self._stopping.wait(self._poll_s):
            with contextlib.suppress(FileNotFoundError):
                self.spooled.update(name for name in os.listdir(self.folder / "spool") if "." not in name)  # noqa: PTH208


class Scheduler(Player):
    """A scheduler of Dask on this machine's loopback, whom nobody kills."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        super().__init__()

    def _start(self) -> "subprocess.Popen[str]":
        host, _, port = self.address.rpartition(":")
        words = ("--host", host, "--port", port, "--no-dashboard")
        return _quiet(["-m", "dask", "scheduler", *words])


class Worker(Host):
    """A worker of it that measures in a home of the cluster's, with the fake engine."""

    def __init__(self, home: Path, scheduler: Scheduler) -> None:
        self._home = home
        self._scheduler = scheduler
        folder = home / "cluster" / socket.gethostname()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "agent.toml").write_text(_ONLY_FAKE)
        super().__init__(folder)

    def _start(self) -> "subprocess.Popen[str]":
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--resources", "enginebench=1")
        return _quiet(["-m", "dask", "worker", self._scheduler.address, *words], home=self._home)


class Commands(Player):
    """One command after the other over a home; with `resuming` every third only collects what others left.

    Each goes `where` this says. What a command measures takes turns, or with `alone` follows one another.
    What a command tells in its job folder to be stored, is: that is the promise.
    """

    def __init__(
        self,
        home: Path,
        where: Callable[[], Sequence[str]],
        model: Path,
        device: str,
        *,
        resuming: bool = False,
        alone: bool = False,
    ) -> None:
        self._home = home
        self._where = where
        device_words = ("--engine", "fake", "--option", "fake.wait=sleep", "--device", device)
        order = ["run", str(model), *device_words, *_QUICK]
        self._order = order if alone else [*order, "--interleave"]
        self._resuming = resuming
        self._folders: list[JobFolder] = []
        self._numbers = itertools.count()
        self._name = f"{next(_LANES)}"
        super().__init__()

    def told(self) -> set[str]:
        """The ids of all measurements that were told to be in the store."""
        progress = filter(None, (folder.progress() for folder in self._folders))
        return {cell.outcome_id for one in progress for cell in one.cells if cell.outcome_id}

    def _start(self) -> "subprocess.Popen[str]":
        number = next(self._numbers)
        folder = JobFolder(self._home.parent / "told" / f"{self._name}-{number}")
        folder.path.mkdir(parents=True)
        self._folders.append(folder)
        run = (*self._order, *self._where(), "--batch", ",".join(map(str, BATCHES)))
        order = ("resume",) if self._resuming and number % 3 == 2 else run
        return _quiet(["-m", "enginebench_controller", *order], home=self._home, job=folder.path)

    def _attend(self, process: "subprocess.Popen[str]") -> None:
        process.communicate()  # it ends by itself, also when the storm is over


class Pages(Player):
    """The pages, and a visitor who opens one after the other."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = free_port()
        self.drawn = 0
        self.tracebacks = 0
        super().__init__()
        threading.Thread(target=self._visit, daemon=True).start()

    def victim(self) -> int | None:
        """The server itself, not the command that waits for it."""
        command = super().victim()
        return next(iter(children_of(command)), None) if command else None

    def _start(self) -> "subprocess.Popen[str]":
        return _quiet(["-m", "enginebench_controller", "ui", "--port", str(self._port)], home=self._home)

    def _visit(self) -> None:
        for page in itertools.cycle(("", "projects", "targets", "profiles")):
            if self._stopping.wait(0.2):
                return
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                for message in self._messages(page):
                    kind = message.delta.new_element.WhichOneof("type") if message.HasField("delta") else None
                    self.tracebacks += kind == "exception"
                self.drawn += 1

    def _messages(self, page: str) -> Iterator[ForwardMsg]:
        """What the server sends of a page, to its end."""
        url = f"ws://127.0.0.1:{self._port}/_stcore/stream"
        with connect(url, subprotocols=["streamlit"], proxy=None, max_size=None, close_timeout=1) as socket_:  # type: ignore[list-item]
            asked = BackMsg()
            asked.rerun_script.page_name = page
            socket_.send(asked.SerializeToString())
            while True:
                content = socket_.recv(timeout=_PATIENCE_S)
                message = ForwardMsg.FromString(content if isinstance(content, bytes) else content.encode())
                yield message
                if message.WhichOneof("type") == "script_finished":
                    return


def kill(pid: int | None) -> bool:
    """SIGKILL; False where there is nobody."""
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def children_of(pid: int) -> list[int]:
    """The child processes of a process, whichever of its threads started them; none of one that has gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tiny_model(path: Path) -> Path:
    """A network of one addition."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], "double")], "tiny", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def wait_until_answering(server: Agent | Scheduler, patience_s: float = STARTING_S) -> None:
    """Raises `TimeoutError` for one that does not listen."""
    host, _, port = server.address.rpartition(":")
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on {server.address}")


def _quiet(arguments: list[str], home: Path | None = None, job: Path | None = None) -> "subprocess.Popen[str]":
    ours = {"ENGINEBENCH_HOME": str(home)} if home else {}
    ours |= {JOB_VARIABLE: str(job)} if job else {}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=os.environ | ours,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
