"""The cache of uploaded files: each named by its sha256, whole or in part, within its share of the disk."""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.errors import DiskFullError, NotFoundError, NotReadyError, TooLargeError, UploadUnderWayError
from enginebench_agent.files.reception import Reception
from enginebench_agent.names import check_sha256
from enginebench_agent.sizes import shown_size
from enginebench_agent.uninterrupted import run_to_end

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

    def check_fits(self, size_bytes: int) -> None:
        """Raises `TooLargeError` for a file for which no other file could ever make room."""
        disk_bytes = shutil.disk_usage(self._folder).total
        if size_bytes > disk_bytes:
            raise TooLargeError(
                f"the upload needs {shown_size(size_bytes)}, more than the whole disk of {self._folder} has "
                f"({shown_size(disk_bytes)}): start the agent with a --data-dir on a larger one."
            )
        if size_bytes > (max_bytes := self._bound(disk_bytes)):
            raise TooLargeError(
                f"the upload needs {shown_size(size_bytes)}, more than all model files may take on this agent "
                f"({shown_size(max_bytes)}): raise max_cache_bytes in its agent.toml."
            )

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
        return min(self._bound(disk.total) - sum(status.st_size for status in files.values()), disk.free)

    def _bound(self, disk_bytes: int) -> int:
        return int(DEFAULT_SHARE * disk_bytes) if self._max_bytes is None else self._max_bytes

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


PART_SUFFIX = ".part"


@dataclass(frozen=True)
class CachedFile:
    """One file in the cache. `used_at_unix_ns` is when a run used it, a caller asked for it or a byte arrived last."""

    sha256: str
    size_bytes: int
    complete: bool
    used_at_unix_ns: int


class FileCache:
    """Files by digest in one folder. Only digests become file names; every method refuses anything else.

    `max_bytes` bounds them all together; see `quota`.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self._folder = folder
        self._quota = Quota(folder, max_bytes)
        self._receiving: dict[str, int] = {}
        self._receptions: dict[str, Reception] = {}
        self._pins: Counter[str] = Counter()

    def holds(self, sha256: str) -> bool:
        """Whether the file is whole and verified."""
        return self.path(sha256).exists()

    def path(self, sha256: str) -> Path:
        """Where the whole file lies, or would lie."""
        return self._folder / check_sha256(sha256)

    def committed_bytes(self, sha256: str) -> int:
        """How much of an unfinished file is on disk; 0 for none."""
        try:
            return self._part(sha256).stat().st_size
        except FileNotFoundError:
            return 0

    def missing(self, digests: Iterable[str]) -> list[tuple[str, int]]:
        """Which of the digests are not whole, each once, with the bytes already committed.

        The others count as used now: what the caller uploads next is not to drive out what it was told is here.
        """
        wanted = dict.fromkeys(check_sha256(sha256) for sha256 in digests)
        missing = [(sha256, self.committed_bytes(sha256)) for sha256 in wanted if not self.holds(sha256)]
        self._note_use(wanted.keys() - dict(missing).keys())
        return missing

    def received_bytes(self, sha256: str) -> int | None:
        """How much has arrived of an upload that is under way; None where there is none."""
        return self._receptions[sha256].received_bytes if sha256 in self._receptions else None

    @contextlib.asynccontextmanager
    async def receiving(self, sha256: str, size_bytes: int, offset_bytes: int) -> AsyncIterator[Reception]:
        """Take in a file, or go on with one; files that no run needs make way for it, least recently used first.

        Raises `UploadUnderWayError` when somebody else is sending it or has sent more of it since this caller asked,
        `DiskFullError` where it does not fit now, and `TooLargeError` where it never will.
        """
        path = self.path(sha256)
        self._quota.check_fits(size_bytes)
        if sha256 in self._receiving:
            raise UploadUnderWayError(f"another upload of {sha256} is under way; wait for it, then ask again.")
        self._receiving[sha256] = self.committed_bytes(sha256)  # it must not make way for itself
        try:
            evicted = self._make_room(sha256, size_bytes)
            self._receiving[sha256] = size_bytes
            for victim in evicted:
                await run_to_end(victim.unlink)
            with Reception.opened(self._part(sha256), path, sha256, size_bytes, offset_bytes) as reception:
                self._receptions[sha256] = reception
                yield reception
        finally:
            self._receptions.pop(sha256, None)
            del self._receiving[sha256]

    def files(self) -> list[CachedFile]:
        """Everything in the cache, by digest."""
        found = []
        for path in sorted(self._folder.iterdir()):
            with contextlib.suppress(FileNotFoundError):  # an upload was finished meanwhile, in a thread
                if path.suffix != EVICTED_SUFFIX:
                    found.append(_described(path))
        return found

    def delete(self, sha256: str) -> None:
        """Remove a file, whole or not. Raises `NotFoundError`, or `NotReadyError` while it is in use."""
        if self._pins[check_sha256(sha256)] or sha256 in self._receiving:
            raise NotReadyError(f"the file {sha256} is in use by a run or an upload; try again afterwards.")
        found = [path for path in (self.path(sha256), self._part(sha256)) if path.exists()]
        if not found:
            raise NotFoundError(f"the cache holds no file {sha256}.")
        for path in found:
            path.unlink()

    @contextlib.contextmanager
    def pinned(self, digests: Iterable[str]) -> Iterator[None]:
        """Keep these files from being deleted, and note that they were used, where that can be noted."""
        held = list(digests)
        self._pins.update(held)
        try:
            self._note_use(held)
            yield
        finally:
            self._pins.subtract(held)
            self._pins = +self._pins  # those that nobody holds any more are not kept

    def _note_use(self, digests: Iterable[str]) -> None:
        for sha256 in digests:
            with contextlib.suppress(OSError):  # another account's; or removed by hand: the run will say so
                os.utime(self.path(sha256))

    def _make_room(self, sha256: str, size_bytes: int) -> list[Path]:
        promised_bytes = sum(
            announced_bytes - self.committed_bytes(other) for other, announced_bytes in self._receiving.items()
        )
        return self._quota.make_room(size_bytes - self.committed_bytes(sha256), promised_bytes, self._is_needed)

    def _is_needed(self, path: Path) -> bool:
        sha256 = path.name.removesuffix(PART_SUFFIX)
        return self._pins[sha256] > 0 or sha256 in self._receiving

    def _part(self, sha256: str) -> Path:
        return self._folder / (check_sha256(sha256) + PART_SUFFIX)


def _described(path: Path) -> CachedFile:
    status = path.stat()
    return CachedFile(
        sha256=path.name.removesuffix(PART_SUFFIX),
        size_bytes=status.st_size,
        complete=path.suffix != PART_SUFFIX,
        used_at_unix_ns=status.st_mtime_ns,
    )
