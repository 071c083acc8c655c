"""Room for what is uploaded: the cache's share of the disk, and which files make way when it is used up."""

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from enginebench_agent.errors import DiskFullError
from enginebench_agent.sizes import shown_size

DEFAULT_SHARE = 0.5
"""Of the disk's size, where the owner names no bound."""

EVICTED_SUFFIX = ".evicted"


class Quota:
    """The bound of one folder of files. `max_bytes` None is `DEFAULT_SHARE` of the disk."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        for leftover in folder.glob(f"*{EVICTED_SUFFIX}"):  # of an agent that was killed
            leftover.unlink()

    def make_room(self, wanted_bytes: int, promised_bytes: int, is_needed: Callable[[Path], bool]) -> list[Path]:
        """Set files aside, the least recently used first, until `wanted_bytes` more fit; returns what to unlink.

        `promised_bytes` is what uploads under way will still bring; `is_needed` tells which files must stay. Raises
        `DiskFullError`, and sets nothing aside, where even all the others would not be enough.
        """
        files = self._files()
        free_bytes = self._free_bytes(files) - promised_bytes
        victims = []
        for path, status in sorted(files.items(), key=lambda file: file[1].st_mtime_ns):
            if free_bytes < wanted_bytes and not is_needed(path):
                free_bytes += status.st_size
                victims.append(path)
        if free_bytes < wanted_bytes:
            raise DiskFullError(_sentence(wanted_bytes, free_bytes, self._folder))
        # Renamed here, at once, so that no run can begin to need them; unlinking large files takes its time.
        return [path.rename(path.with_name(path.name + EVICTED_SUFFIX)) for path in victims]

    def _free_bytes(self, files: Mapping[Path, os.stat_result]) -> int:
        """What may still be received: within the bound, and on the disk. Below zero where the bound was lowered."""
        disk = shutil.disk_usage(self._folder)
        max_bytes = int(DEFAULT_SHARE * disk.total) if self._max_bytes is None else self._max_bytes
        return min(max_bytes - sum(status.st_size for status in files.values()), disk.free)

    def _files(self) -> dict[Path, os.stat_result]:
        found = {}
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # an upload was finished meanwhile, in a thread
                if path.suffix != EVICTED_SUFFIX:
                    found[path] = path.stat()
        return found


def _sentence(wanted_bytes: int, free_bytes: int, folder: Path) -> str:
    free = f"{shown_size(free_bytes)} are" if free_bytes > 0 else "none is"
    return (
        f"the upload needs {shown_size(wanted_bytes)}, but {free} free for model files on this agent, those that no "
        f"run needs left out: raise max_cache_bytes in its agent.toml, or make room on the disk of {folder}."
    )
