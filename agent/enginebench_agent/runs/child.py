"""One child process: spawned in a session of its own, heard through a pipe, and never left behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits, impose
from enginebench_agent.runs.resting import Rest
from enginebench_agent.uninterrupted import to_end
from enginebench_agent.worker.pipe import read_frame_async
from enginebench_proto.v1.worker_pb2 import WorkerMessage

STDERR_TAIL_BYTES = 8 * 1024
PIPE_BYTES = 1024 * 1024
"""As much as a pipe can hold, unless root made it larger."""

DRAIN_SECONDS = 2.0
"""How long a pipe may stay open after the child is gone, held by a process that left the child's group."""

END_SECONDS = 1.0
"""How long a child's keeper has to end everything that the engine has started; see `worker.keeper`."""

# Whatever else is set for the agent would make two runs of one configuration differ, OMP_NUM_THREADS foremost.
KEPT_VARIABLES = frozenset(
    {"HOME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOGNAME", "PATH", "SHELL", "TZ", "USER", "XDG_CACHE_HOME"}
)
KEPT_PREFIXES = ("CUDA_", "HIP_", "LC_", "NVIDIA_", "ONEAPI_", "ORT_WEBGPU_EP_", "ROCR_", "VK_", "ZE_")


@dataclass(frozen=True)
class ChildExit:
    """How a child ended: by itself with `exit_code`, or by the signal named `signal_name` ("" for none)."""

    exit_code: int | None
    signal_name: str
    stderr_tail: str


class ChildStartError(Exception):
    """The interpreter of an environment cannot be started; the text says which and why, `number` is the errno."""

    def __init__(self, text: str, number: int | None = None) -> None:
        super().__init__(text)
        self.number = number


class Child:
    """A running worker. Make one with `spawned`.

    `pid` is the process that the engine lives in, as soon as that has told, and until then the one that was started.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", limits: ChildLimits) -> None:
        self.pid = process.pid
        self._process = process
        self._limits = limits
        self._rest = Rest(process.pid, process.pid)
        self._stdout = asyncio.StreamReader()
        self._stderr = _Tail()
        self._pipes: list[asyncio.ReadTransport] = []
        loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=_await_end, args=(process.pid, loop, self._on_end), daemon=True).start()

    async def messages(self) -> AsyncIterator[WorkerMessage]:
        """What the worker sends, until its pipe closes. Raises `FramingError` for bytes that are no message."""
        while (message := await read_frame_async(self._stdout)) is not None:
            if message.HasField("pid"):
                self._follow(message.pid)
            yield message

    async def exit(self) -> ChildExit:
        """Wait for the end of the child and of its error output."""
        await asyncio.shield(self._gone)
        await self._stderr.closed.wait()
        code = self._process.returncode
        killed = code is not None and code < 0
        return ChildExit(
            exit_code=None if killed else code,
            signal_name=_signal_name(-code) if code is not None and killed else "",
            stderr_tail=self._stderr.text(),
        )

    async def rest(self) -> None:
        """Stop the engine's process and everything it started, until `go_on`; returns when they stand still.

        One that cannot be stopped soon is waited for no longer; what it does then shows in the others' evidence.
        """
        if not self._gone.done():
            await self._rest.begin()

    def go_on(self) -> None:
        """Let the engine's process go on. Harmless when it is gone, or has not rested."""
        if not self._gone.done():
            self._rest.end()

    def kill(self) -> None:
        """Kill the child and everything it started. Harmless when it is gone."""
        if not self._gone.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)  # a keeper ends all else first; whoever has none ends
                os.kill(self._process.pid, signal.SIGCONT)  # should it rest
            asyncio.get_running_loop().call_later(END_SECONDS, self._kill_group)

    async def listen(self, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        """Take up the pipes; called once by `spawned`."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReaderProtocol(self._stdout)
        for pipe, protocol in ((stdout, reader), (stderr, self._stderr)):
            transport, _ = await loop.connect_read_pipe(partial(_same, protocol), pipe)
            self._pipes.append(transport)

    def _on_end(self) -> None:
        # The child is a zombie until the next line but one, so its group cannot belong to anybody else yet.
        self._kill_group()
        self._process.wait()
        self._take_rest()
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._close_pipes)
        if not self._gone.done():
            self._gone.set_result(None)

    def _kill_group(self) -> None:
        if not self._gone.done():
            self._rest.kill()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _follow(self, pid: int) -> None:
        """Take another process for the engine's, if the child is its parent, and bind it as the child was bound."""
        with contextlib.suppress(OSError):
            if _parent(pid) == self._process.pid:
                self.pid = pid
                self._rest = Rest(self._process.pid, pid)
                impose(pid, self._limits)  # the child may have parted before it was bound itself

    def _take_rest(self) -> None:
        """Take what the child has left in its pipe: who hears it may be busy for longer than the pipe stays open.

        asyncio stops reading while much is waiting to be heard, and what it has not read is lost with the pipe.
        """
        if self._pipes and not self._pipes[0].is_closing():
            with contextlib.suppress(BlockingIOError):
                self._stdout.feed_data(os.read(self._pipes[0].get_extra_info("pipe").fileno(), PIPE_BYTES))

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        self._stderr.closed.set()


@contextlib.asynccontextmanager
async def spawned(
    python: Path,
    arguments: Sequence[str],
    folder: Path,
    stdin: Path | None,
    descriptors: Sequence[int] = (),
    limits: ChildLimits = NO_LIMITS,
) -> AsyncIterator[Child]:
    """Start `python -m enginebench_agent.worker` in `folder`; when the block is left, however, the child is gone.

    Spawned, never forked: a fork of a process that serves gRPC breaks both sides. `stdin` is a file the worker reads,
    `descriptors` are open files it gets under the same numbers. Raises `ChildStartError`.
    """
    staying = ["--keep-network"] if limits.network else []
    enclosing = limits.sandbox.words() if limits.sandbox else []
    process = _popen(python, [*staying, *enclosing, *arguments], folder, stdin, descriptors)
    assert process.stdout is not None and process.stderr is not None  # noqa: S101  # pipes, as asked for
    try:
        child = Child(process, limits)
    except BaseException:  # such as no thread left to wait for its end
        process.kill()
        process.wait()
        raise
    try:
        impose(process.pid, limits)
        await to_end(child.listen(process.stdout, process.stderr))
        yield child
    finally:
        child.kill()
        await to_end(child.exit())


def _popen(
    python: Path, arguments: Sequence[str], folder: Path, stdin: Path | None, descriptors: Sequence[int]
) -> "subprocess.Popen[bytes]":
    # -P keeps the folder, whose files have names from outside, off the import path.
    command = [str(python), "-P", "-m", "enginebench_agent.worker", *arguments]
    try:
        with (stdin or Path(os.devnull)).open("rb") as stream:
            return subprocess.Popen(
                command,
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=_variables(os.environ, folder),
                start_new_session=True,
                pass_fds=descriptors,
            )
    except OSError as error:
        raise ChildStartError(f"the interpreter {python} cannot be started: {error}", error.errno) from error


def _same(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol


def _await_end(pid: int, loop: asyncio.AbstractEventLoop, on_end: Any) -> None:
    # A thread instead of a pidfd: kernels of older boards have none. WNOWAIT leaves the reaping to `_on_end`.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(RuntimeError):  # the loop is closed when the agent leaves
        loop.call_soon_threadsafe(on_end)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _variables(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in environment.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }
    return kept | {"TMPDIR": str(folder)}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Tail(asyncio.Protocol):
    """Keeps the end of what passes through a pipe."""

    def __init__(self) -> None:
        self._kept = b""
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-STDERR_TAIL_BYTES:]

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set()

    def text(self) -> str:
        """The end of the output; bytes that are no UTF-8 are shown as such."""
        return self._kept.decode(errors="replace")
