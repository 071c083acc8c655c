"""For whom alone runs begin here, and for how long still: at most one reservation, kept on the disk as time left.

Time is counted by the clock of the machine's uptime, which nobody sets and which goes on while no agent runs. For how
long a machine was off nobody can know, so that time does not count.
"""

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginebench_agent.door.permissions import Peer
from enginebench_agent.errors import DiskFullError, ForbiddenError, InvalidRequestError, ReservedError
from enginebench_agent.uninterrupted import run_to_end, to_end
from enginebench_proto.agreed import logs
from enginebench_proto.agreed.durable import PRIVATE, sync_folder, write_whole
from enginebench_proto.agreed.durations import duration_words
from enginebench_proto.agreed.roles import Role
from enginebench_proto.v1 import reservation_pb2

SAVE_SECONDS = 60.0
"""How often the time left is written, and told to who waits. SD cards wear; a power cut makes it so much longer."""
MAX_REASON_CHARS = 200
SCHEMA_VERSION = 1
DAMAGED_SUFFIX = ".damaged"
_SECOND_NS = 1_000_000_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Claim:
    """Who wants a run, or a group of them, to begin: a name as in `Peer`, and how long it would wait for others.

    Once it `is_granted`, no reservation concerns it any more.
    """

    name: str | None = None
    patience_seconds: float = math.inf
    is_granted: bool = False


@dataclass(frozen=True)
class Reservation:
    """`holder` is a name as in `Peer`; the end is on the clock of the machine's uptime."""

    holder: str | None
    reason: str
    ends_at_ns: int

    def left_ns(self, now_ns: int) -> int:
        """For how long still."""
        return max(0, self.ends_at_ns - now_ns)


def uptime_ns() -> int:
    """Since the machine was started, the time that it slept included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Reservations:
    """The reservation of an agent's machine, if there is one. `keep` has to run meanwhile."""

    def __init__(self, path: Path, longest_seconds: int, now_ns: Callable[[], int] = uptime_ns) -> None:
        """A file that cannot be read is set aside under another name and reported in the log, never deleted."""
        self._path = path
        self._longest_seconds = longest_seconds
        self._now_ns = now_ns
        self._latest = _read(path, now_ns())
        self._changing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def current(self) -> Reservation | None:
        """The one that stands now."""
        one = self._latest
        return one if one is not None and one.left_ns(self._now_ns()) else None

    def keeps_out(self, claim: Claim) -> bool:
        """Whether somebody else has reserved the machine, and this has not begun before."""
        one = self.current
        return one is not None and not claim.is_granted and one.holder != claim.name

    def grant(self, claim: Claim) -> bool:
        """Let it begin, unless it is kept out; returns whether it may."""
        claim.is_granted = not self.keeps_out(claim)
        return claim.is_granted

    def check(self, claim: Claim) -> None:
        """Raises `ReservedError` for who is kept out for longer than he would wait."""
        one = self.current
        if one is None or not self.keeps_out(claim):
            return
        left_seconds = one.left_ns(self._now_ns()) / _SECOND_NS
        if left_seconds > claim.patience_seconds:
            raise ReservedError(
                f"this target is reserved {self._words(one)}, longer than this run may last, which is how long it "
                f"would wait ({duration_words(claim.patience_seconds)}): try again then, or ask the holder, or an "
                "admin, for `enginebench targets release`."
            )

    async def until_let_in(self, claim: Claim) -> None:
        """Wait as long as this is kept out."""
        while self.keeps_out(claim):
            await self._changed.wait()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have this called whenever the reservation changes, and now and then while there is one."""
        self._listeners.append(listener)

    def told(self, caller: Peer | None = None) -> reservation_pb2.Reservation | None:
        """What stands now, as this caller is told of it."""
        one = self.current
        return None if one is None else self._told(one, yours=caller is not None and one.holder == caller.name)

    async def reserve(self, caller: Peer, for_ns: int, reason: str) -> reservation_pb2.ReserveResponse:
        """Reserve the machine for a caller from now on, in the place of what he had.

        Raises `InvalidRequestError`, `ReservedError` and `DiskFullError`.
        """
        self._check_wish(for_ns, reason)
        return await to_end(self._reserve(caller.name, for_ns, reason))

    async def release(self, caller: Peer, holder: str | None) -> reservation_pb2.ReleaseResponse:
        """End what `holder` has; nothing where he has none. Raises `ForbiddenError` and `DiskFullError`."""
        return await to_end(self._release(caller, holder))

    async def keep(self) -> None:
        """Write the time left now and then, and end what is over; until it is cancelled."""
        await self.settle()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_settle()):
                    await self._changed.wait()
                    continue
            await self.settle()

    async def settle(self) -> None:
        """Bring the file up to date, and tell who listens how it stands."""
        async with self._changing:
            one = self.current
            try:
                await run_to_end(self._write, one)
            except OSError as error:
                _log.error("cannot write to %s (%s): after a restart it tells an older time", self._path, error)
            if one is None and self._latest is not None:
                _log.info("reservation ended", extra=logs.told(holder=self._latest.holder))
            self._latest = one
            self._tell()

    def _seconds_to_settle(self) -> float | None:
        return None if self._latest is None else min(self._latest.left_ns(self._now_ns()) / _SECOND_NS, SAVE_SECONDS)

    async def _reserve(self, name: str | None, for_ns: int, reason: str) -> reservation_pb2.ReserveResponse:
        async with self._changing:
            before = self.current
            if before is not None and before.holder != name:
                raise ReservedError(
                    f"this target is reserved {self._words(before)}: ask the holder, or an admin, for `enginebench "
                    "targets release`, or do the same again later."
                )
            replaced = None if before is None else self._told(before, yours=True)
            made = Reservation(name, reason, self._now_ns() + for_ns)
            await self._replace(made)
            _log.info("reserved", extra=logs.told(holder=made.holder, seconds=for_ns / _SECOND_NS))
            answer = self._told(made, yours=True)
            return reservation_pb2.ReserveResponse(reservation=answer, replaced=replaced)

    async def _release(self, caller: Peer, holder: str | None) -> reservation_pb2.ReleaseResponse:
        async with self._changing:
            one = self.current
            if one is None or one.holder != holder:
                return reservation_pb2.ReleaseResponse()
            is_own = one.holder == caller.name
            if not is_own and not (caller.role is not None and caller.role.covers(Role.ADMIN)):
                raise ForbiddenError(
                    f"this target is reserved {self._words(one)}: only the holder, or who has the role admin, releases "
                    "it; ask one of them."
                )
            released = self._told(one, yours=is_own)
            await self._replace(None)
            _log.info("reservation released", extra=logs.told(holder=one.holder))
            return reservation_pb2.ReleaseResponse(released=released)

    async def _replace(self, one: Reservation | None) -> None:
        try:
            await run_to_end(self._write, one)
        except OSError as error:
            raise DiskFullError(f"cannot write to {self._path} ({error.strerror}): make room there.") from error
        self._latest = one
        self._tell()

    def _check_wish(self, for_ns: int, reason: str) -> None:
        if not 0 < for_ns <= self._longest_seconds * _SECOND_NS:
            raise InvalidRequestError(
                f"this target can be reserved for {duration_words(self._longest_seconds)} at most (not for "
                f"{duration_words(for_ns / _SECOND_NS)}), and anew before that is over; its owner can allow more, with "
                "max_reservation_seconds in its agent.toml."
            )
        if len(reason) > MAX_REASON_CHARS or not reason.isprintable():
            raise InvalidRequestError(
                f"the reason of a reservation is one line of {MAX_REASON_CHARS} characters at most, not {len(reason)}."
            )

    def _told(self, one: Reservation, *, yours: bool) -> reservation_pb2.Reservation:
        left_ns = one.left_ns(self._now_ns())
        return reservation_pb2.Reservation(holder=one.holder or "", left_ns=left_ns, reason=one.reason, yours=yours)

    def _words(self, one: Reservation) -> str:
        """By whom, for how long still, and why."""
        who = "by somebody on this machine" if one.holder is None else f"by {one.holder!r}"
        why = f" ({one.reason})" if one.reason else ""
        return f"{who} for {duration_words(one.left_ns(self._now_ns()) / _SECOND_NS)}{why}"

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for listener in self._listeners:
            listener()

    def _write(self, one: Reservation | None) -> None:
        """Blocks on the disk; raises `OSError`. No file is no reservation."""
        if one is not None:
            document = _document(one, self._now_ns())
            write_whole(self._path, json.dumps(document, ensure_ascii=False).encode(), mode=PRIVATE)
        elif self._path.exists():
            self._path.unlink()
            sync_folder(self._path.parent)


def _document(one: Reservation, now_ns: int) -> dict[str, Any]:
    """What is left, and when it was so on the clock of which uptime of the machine."""
    return {
        "schema_version": SCHEMA_VERSION,
        "holder": one.holder,
        "reason": one.reason,
        "left_ns": one.left_ns(now_ns),
        "boot_id": _boot_id(),
        "uptime_ns": now_ns,
    }


def _read(path: Path, now_ns: int) -> Reservation | None:
    if not path.exists():
        return None
    try:
        return _from_document(json.loads(path.read_text(encoding="utf-8")), now_ns)
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.error("the reservation in %s cannot be read and was set aside: %r", path, error)
    path.rename(path.with_name(path.name + DAMAGED_SUFFIX))
    return None


def _from_document(document: Mapping[str, Any], now_ns: int) -> Reservation:
    if document["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema version {document['schema_version']} instead of {SCHEMA_VERSION}")
    holder, reason, left_ns = document["holder"], document["reason"], document["left_ns"]
    if not isinstance(holder, str | None) or not isinstance(reason, str) or not isinstance(left_ns, int):
        raise TypeError("a value of another type")
    has_run_on = document["boot_id"] is not None and document["boot_id"] == _boot_id()
    gone_ns = max(0, now_ns - document["uptime_ns"]) if has_run_on else 0
    return Reservation(holder, reason, now_ns + left_ns - gone_ns)


def _boot_id() -> str | None:
    """Another one each time the machine is started; None where the kernel does not tell."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="utf-8").strip()
    return None
