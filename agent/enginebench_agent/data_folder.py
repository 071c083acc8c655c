"""The folder an agent keeps everything in, and the lock that gives it to one agent at a time."""

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from enginebench_agent.errors import SetupError
from enginebench_proto.agreed.home import home_folder

LEAVING_SECONDS = 10.0
"""How long an agent may take to leave once the command that started it is gone."""
LOCK_POLL_SECONDS = 0.1
_WITH_STDIN = "with-stdin"
"""Behind the process in the lock file: it leaves when its standard input ends."""


@dataclass(frozen=True)
class DataFolder:
    """Where things lie below the data folder."""

    root: Path

    @property
    def config_file(self) -> Path:
        """The settings a person writes."""
        return self.root / "agent.toml"

    @property
    def environments(self) -> Path:
        """One folder an environment made by `environment add`."""
        return self.root / "environments"

    @property
    def files(self) -> Path:
        """The cache of model files, named by their digests."""
        return self.root / "files"

    @property
    def spool(self) -> Path:
        """Results nobody has acknowledged yet."""
        return self.root / "spool"

    @property
    def runs(self) -> Path:
        """One private folder for each run that is going on."""
        return self.root / "runs"

    @property
    def caches(self) -> Path:
        """What engines and drivers keep from run to run, where they do not see their user's home."""
        return self.root / "caches"

    @property
    def peaks_file(self) -> Path:
        """What calibrations found."""
        return self.root / "peaks.json"

    @property
    def reservation_file(self) -> Path:
        """For whom alone runs begin, and for how long still."""
        return self.root / "reservation.json"

    @property
    def tls(self) -> Path:
        """The certificate, key, authority and revocations with which it is reached over the network."""
        return self.root / "tls"

    @property
    def audit_log(self) -> Path:
        """Who changed what, and who was refused."""
        return self.root / "audit.log"

    def prepare(self) -> None:
        """Make the folders. Raises `SetupError` where that is not possible or nothing can be written."""
        try:
            for folder in (self.root, self.environments, self.files, self.spool, self.runs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise SetupError(
                f"cannot write to the data folder {self.root} ({error.strerror}): "
                "choose another with --data-dir, or make it writable"
            ) from error

    def refuse_memory(self) -> None:
        """Raise `SetupError` for a folder in memory: results that nobody collected would not survive a restart."""
        if (kind := _file_system(self.root)) in ("tmpfs", "ramfs"):
            raise SetupError(
                f"the data folder {self.root} is in memory ({kind}): results that nobody has collected yet would be "
                "lost when the machine restarts; choose one on a disk with --data-dir, or say --in-memory"
            )

    @contextlib.contextmanager
    def locked(self, *, with_stdin: bool = False) -> Iterator[None]:
        """Keep every other agent out of this folder. Raises `SetupError` when one is already there.

        One that leaves `with_stdin`, and so with the command that started it, waits a little for another such: commands
        take turns, so the other one's was killed. The kernel drops the lock when the process ends, however it ends.
        """
        path = self.root / "agent.lock"
        with _opened(path) as stream:
            is_leaving = with_stdin and _WITH_STDIN in path.read_text().split()
            if not take_lock(stream, LEAVING_SECONDS if is_leaving else 0):
                raise SetupError(
                    f"another agent{_owner(path)} uses the data folder {self.root}: "
                    "measure with it (`enginebench run --target HOST:PORT`), stop it, or choose another with --data-dir"
                )
            stream.truncate(0)
            stream.write(f"{os.getpid()} {_WITH_STDIN}" if with_stdin else str(os.getpid()))
            stream.flush()
            yield


def take_lock(stream: TextIO, within_s: float) -> bool:
    """Lock a file until it is closed, waiting so long for whoever has it; returns whether that could be."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOCK_POLL_SECONDS)
        else:
            return True


def _opened(lock_file: Path) -> TextIO:
    try:
        return lock_file.open("a+")
    except OSError as error:
        raise SetupError(
            f"cannot write to {lock_file} ({error.strerror}): make it writable for this user, or choose another data "
            "folder with --data-dir"
        ) from error


def _owner(lock_file: Path) -> str:
    pid = lock_file.read_text().partition(" ")[0]
    return f" (process {pid})" if pid else ""


def default_root() -> Path:
    """The data folder used when none is given: $ENGINEBENCH_AGENT_HOME, else `agent` in the home of enginebench.

    The latter is where a controller on this machine starts its own agent, so both find the same environments; it does
    not read the former. Raises `SetupError` where it is in a home that is not known.
    """
    try:
        if own := os.environ.get("ENGINEBENCH_AGENT_HOME"):
            return Path(own).expanduser().absolute()
        return home_folder().absolute() / "agent"
    except RuntimeError:  # what pathlib says of an account that this machine does not know
        raise SetupError(
            "the home folder of this account is not known: set ENGINEBENCH_AGENT_HOME to a whole path, or name one "
            "with --data-dir"
        ) from None


_Mount = tuple[bytes, bytes, bytes]
"""Place, kind and options, as proc_pid_mounts(5) has them."""


def _file_system(folder: Path, table: Path = Path("/proc/self/mounts")) -> str:
    """The kernel's word for what a folder lies on; "" where it is not told.

    What is written into an overlay goes into its upper folder, so the word is that one's where it can be seen: a board
    whose disk is only read keeps it in memory, a container's lies on its host.
    """
    mounts: list[_Mount] = []
    with contextlib.suppress(OSError):
        mounts = _MOUNT.findall(table.read_bytes())
    if (found := _covering(folder, mounts)) is None:
        return ""
    _, kind, options = found
    if kind == b"overlay" and (told := _UPPER.search(options)) and os.access(upper := _path(told[1]), os.F_OK):
        # Not on itself, though its line may come last: it was moved there after what it is made of.
        _, kind, _ = _covering(upper, [one for one in mounts if one is not found]) or found
    return kind.decode()


def _covering(folder: Path, mounts: Sequence[_Mount]) -> _Mount | None:
    place = folder.resolve()
    return next((one for one in reversed(mounts) if place.is_relative_to(_path(one[0]))), None)


_MOUNT = re.compile(rb"^[^ \n]* ([^ \n]+) ([^ \n]+) ([^ \n]+)", re.MULTILINE)
"""Bytes, for a place may be named in any encoding, or in none."""

_UPPER = re.compile(rb"(?:^|,)upperdir=([^,]+)")

_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""How the kernel writes spaces, tabs, newlines and backslashes there."""


def _path(written: bytes) -> Path:
    return Path(os.fsdecode(_ESCAPED.sub(_unescaped, written)))


def _unescaped(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 8)])
