"""Opening the results file for exactly one transaction, under a file lock that all enginebench processes share.

Three traps shape this module, each measured with DuckDB 2.0. A process that holds the file open for writing shuts out
every other process, readers included, and open-and-retry starves someone; hence the gate. A process that forks with an
open database, or that opens and closes the file as bytes while it is open, loses committed rows without a word; hence
it is never held, and nobody else touches it. What is kept from one use to the next is a DuckDB without any file.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import EACCES, ENOTDIR, EPERM, EROFS
from functools import cache
from pathlib import Path
from typing import TypeVar

import duckdb
from filelock import FileLock, Timeout

from enginebench_controller.errors import StoreBusyError, StoreError
from enginebench_controller.store import schema
from enginebench_controller.store.failures import (
    explain,
    held_by_another_process,
    is_full_disk,
    locked_out,
)
from enginebench_controller.typed_paths import leads_nowhere
from enginebench_controller.typed_values import unknown_word
from enginebench_proto.agreed.durable import copy_whole, make_private_folder, sync_folder

STORAGE_VERSION = "v1.2.0"
"""The file format: readable by every DuckDB from 1.2 on, so that people can query their results with other tools."""

_CONFIG = {
    "storage_compatibility_version": STORAGE_VERSION,
    # What the store holds came from other machines; a query must not reach files or the network, whatever it says.
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_READING = _CONFIG | {"lock_configuration": "true"}
# Each thread that writes, and each group of rows that waits for it, costs some 5 MB of memory as samples stream in.
# Smaller blocks than DuckDB's 256 KiB, for some 250 columns of which a transaction fills little: 14 MB instead of 20
# in a transaction of 64 results. And smaller groups of rows than 122,880, because DuckDB joins what many transactions
# left, a whole group in memory at once: 19 MB at most instead of 49 after 6,000 results. Reading is as fast as before.
_WRITING = _CONFIG | {"write_buffer_row_group_count": "1", "default_block_size": "65536"}
_ROWS_A_GROUP = 24_576
_ATTACHED = "results"
_RETRY_S = 0.1
_DRAFT = ".first.coming"
"""What the first file has behind its name until it is whole, as backups.py names what it clears away."""

_ENDINGS = ("", ".wal", ".wal.checkpoint", ".wal.recovery")

_Config = Mapping[str, str]
T = TypeVar("T")

_idle: dict[tuple[object, ...], duckdb.DuckDBPyConnection] = {}
"""DuckDBs that have no file open, by the process and the file: to make one takes ten times as long as to use it."""

_MOST_IDLE = 2
_MOST_GROWTH_BYTES = 48_000_000
"""What a use may leave behind in memory: a DuckDB that is kept gives nothing of it back."""
_CANNOT_WRITE = {EROFS, EACCES, EPERM}

_log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 30.0

USUAL_MEMORY_BYTES = 1_500_000_000
"""What the process of a query may occupy, unless its request says something else."""


class StoreFile:
    """The DuckDB file at `path`, of which each subject is a subclass: its methods are its queries.

    Making one touches nothing, and nothing stays open between calls, so any number of processes and threads may use
    one path. Every method raises `StoreError` when the file cannot be used, and of these `StoreBusyError` after waiting
    `timeout_s` for others.
    """

    reads: tuple[str, ...] = ()
    """What is read in place of the file, where that is something else; see lake/reading.py."""

    def __init__(self, path: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.path = path
        self._timeout_s = timeout_s

    def generation(self) -> str:
        """Return a value that differs after every write: what was read under an equal one still holds.

        Costs two file look-ups and no lock. It never opens the file, which would undo DuckDB's own lock.
        """
        return "/".join(_stamp(file) for file in (self.path, self.path.with_name(self.path.name + ".wal")))

    def _reading(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        return reading(self.path, self._timeout_s)

    def _writing(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        return transaction(self.path, self._timeout_s)


def _stamp(file: Path) -> str:
    try:
        facts = file.stat()
    except OSError:
        return "absent"
    return f"{facts.st_ino}.{facts.st_size}.{facts.st_mtime_ns}"


@contextmanager
def transaction(path: Path, timeout_s: float) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the file for writing, made and brought up to date first; commit at the end, roll back on any error.

    Raises `StoreError` when that is impossible, among other reasons because others keep the file for longer than
    `timeout_s`.
    """
    with _explained(path), _gate(path, timeout_s), _up_to_date(path, timeout_s) as connection:
        with schema.atomic(connection):
            yield connection
        # Into the file itself, where every block has a checksum: of a log that is damaged in some places DuckDB drops
        # the rest without a word. So the log has the only copy of what a caller was told to be stored only as long as
        # there is no room for another.
        try:
            connection.execute("CHECKPOINT")
        except duckdb.Error as error:
            if not is_full_disk(error):
                raise
            _tell_kept_in_log(path)


@contextmanager
def reading(
    path: Path, timeout_s: float, confined: Mapping[str, str] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the file for reading, brought up to date first. A file that is not there reads as an empty one.

    `confined` adds to DuckDB's configuration, which is locked then. Raises `StoreError` like `transaction`.
    """
    config = _READING | dict(confined or {})
    with _explained(path), _existing(path, timeout_s, config) if is_there(path) else in_memory(config) as connection:
        try:
            yield connection
        except ValueError as error:
            raise unknown_word(error, str(path)) from error


@contextmanager
def as_it_is(path: Path, timeout_s: float, called: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the file for reading without bringing it up to date; `called` is the name that errors give it.

    Raises `StoreError` like `transaction`, and for a file that a newer enginebench made.
    """
    name = called or path
    with (
        _explained(name),
        _gate(path, timeout_s, reading=True),
        _open(path, timeout_s, _READING, read_only=True) as connection,
    ):
        schema.pending(connection, name)
        yield connection


@contextmanager
def at_rest(path: Path, timeout_s: float, *, may_be_damaged: bool = False) -> Iterator[None]:
    """Hold the gate while nobody has the file open and its write-ahead log is folded in, so that bytes may be copied.

    Raises `StoreError` when that is impossible; a file that `may_be_damaged` only has to be nobody else's.
    """
    with _explained(path), _gate(path, timeout_s, reading=True) as is_held:
        log = path.with_name(path.name + ".wal")
        if not is_held and log.exists():
            raise StoreError(f"{log} holds what was written last, and cannot be folded in where nothing can be written")
        if path.exists() and is_held:
            try:
                with _open(path, timeout_s, _WRITING) as connection:
                    connection.execute("CHECKPOINT")  # to close it folds the log in too, but does not tell if it fails
            except duckdb.Error as error:
                if held_by_another_process(error) or not may_be_damaged:
                    raise
        yield


@contextmanager
def _existing(path: Path, timeout_s: float, config: _Config) -> Iterator[duckdb.DuckDBPyConnection]:
    with _gate(path, timeout_s, reading=True), _open_up_to_date(path, timeout_s, config) as connection:
        yield connection


@contextmanager
def _open_up_to_date(path: Path, timeout_s: float, config: _Config) -> Iterator[duckdb.DuckDBPyConnection]:
    with _open(path, timeout_s, config, read_only=True) as connection:
        if not schema.pending(connection, path):
            yield connection
            return
    # One process cannot hold a file for reading and for writing, so the first connection is closed by now.
    try:
        with _up_to_date(path, timeout_s):
            pass
    except (duckdb.Error, OSError) as error:
        if "Read-only file system" not in str(error):
            raise
        raise StoreError(
            f"{path} was made by an older enginebench and lies on a read-only file system, where its tables cannot be "
            "brought up to date: copy its folder to where it can be written, and name that in ENGINEBENCH_HOME"
        ) from None
    with _open(path, timeout_s, config, read_only=True) as connection:
        yield connection


@contextmanager
def _up_to_date(path: Path, timeout_s: float) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open for writing, a file that has been through all steps of the schema; an older one is copied first."""
    if not path.exists():
        _make(path, timeout_s)
    with _open(path, timeout_s, _WRITING) as connection:
        needed = schema.pending(connection, path)
        before = schema.schema_version(connection) if needed else 0
        if not before:
            schema.migrate(connection, path)
            yield connection
            return
        connection.execute("CHECKPOINT")  # what is copied has no log
    # It is closed by now: a file that is open must not be opened as bytes.
    copy_whole(path, path.with_name(f"{path.stem}-of-schema-{before}{path.suffix}"))
    with _open(path, timeout_s, _WRITING) as connection:
        schema.migrate(connection, path)
        yield connection


def _make(path: Path, timeout_s: float) -> None:
    """Make a file with all tables, which gets its name once it is whole: the disk may be full, or the process killed.

    The gate is held, so the draft is nobody else's. Where another program makes a file of that name first, that stays.
    """
    names = [path.with_name(f"{path.name}{_DRAFT}{ending}") for ending in _ENDINGS]
    try:
        for name in names:
            name.unlink(missing_ok=True)
        with _open(path, timeout_s, _WRITING, ending=_DRAFT) as connection:
            schema.migrate(connection, path)
            connection.execute("CHECKPOINT")
        log = path.with_name(path.name + ".wal")
        if log.exists() and not path.exists():  # of a file that was moved away, and DuckDB might read it with this one
            log.rename(path.with_name(f"{path.stem}-before-{time.time_ns()}{path.suffix}.wal"))
        try:
            path.hardlink_to(names[0])
        except FileExistsError:
            return
        except OSError:  # not every file system has links
            names[0].replace(path)
        sync_folder(path.parent)
    finally:
        for name in names:
            with suppress(OSError):
                name.unlink()


@contextmanager
def in_memory(confined: Mapping[str, str] | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open what has all tables and no rows. `confined` as in `reading`."""
    with duckdb.connect(":memory:", config=_READING | dict(confined or {})) as connection:
        schema.migrate(connection, Path(":memory:"))
        yield connection


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, OSError) as error:
        kind = StoreBusyError if held_by_another_process(error) else StoreError
        raise kind(explain(error, path)) from error


def is_there(path: Path) -> bool:
    """Whether there are results. Raises `StoreError` or `OSError` where a link or something else hides them."""
    if path.exists():
        return True
    if lost := leads_nowhere(path):
        raise StoreError(f"the results in {path} cannot be read: {lost}")
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path.parent))
    return False


@contextmanager
def _gate(path: Path, timeout_s: float, *, reading: bool = False) -> Iterator[bool]:
    """Hold the lock file beside the results. A new lock object each time, so that threads exclude each other too.

    Where that file cannot be written, whoever is only `reading` goes on without, and gets False: DuckDB has a lock of
    its own, which keeps a writer away who comes by another way.
    """
    if lost := leads_nowhere(path):
        raise StoreError(f"{path} cannot be used: {lost}")
    make_private_folder(path.parent)
    lock = FileLock(path.with_name(path.name + ".lock"), timeout=timeout_s, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise StoreBusyError(locked_out(path, timeout_s)) from None
    except OSError as error:
        if not reading or error.errno not in _CANNOT_WRITE:
            raise
        _tell_read_only(path.parent)
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@cache
def _tell_read_only(folder: Path) -> None:
    _log.warning("%s cannot be written: its results are only read, and nothing can be stored there", folder)


@cache
def _tell_kept_in_log(path: Path) -> None:
    _log.warning(
        "the disk is full: what is stored in %s now is kept in %s.wal, and comes into the file once there is room; "
        "free some space, and leave the two together",
        path,
        path.name,
    )


@contextmanager
def _open(
    path: Path, timeout_s: float, config: _Config, *, read_only: bool = False, ending: str = ""
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Have the file open, waiting for programs that know nothing of the gate, such as the DuckDB shell.

    With an `ending` it is the file of that longer name, in a DuckDB of both.
    """
    if config not in (_READING, _WRITING):  # of a stranger's question, for which a DuckDB is made that ends with it
        own = _patiently(lambda: duckdb.connect(path, read_only=read_only, config=dict(config)), timeout_s)
        with own as connection:
            yield connection
        return
    file = Path(os.path.realpath(path))  # DuckDB looks for its log beside what a link leads to
    key = os.getpid(), file
    instance, before_bytes = _idle.pop(key, None) or _instance(file), _resident_bytes()
    try:
        with instance.cursor() as connection:
            connection.execute("RESET threads" if read_only else "SET threads = 1")
            _patiently(lambda: _attach(connection, f"{file}{ending}", read_only=read_only), timeout_s)
            yield connection
            is_clean = _let_go(connection)
    except BaseException:
        instance.close()  # whatever state it is in, and the file with it
        raise
    if not is_clean or _resident_bytes() - before_bytes > _MOST_GROWTH_BYTES:
        instance.close()
        return
    _idle[key] = instance
    while len(_idle) > _MOST_IDLE:
        with suppress(KeyError, StopIteration):  # another thread was first
            _idle.pop(next(iter(_idle))).close()


def _close_idle() -> None:
    with suppress(KeyError):  # another thread was first
        while _idle:
            _idle.popitem()[1].close()


os.register_at_fork(before=_close_idle)  # a child would wait, as it ends, for threads that only its parent has


def _let_go(connection: duckdb.DuckDBPyConnection) -> bool:
    """Close the file, of which all is committed; whether that went well."""
    try:
        connection.execute("USE memory.main")  # a file may have a schema of that name, too
        connection.execute(f"DETACH {_ATTACHED}")
    except duckdb.Error:
        return False
    return True


def _resident_bytes() -> int:
    """What this process occupies; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _patiently(opening: Callable[[], T], timeout_s: float) -> T:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return opening()
        except duckdb.IOException as error:
            if not held_by_another_process(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)


def _instance(path: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB that may open this file, and what it writes beside it, and no other."""
    # Beside the file, as where it is opened by itself: else it is the folder that the command happens to be called in.
    own = {"enable_external_access": "true", "temp_directory": f"{path}.tmp"}
    instance = duckdb.connect(":memory:", config={**_WRITING, **own})
    try:
        names = ", ".join(_quoted(f"{path}{draft}{ending}") for draft in ("", _DRAFT) for ending in _ENDINGS)
        instance.execute(f"SET allowed_paths = [{names}]")
        instance.execute("SET enable_external_access = false")
    except BaseException:
        instance.close()
        raise
    return instance


def _attach(connection: duckdb.DuckDBPyConnection, path: str, *, read_only: bool) -> None:
    """Only what is attached can have groups of rows of another size."""
    how = "READ_ONLY" if read_only else f"ROW_GROUP_SIZE {_ROWS_A_GROUP}"
    connection.execute(f"ATTACH {_quoted(path)} AS {_ATTACHED} (TYPE duckdb, {how})")
    connection.execute(f"USE {_ATTACHED}")


def _quoted(path: str) -> str:
    name = path.replace("'", "''")
    return f"'{name}'"
