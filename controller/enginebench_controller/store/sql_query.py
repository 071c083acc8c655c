"""A person's SQL over the results: asked in a process of its own, which can read these tables and do nothing else.

A process, because DuckDB's own limits do not hold: `SELECT list_sum(range(1000000000))` took 20 GB and 146 seconds in
spite of a memory limit and an interruption. A process can be refused memory, and killed; see sql_process.py.

Such a process takes 0.2 seconds of processor time until it can read the first word of SQL, and over a lake 0.7. A page
has to answer at once, so it keeps the next ones waiting, over a lake with all of its tables shown already.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.store.connection import USUAL_MEMORY_BYTES, StoreFile


class Processes:
    """Starts a process for each query. So many `spares` wait for the next ones, and end when this program does."""

    def __init__(self, *, spares: int) -> None:
        self._spares = spares
        self._waiting: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()

    def take(self) -> subprocess.Popen[str]:
        """The one that has waited longest, else a new one. It is the caller's from here on."""
        with self._lock:
            self._waiting = _living(self._waiting)
            return self._waiting.pop(0) if self._waiting else _start()

    def prepare(self, reads: Sequence[str]) -> None:
        """Have some wait, where some are to, with the lakes that will be read shown already."""
        with self._lock:
            self._waiting = _living(self._waiting)
            while len(self._waiting) < self._spares:
                self._waiting.append(_start(reads))


ON_DEMAND = Processes(spares=0)
READY = Processes(spares=2)
"""For programs that live long. Over a lake a process is not ready for a second, in which one may ask again."""


def _living(processes: Iterable[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    return [one for one in processes if one.poll() is None]


# What reads lakes would reserve a gigabyte of the memory that a query may have, and a stack for each core.
_SPARING = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "2",
    "OMP_NUM_THREADS": "2",
    "TOKIO_WORKER_THREADS": "2",
}


def _start(reads: Sequence[str] = ()) -> subprocess.Popen[str]:
    # -P: what lies in the current folder is no module of ours.
    command = [sys.executable, "-P", "-m", "enginebench_controller.store.sql_process", *reads]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, encoding="utf-8", env=os.environ | _SPARING
    )


_SLACK_S = 20.0
"""For a process to start and end on a busy machine, before it counts as lost."""


@dataclass(frozen=True)
class QueryLimits:
    """What a query may take. Others wait for the file meanwhile, so `seconds` is short.

    `rows` are handed over at the most, `cell_characters` of a text, `answer_bytes` of all together; `memory_bytes` is
    what the process may occupy.
    """

    seconds: float = 5.0
    rows: int = 10_000
    cell_characters: int = 20_000
    answer_bytes: int = 32_000_000
    memory_bytes: int = USUAL_MEMORY_BYTES


@dataclass(frozen=True)
class QueryColumn:
    """A column of an answer; `type` is DuckDB's. Several may have the same name."""

    name: str
    type: str


@dataclass(frozen=True)
class QueryResult:
    """An answer. Values are as JSON has them: dates as text, bytes as base64, what is no finite number as None.

    `more_rows`: there are more than these, which a limit cut off. `cut_cells` is the number of texts that were
    shortened.
    """

    columns: tuple[QueryColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    more_rows: bool = False
    cut_cells: int = 0
    duration_s: float = 0.0

    @property
    def remarks(self) -> tuple[str, ...]:
        """One sentence for each way in which this is not the whole answer."""
        only_first = (
            f"only the first {len(self.rows):,} rows are here, and there are more: use LIMIT, or count and group"
        )
        texts = "1 long text was" if self.cut_cells == 1 else f"{self.cut_cells:,} long texts were"
        shortened = f"{texts} shortened, which shows as … at the end"
        return (*([only_first] if self.more_rows else []), *([shortened] if self.cut_cells else []))


class SqlStore(StoreFile):
    """What anybody may ask in SQL."""

    def query(self, sql: str, limits: QueryLimits | None = None, processes: Processes = ON_DEMAND) -> QueryResult:
        """Answer a person's SQL, reading only. Raises `InputError` for what is no query, fails or takes too much."""
        if not sql.strip():
            raise InputError("there is no SQL to run; SELECT * FROM benchmarks, for example")
        limits = limits or QueryLimits()
        place = {"path": str(self.path), "reads": self.reads, "lock_timeout_s": self._timeout_s}
        asked = place | {"sql": sql, "limits": asdict(limits)}
        process = processes.take()
        try:
            lines = _answer(process, json.dumps(asked), limits, self._timeout_s).splitlines()
        finally:
            processes.prepare(self.reads)
        if not lines:
            raise StoreError("the process that runs queries ended without an answer; try again")
        last = json.loads(lines[-1])
        if "store_error" in last:
            raise StoreError(last["store_error"])
        if "error" in last:
            raise InputError(last["error"])
        return _result(json.loads(lines[0]), lines[1:-1], last)


def _answer(process: subprocess.Popen[str], request: str, limits: QueryLimits, lock_timeout_s: float) -> str:
    """What the process prints. It ends itself in time; the time-out here is for one that never came to that."""
    with process:
        try:
            printed, _ = process.communicate(request, lock_timeout_s + limits.seconds + _SLACK_S)
        except subprocess.TimeoutExpired:
            raise _too_long(limits) from None
        finally:
            process.kill()
    if process.returncode == -signal.SIGALRM:
        raise _too_long(limits)
    if process.returncode:
        raise InputError(f"the query broke the process it ran in ({_ending(process.returncode)}); try a simpler one")
    return printed


def _too_long(limits: QueryLimits) -> InputError:
    return InputError(
        f"the query was stopped after {limits.seconds:g} s, because others wait for the results meanwhile; "
        "narrow it, for example with WHERE measurement_id = '…'"
    )


def _ending(returncode: int) -> str:
    return signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"


def _result(head: dict[str, Any], rows: Sequence[str], last: dict[str, Any]) -> QueryResult:
    return QueryResult(
        columns=tuple(QueryColumn(*column) for column in head["columns"]),
        rows=tuple(tuple(json.loads(row)) for row in rows),
        more_rows=last["more_rows"],
        cut_cells=last["cut_cells"],
        duration_s=last["duration_s"],
    )
