"""What was issued: names, kinds and roles of certificates, the list of them, and the files handed out."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.durable import PRIVATE, make_private_folder, write_whole
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, REVOCATIONS, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind, Role

SCHEMA_VERSION = 1
RENEW_AFTER_SHARE = 2 / 3
"""From this share of its life on, a certificate should be renewed."""


class CertificateState(StrEnum):
    """What a certificate is worth now."""

    NOT_YET = "not yet valid"
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
    def begins_at(self) -> datetime:
        """When it begins."""
        return datetime.fromtimestamp(self.begins_at_unix_s, UTC)

    @property
    def ends_at(self) -> datetime:
        """When it ends."""
        return datetime.fromtimestamp(self.ends_at_unix_s, UTC)

    def state(self, now: datetime) -> CertificateState:
        """What it is worth at an instant."""
        if self.revoked_at_unix_s is not None:
            return CertificateState.REVOKED
        if now >= self.ends_at:
            return CertificateState.EXPIRED
        if now < self.begins_at:
            return CertificateState.NOT_YET
        return (
            CertificateState.RENEW
            if now >= self.ends_at - self.period * (1 - RENEW_AFTER_SHARE)
            else CertificateState.VALID
        )


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


@dataclass(frozen=True)
class Bundle:
    """A certificate, beside the authority's own certificate and list of revocations, in PEM.

    `key` is None where somebody else has it.
    """

    issued: Issued
    certificate: bytes
    ca_certificate: bytes
    revocations: bytes
    key: bytes | None = field(default=None, repr=False)

    def files(self) -> Mapping[str, bytes]:
        """The content of each file by its name; only agents ask who was revoked."""
        kind = self.issued.kind
        key = {} if self.key is None else {key_name(kind): self.key}
        revocations = {REVOCATIONS: self.revocations} if kind is CertificateKind.AGENT else {}
        return key | {certificate_name(kind): self.certificate, CA_CERTIFICATE: self.ca_certificate} | revocations

    def write(self, folder: Path) -> None:
        """Write the files into a folder for their owner only. Raises `InputError` where that cannot be."""
        try:
            make_private_folder(folder)
            for name, content in self.files().items():
                write_whole(folder / name, content, mode=PRIVATE)
        except OSError as error:
            raise InputError(
                f"cannot write to {folder} ({error.strerror or error}): "
                f"the certificate is on record, so get another with `enginebench ca renew {self.issued.name} --out DIR`"
            ) from error
