"""What was issued: the names, kinds and roles of certificates, and the list an authority keeps of them."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.durable import PRIVATE, write_whole
from enginebench_proto.agreed.roles import CertificateKind, Role

SCHEMA_VERSION = 1
RENEW_AFTER_SHARE = 2 / 3
"""From this share of its life on, a certificate should be renewed."""


class State(StrEnum):
    """What a certificate is worth now."""

    VALID = "valid"
    RENEW = "renew soon"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Issued:
    """One certificate. `serial` is in hexadecimal; an agent has `hosts`, a client a `role`; times are UTC seconds."""

    serial: str
    kind: CertificateKind
    name: str
    role: Role | None
    hosts: tuple[str, ...]
    begins_at_unix_s: int
    ends_at_unix_s: int
    revoked_at_unix_s: int | None = None

    @property
    def period(self) -> timedelta:
        """How long it is valid in all."""
        return timedelta(seconds=self.ends_at_unix_s - self.begins_at_unix_s)

    @property
    def ends_at(self) -> datetime:
        """When it ends."""
        return datetime.fromtimestamp(self.ends_at_unix_s, UTC)

    def state(self, now: datetime) -> State:
        """What it is worth at an instant."""
        if self.revoked_at_unix_s is not None:
            return State.REVOKED
        if now >= self.ends_at:
            return State.EXPIRED
        return State.RENEW if now >= self.ends_at - self.period * (1 - RENEW_AFTER_SHARE) else State.VALID


def read_issued(path: Path) -> tuple[Issued, ...]:
    """Read the list. Raises `InputError` where it is missing or damaged."""
    try:
        return tuple(_issued(each) for each in json.loads(path.read_text())["certificates"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot read {path}, the list of certificates that were issued ({error}): restore it from a backup"
        ) from error


def write_issued(path: Path, issued: Iterable[Issued]) -> None:
    """Put a list in place of the one before, whole or not at all."""
    document = {"schema_version": SCHEMA_VERSION, "certificates": [asdict(each) for each in issued]}
    write_whole(path, json.dumps(document, indent=1).encode(), mode=PRIVATE)


def _issued(entry: dict[str, Any]) -> Issued:
    role = entry["role"]
    typed = {"kind": CertificateKind(entry["kind"]), "role": role and Role(role), "hosts": tuple(entry["hosts"])}
    return Issued(**entry | typed)
