"""Models are read in a process of their own, within bounds of memory and time, as agents run them.

What a file from elsewhere makes a parser do cannot be foreseen from outside: 2.5 kB of functions that call each other
unfold to millions of nodes, and ONNX's shape inference then hears no Ctrl-C. A process can be refused memory, and
ended. It is spawned, never forked, at the first reading, and serves the later ones too; each thread has its own.
"""

import asyncio
import atexit
import contextlib
import fcntl
import functools
import importlib
import os
import resource
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from enginebench_controller.errors import ModelError
from enginebench_controller.memory_limit import limit_memory
from enginebench_controller.records.model import ModelVersion

P = ParamSpec("P")
R = TypeVar("R")

_SLACK_S = 20.0
"""For a process to start on a busy machine; it ends itself in time."""

_ENDING_S = 1.0
"""How long a process whose socket is closed may take to end: killed meanwhile, it would not tell how it ended."""

_CODE = "from enginebench_controller.models import bounded; bounded.serve()"


@dataclass(frozen=True)
class Bounds:
    """What one reading may take: memory beyond that of the process itself, and time."""

    memory_bytes: int = 900 * 2**20
    seconds: float = 40.0


READING = Bounds()
"""For what looks at structure and shapes: weights stay on disk."""

_SLOWEST_BYTES_PER_S = 25e6
"""Of a memory card, or of a processor that counts the zeros of 16 bits."""

_DERIVING = Bounds(8 * 2**30, 1800.0)
_COPIES = 12
"""A model that is changed is in memory several times: as messages, as bytes, and within ONNX Runtime."""


def bounded(function: Callable[P, R]) -> Callable[P, R]:
    """Let the function, which reads a model of its arguments, run within `READING`.

    Arguments, result and errors travel by pickle. Beyond the bounds it raises `ModelError`.
    """
    return _elsewhere(function, lambda _: READING)


def bounded_by_size(function: Callable[P, R]) -> Callable[P, R]:
    """As `bounded`, for what reads every weight: with more time, the larger the files are where the model lies."""

    def bounds(arguments: tuple[Any, ...]) -> Bounds:
        paths = (path for one in arguments if isinstance(one, Path) for path in one.parent.rglob("*"))
        size_bytes = sum(path.stat().st_size for path in paths if path.is_file())
        return replace(READING, seconds=READING.seconds + size_bytes / _SLOWEST_BYTES_PER_S)

    return _elsewhere(function, bounds)


def deriving(function: Callable[P, R]) -> Callable[P, R]:
    """As `bounded`, for what makes another model of a version, the whole of which is in memory meanwhile."""

    def bounds(arguments: tuple[Any, ...]) -> Bounds:
        size_bytes = sum(one.size_bytes for one in arguments if isinstance(one, ModelVersion))
        return Bounds(_DERIVING.memory_bytes + _COPIES * size_bytes, _DERIVING.seconds)

    return _elsewhere(function, bounds)


async def in_thread(function: Callable[..., R], *arguments: Any) -> R:
    """As `asyncio.to_thread`; once it is cancelled, whatever `function` is reading ends at once."""
    scope = _Scope()
    token = _scope.set(scope)
    try:
        return await asyncio.to_thread(function, *arguments)
    except asyncio.CancelledError:
        scope.end()
        raise
    finally:
        _scope.reset(token)


@dataclass
class _Scope:
    """The readings that end together."""

    ended: bool = False
    busy: set["_Reader"] = field(default_factory=set)

    @contextlib.contextmanager
    def holding(self, reader: "_Reader") -> Iterator[None]:
        """Let `reader` end with the others. Raises `KeyboardInterrupt` where they have ended."""
        self.busy.add(reader)
        try:
            self.refuse()
            yield
        except EOFError:
            self.refuse()
            raise
        finally:
            self.busy.discard(reader)

    def refuse(self) -> None:
        """Raise `KeyboardInterrupt` where the readers have ended."""
        if self.ended:
            raise KeyboardInterrupt

    def end(self) -> None:
        """End them all."""
        self.ended = True
        for reader in tuple(self.busy):
            reader.kill()


_scope: ContextVar[_Scope | None] = ContextVar("scope", default=None)
_idle: list["_Reader"] = []
_is_reader = False


def _elsewhere(function: Callable[P, R], bounds: Callable[[tuple[Any, ...]], Bounds]) -> Callable[P, R]:
    @functools.wraps(function)
    def read(*args: P.args, **kwargs: P.kwargs) -> R:
        if _is_reader:
            return function(*args, **kwargs)
        call = (function.__module__, function.__qualname__, args, kwargs)
        answer: R = _asked(call, bounds(args), _subject((*args, *kwargs.values())))
        return answer

    return read


def _subject(arguments: tuple[Any, ...]) -> str:
    """What a sentence calls the model."""
    named = (one.name if isinstance(one, ModelVersion) else str(one) for one in arguments if _names_a_model(one))
    return next(named, "the model")


def _names_a_model(argument: object) -> bool:
    return isinstance(argument, Path | ModelVersion)


def _asked(call: tuple[Any, ...], bounds: Bounds, subject: str) -> Any:
    scope = _scope.get() or _Scope()
    reader = _free_reader()
    try:
        with scope.holding(reader):
            is_good, answer = reader.ask(call, bounds, subject)
    except EOFError:
        reader.kill(within_s=_ENDING_S)
        raise _ended(reader.returncode, bounds, subject) from None
    except BaseException:
        reader.kill()
        raise
    _idle.append(reader)
    if is_good:
        return answer
    raise answer


@atexit.register
def _end_idle() -> None:
    """Leave no process to those who look at once when a command has ended."""
    while _idle:
        _idle.pop().kill()


def _free_reader() -> "_Reader":
    while _idle:
        with contextlib.suppress(IndexError):  # another thread took it
            reader = _idle.pop()
            if reader.is_alive():
                return reader
            reader.kill()
    return _Reader()


def _ended(returncode: int, bounds: Bounds, subject: str) -> ModelError:
    match -returncode:
        case signal.SIGALRM:
            return _too_long(bounds, subject)
        case signal.SIGKILL:  # by the kernel, where memory runs out on the machine
            return _too_large(bounds, subject)
    how = signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"
    return ModelError(
        f"{subject} broke the process that was to read it ({how}): it is damaged, or made to do so; "
        "check it with onnx.checker"
    )


def _too_long(bounds: Bounds, subject: str) -> ModelError:
    return ModelError(
        f"{subject} cannot be read within {bounds.seconds:g} s, which is as long as a model may take here; "
        "export it anew, with fewer nodes and functions"
    )


def _too_large(bounds: Bounds, subject: str) -> ModelError:
    return ModelError(
        f"{subject} takes more than {bounds.memory_bytes >> 20} MiB of memory to look at, which is as much as a "
        "model may take here; export it anew, with fewer nodes and functions"
    )


class _Reader:
    """The process, seen from outside."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what fails comes as an answer
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # who is interrupted may first want to keep what was measured
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )
        self._connection = Connection(ours.detach())

    @property
    def returncode(self) -> int:
        """How it ended, once it was killed."""
        return self._process.wait()

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None and not self._connection.poll()

    def ask(self, call: tuple[Any, ...], bounds: Bounds, subject: str) -> tuple[bool, Any]:
        """Whether it went well, and the result or the error. Raises `EOFError` where the process ended."""
        try:
            self._connection.send((call, bounds, subject, _folder()))
            if not self._connection.poll(bounds.seconds + _SLACK_S):
                raise _too_long(bounds, subject)
            is_good, answer = self._connection.recv()
        except ConnectionError:
            raise EOFError from None
        return is_good, answer

    def kill(self, within_s: float = 0.0) -> None:
        """End it, unless it ends by itself so soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # where it has ended, how is of interest
            self._process.wait(within_s)
        self._process.kill()
        self._process.wait()


def _folder() -> str:
    """The folder that paths are relative to now, which a notebook may change between two calls; "" if it is gone."""
    with contextlib.suppress(OSError):
        return str(Path.cwd())
    return ""


def serve() -> None:
    """The process, from within: answer one call after the other, until nobody is there any more."""
    global _is_reader  # noqa: PLW0603  # it is what this process is
    _is_reader = True
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own_bytes = _data_bytes()
    connection = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            call, bounds, subject, folder = connection.recv()
            if folder:
                with contextlib.suppress(OSError):  # then the path that is relative to it leads nowhere
                    os.chdir(folder)
            limit_memory(resource.RLIMIT_DATA, own_bytes + bounds.memory_bytes, for_good=False)
            signal.setitimer(signal.ITIMER_REAL, bounds.seconds)
            with _ending_with_asker(connection.fileno()):
                answer = _answer(call, bounds, subject)
            connection.send(answer)
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _ending_with_asker(descriptor: int) -> Iterator[None]:
    """Let the kernel end this process, whatever it computes, once the other end of its socket is gone."""
    calm = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, calm | os.O_ASYNC)  # SIGIO, which nobody handles; macOS drops it
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, calm)


def _answer(call: tuple[Any, ...], bounds: Bounds, subject: str) -> tuple[bool, Any]:
    module, name, args, kwargs = call
    try:
        function = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        return True, function(*args, **kwargs)  # type: ignore[operator]
    except MemoryError:
        return False, _too_large(bounds, subject)
    except Exception as error:
        error.add_note(traceback.format_exc())
        error.__cause__ = error.__context__ = None
        return False, error


def _data_bytes() -> int:
    """What the kernel counts against the limit that `serve` sets; where it does not tell, next to nothing."""
    with contextlib.suppress(OSError), Path("/proc/self/status").open(encoding="ascii") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:")), 0)
    return 0
