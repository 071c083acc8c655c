"""The cache of model files: each named by its sha256, whole or with the bytes received so far beside it."""

import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.errors import NotFoundError, NotReadyError, UploadUnderWayError
from enginebench_agent.names import check_sha256
from enginebench_agent.quota import EVICTED_SUFFIX, Quota
from enginebench_agent.reception import Reception
from enginebench_agent.uninterrupted import run_to_end

PART_SUFFIX = ".part"


@dataclass(frozen=True)
class CachedFile:
    """One file in the cache. `used_at_unix_ns` is when a run last used it or a byte last arrived."""

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
        """Which of the digests are not whole, each once, with the bytes already committed."""
        wanted = dict.fromkeys(check_sha256(sha256) for sha256 in digests)
        return [(sha256, self.committed_bytes(sha256)) for sha256 in wanted if not self.holds(sha256)]

    @contextlib.asynccontextmanager
    async def receiving(self, sha256: str, size_bytes: int, offset_bytes: int) -> AsyncIterator[Reception]:
        """Take in a file, or go on with one; files that no run needs make way for it, least recently used first.

        Raises `UploadUnderWayError` when somebody else is sending it or has sent more of it since this caller asked,
        and `DiskFullError` where it will not fit.
        """
        path = self.path(sha256)
        if sha256 in self._receiving:
            raise UploadUnderWayError(f"another upload of {sha256} is under way; wait for it, then ask again.")
        self._receiving[sha256] = self.committed_bytes(sha256)  # it must not make way for itself
        try:
            evicted = self._make_room(sha256, size_bytes)
            self._receiving[sha256] = size_bytes
            for victim in evicted:
                await run_to_end(victim.unlink)
            with Reception.opened(self._part(sha256), path, sha256, size_bytes, offset_bytes) as reception:
                yield reception
        finally:
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
        """Keep these files from being deleted, and note that they were used."""
        held = list(digests)
        self._pins.update(held)
        try:
            for sha256 in held:
                with contextlib.suppress(FileNotFoundError):  # somebody removed it by hand: the run will say so
                    os.utime(self.path(sha256))
            yield
        finally:
            self._pins.subtract(held)
            self._pins = +self._pins  # those that nobody holds any more are not kept

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
