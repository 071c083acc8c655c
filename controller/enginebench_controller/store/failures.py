"""What went wrong with the results file, as a sentence: which file, why, and what to do."""

import re
from pathlib import Path

from enginebench_controller.errors import StoreError

_DISK_FULL = (
    "the results in {path} could not be written: the disk is full; free some space and try again, with "
    "`enginebench resume --finish` where something was being measured"  # else it would be measured twice
)
_NO_PERMISSION = "no permission to use {path}; make the file and its folder {path.parent} writable for you"
_NO_DUCKDB = (
    "{path} is not a DuckDB file; move it away, put a backup in its place with `enginebench store restore FILE`, "
    "or name another folder in ENGINEBENCH_HOME"
)
_SAID_OF_A_FULL_DISK = ("No space left", "Disk quota exceeded", "File too large")
_SENTENCES = {
    **dict.fromkeys(_SAID_OF_A_FULL_DISK, _DISK_FULL),
    "Permission denied": _NO_PERMISSION,
    "Operation not permitted": _NO_PERMISSION,
    "Read-only file system": "{path} lies on a read-only file system, where results can be looked at and nothing be "
    "stored; name another folder in ENGINEBENCH_HOME",
    "Too many open files": "{path} cannot be opened, as this process may not have more files open; allow it more "
    "(`ulimit -n` shows how many)",
    "Could not read enough bytes": "{path} is cut off: there are {size} bytes left, and what it held does not end "
    "there; put a backup in its place with `enginebench store restore FILE`, which keeps the cut file, or move it away "
    "to begin anew",
    "not a valid DuckDB database file": _NO_DUCKDB,
    "external extensions is disabled": _NO_DUCKDB,  # which would read the file of another database
    "replaying WAL file": "{path}.wal, which holds what was written last, is damaged; put a backup in place with "
    "`enginebench store restore FILE`, which keeps both files, or move {path}.wal away to go on without it",
    "computed checksum": "{path} is damaged on the disk; put a backup in its place with "
    "`enginebench store restore FILE`, which keeps the damaged file",
    "we can only read": "{path} was written by a newer DuckDB; upgrade with `pip install --upgrade duckdb`",
    "Not a directory": "{path.parent} is not a folder; name another one in ENGINEBENCH_HOME",
    "File exists": "{path.parent} is not a folder; name another one in ENGINEBENCH_HOME",
}
"""What DuckDB or the operating system says, and the sentence for the person at the controller."""


def explain(error: Exception, path: Path) -> str:
    """Put an error of DuckDB or of the operating system into one sentence."""
    text = str(error)
    if held_by_another_process(error):
        return _held(text, path)
    for words, sentence in _SENTENCES.items():
        if words in text:
            return sentence.format(path=path, size=_size(path))
    return f"the results in {path} could not be used: {text.splitlines()[0] if text else type(error).__name__}"


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size:,}"
    except OSError:
        return "no"


def held_by_another_process(error: Exception) -> bool:
    """Tell whether DuckDB refused because another program has the file open."""
    return "Conflicting lock" in str(error)


def is_full_disk(error: Exception) -> bool:
    """Tell whether DuckDB or the operating system had no room to write."""
    return any(words in str(error) for words in _SAID_OF_A_FULL_DISK)


def locked_out(path: Path, timeout_s: float) -> str:
    """Say that another enginebench process kept the gate for too long."""
    return (
        f"{path} has been in use by another enginebench process for {timeout_s:g} s; "
        "wait for that process or end it, then try again"
    )


def newer_file(path: Path, theirs: int, ours: int, made_by: str) -> StoreError:
    """Make the error for a file whose schema this version does not know."""
    return StoreError(
        f"{path} was made by a newer enginebench ({made_by}, schema {theirs}; this one knows {ours}); "
        "upgrade enginebench to use it"
    )


def older_file(path: Path, theirs: int, ours: int, made_by: str) -> StoreError:
    """Make the error for a file from before the first schema that was released."""
    return StoreError(
        f"{path} was made by an enginebench from before its first release ({made_by}, schema {theirs}; this one knows "
        f"{ours} and later); move it away to begin anew, or export what it holds with that enginebench"
    )


def _held(text: str, path: Path) -> str:
    holder = re.search(r"held in (?P<program>\S+) \(PID (?P<pid>\d+)\)", text)
    who = f"process {holder['pid']} ({holder['program']})" if holder else "another process"
    return f"{path} is held open by {who}; close that program and try again"
