"""Joining the small files of a lake, sorted by what readers look for, and clearing away those that nobody needs."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.store.lake.place import Lake, check_whole, explained, found, library, no_lake, told_parts
from enginebench_controller.store.lake.tables import KINDS, MONTH, TABLES, LakeTable

GRACE_HOURS = 168
"""What is not needed any more stays for so long: whoever reads or writes meanwhile may still be at it."""

SAFE_HOURS = 1
"""A reader opens a lake anew after ten minutes, and a writer commits what it wrote within a few."""

_FILE_BYTES = 128 * 2**20
_ROW_GROUP = 131_072
_SORTING_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Compacted:
    """What came of it: so many files were joined into so many."""

    joined: int
    into: int


def compact(lake: Lake, grace_hours: int = GRACE_HOURS, *, nobody_else: bool = False) -> Compacted:
    """Join files of each month where there are several small ones, then clear away what was replaced before the grace.

    Readers and writers go on meanwhile. Raises `InputError` for a grace below `SAFE_HOURS`, unless `nobody_else` uses
    the lake.
    """
    if grace_hours < SAFE_HOURS and not nobody_else:
        raise InputError(
            f"--grace {grace_hours} takes files from those who read or write now; at least {SAFE_HOURS} hour is safe, "
            "and --nobody-else says that nobody does"
        )
    there = found(lake)
    if not there:
        raise no_lake(lake)
    joined = into = 0
    with explained(lake):
        check_whole(lake, there)
        for table in TABLES:
            if table.name not in there:
                continue
            told = next((told_parts(kind, there) for kind in KINDS if kind.head == table), {})
            for month in _months_to_join(there[table.name]):
                metrics = _join(there[table.name], table, month, told)
                joined, into = joined + metrics["numFilesRemoved"], into + metrics["numFilesAdded"]
            there[table.name].create_checkpoint()
            # All files that no commit names: those of writers that were killed, too.
            there[table.name].vacuum(grace_hours, dry_run=False, enforce_retention_duration=False, full=True)
    return Compacted(joined, into)


def _months_to_join(opened: Any) -> list[str]:
    """Those with more than one small file."""
    files = opened.get_add_actions(flatten=True)
    found = zip(files.column("size_bytes").to_pylist(), files.column(f"partition.{MONTH}").to_pylist(), strict=True)
    small = Counter(month for size_bytes, month in found if size_bytes < _FILE_BYTES / 2)
    return sorted(month for month, files in small.items() if files > 1)


def _join(opened: Any, table: LakeTable, month: str, told: dict[str, str]) -> dict[str, Any]:
    deltalake = library()
    metrics: dict[str, Any] = opened.optimize.z_order(
        [table.sorted_by],
        partition_filters=[(MONTH, "=", month)],
        target_size=_FILE_BYTES,
        max_spill_size=_SORTING_BYTES,
        writer_properties=deltalake.WriterProperties(compression="ZSTD", max_row_group_size=_ROW_GROUP),
        commit_properties=deltalake.CommitProperties(custom_metadata=told),
    )
    return metrics
