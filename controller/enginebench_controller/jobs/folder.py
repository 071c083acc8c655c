"""The folder of a job and the files in it, each written at once and read by anybody at any time."""

import errno
import json
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from enginebench_controller.jobs.record import JobEnding, JobProgress
from enginebench_controller.records.fields import JsonForm
from enginebench_proto.agreed.durable import write_whole

_PROC = Path("/proc")
_GONE = ("Z", "X")
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

ROOM_WITHIN_S, LOOK_FOR_ROOM_S = 60.0, 1.0
"""How long a job that has ended waits for room to say so, and how often it looks."""


@dataclass(frozen=True)
class ProcessIdentity:
    """A process by its number, the clock tick since boot at which it started, and the boot that is counted from.

    Without /proc, ticks are 0 and what they are counted from is its start itself, in the words of `ps`; "" where that
    tells nothing: then the number alone says which process it is.
    """

    pid: int
    started_ticks: int
    boot_id: str

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs; one that only waits to be reaped does not."""
        seen = identify(self.pid)
        return seen is not None and (seen == self or "" in {seen.boot_id, self.boot_id})


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this number now; None where none runs."""
    try:
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:  # there is none on macOS
        return _without_proc(pid)
    try:
        status = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # proc_pid_stat(5): the name stands in brackets and may hold anything; field 3 is the state, field 22 the start.
    state, *fields = status.rpartition(")")[2].split()
    return None if state in _GONE else ProcessIdentity(pid, int(fields[18]), boot_id)


def _without_proc(pid: int) -> ProcessIdentity | None:
    state, *started = _asked_of_ps(pid)
    if state:
        return None if state.startswith(_GONE) else ProcessIdentity(pid, 0, " ".join(started))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it is there, and somebody else's
    return ProcessIdentity(pid, 0, "")


def _asked_of_ps(pid: int) -> list[str]:
    """State and start of a process in words; an empty one where it runs not, or there is no `ps` that could tell."""
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    alike = {"LC_ALL": "C", "TZ": "UTC"}  # whoever asks
    with suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(command, env=os.environ | alike, capture_output=True, text=True, timeout=5, check=False)
        return told.stdout.split() or [""]
    return [""]


T = TypeVar("T")


@dataclass(frozen=True)
class JobOrder:
    """What a job was told to do: the command line behind `enginebench`, and what a person calls it.

    `compare_with` is the id of a benchmark to look at beside what comes of it.
    """

    title: str
    arguments: tuple[str, ...]
    created_at_unix_ns: int
    plan: dict[str, Any] | None = None
    compare_with: str | None = None


_ORDER = JsonForm(lambda: TypeAdapter(JobOrder))
_PROCESS = JsonForm(lambda: TypeAdapter(ProcessIdentity))
_PROGRESS = JsonForm(lambda: TypeAdapter(JobProgress))
_ENDING = JsonForm(lambda: TypeAdapter(JobEnding))


@dataclass(frozen=True)
class JobFolder:
    """The files of one job. What is not there, or is no file of ours, reads as None."""

    path: Path

    @property
    def plan_file(self) -> Path:
        """The plan, as `enginebench run` reads it."""
        return self.path / "plan.toml"

    @property
    def log_file(self) -> Path:
        """What the command printed."""
        return self.path / "log.txt"

    @property
    def cancel_file(self) -> Path:
        """There once somebody cancelled the job."""
        return self.path / "cancelled"

    def order(self) -> JobOrder | None:
        """What the job was told to do."""
        return _read(self.path / "order.json", _ORDER)

    def process(self) -> ProcessIdentity | None:
        """Which process carries it out."""
        return _read(self.path / "process.json", _PROCESS)

    def progress(self) -> JobProgress | None:
        """How far it is; None before it begins."""
        return _read(self.path / "progress.json", _PROGRESS)

    def ending(self) -> JobEnding | None:
        """How it ended; None before it has, and for good where the process vanished."""
        return _read(self.path / "ending.json", _ENDING)

    def ordered_at_unix_ns(self) -> int | None:
        """When its order was written, to the tick of the file system; None without one. Reads nothing."""
        return _written_at_unix_ns(self.path / "order.json")

    def ended_before(self, unix_ns: int) -> bool:
        """Whether it said before this moment how it ended, or, of one whose process is gone, anything at all.

        Of one that has said how it ended nothing is read, and of another its process alone.
        """
        told = _written_at_unix_ns(self.path / "ending.json")
        if told is None and (process := self.process()) is not None and not process.is_alive:
            files = (self.path / name for name in ("ending.json", "progress.json", "process.json"))
            told = max(filter(None, map(_written_at_unix_ns, files)), default=None)
        return told is not None and told < unix_ns

    def write_order(self, order: JobOrder) -> None:
        """Keep what the job is to do."""
        _write(self.path / "order.json", _ORDER, order)

    def write_process(self, process: ProcessIdentity) -> None:
        """Keep which process carries it out."""
        _write(self.path / "process.json", _PROCESS, process)

    def write_progress(self, progress: JobProgress) -> None:
        """Keep how far it is, where that can be written: what a job does must not end with what it says of it."""
        with suppress(OSError):
            _write(self.path / "progress.json", _PROGRESS, progress)

    def write_ending(self, ending: JobEnding) -> None:
        """Keep how it ended, where that can be written; a disk that is full may have room again in a moment.

        A job without it is lost for good.
        """
        until_s = time.monotonic() + ROOM_WITHIN_S
        with suppress(OSError):
            while not self._has_written(ending) and time.monotonic() < until_s:
                time.sleep(LOOK_FOR_ROOM_S)

    def _has_written(self, ending: JobEnding) -> bool:
        try:
            _write(self.path / "ending.json", _ENDING, ending)
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            return False
        return True


def _written_at_unix_ns(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


def _read(file: Path, form: JsonForm[T]) -> T | None:
    try:
        return form.from_data(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return None


def _write(file: Path, form: JsonForm[T], record: T) -> None:
    """Put the file in place in one step, so that no reader sees half of it."""
    write_whole(file, json.dumps(form.to_data(record)).encode(), durable=False)
