"""Mutual TLS: the agent's certificate and whom it trusts, read again when they change, and who calls.

First come the files of the TLS folder, read and checked, then the credentials of the port, and last the name and the
role on the certificate at the other end of a call.
"""

import logging
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from enginebench_agent.door.permissions import Peer
from enginebench_agent.errors import SetupError, UnauthenticatedError
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, REVOCATIONS, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind, Role, role_of

CERTIFICATE, KEY = certificate_name(CertificateKind.AGENT), key_name(CertificateKind.AGENT)
FILE_NAMES = (CERTIFICATE, KEY, CA_CERTIFICATE, REVOCATIONS)
REMEDY = "`enginebench ca renew NAME` makes all four files anew"
ASK = "ask whoever keeps the certificate authority for a new one."
"""What callers can do about a certificate of theirs."""
_OPEN_TO_OTHERS = 0o077

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Material:
    """What the folder held at one instant, in PEM and taken apart. `revoked` are serial numbers."""

    certificate_pem: bytes
    ca_pem: bytes
    ca: x509.Certificate
    revoked: frozenset[int]
    key_pem: bytes = field(repr=False)


class MaterialFolder:
    """The TLS folder of a running agent: files that were replaced count from the next handshake and the next call on.

    Files that do not fit together, as while they are being copied, change nothing. Safe to ask from any thread.
    """

    def __init__(self, folder: Path) -> None:
        """Raises `SetupError` as `load_material` does."""
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp = _stamp(folder)
        self._material = load_material(folder)

    def current(self) -> Material:
        """What counts now."""
        with self._lock:
            # Taken before the files are read: what changes meanwhile is read again the next time.
            if (stamp := _stamp(self._folder)) != self._stamp:
                self._stamp = stamp
                self._reload()
            return self._material

    def _reload(self) -> None:
        try:
            self._material = load_material(self._folder)
            _log.info("took up the files of %s", self._folder)
        except SetupError as error:
            _log.error("%s; what was there before stays in use", error)


def load_material(folder: Path) -> Material:
    """Read and check the four files. Raises `SetupError` that names what is missing or does not fit."""
    try:
        content = {name: (folder / name).read_bytes() for name in FILE_NAMES}
        key_mode = (folder / KEY).stat().st_mode
    except OSError as error:
        raise SetupError(f"cannot read {error.filename or folder} ({error.strerror}): {REMEDY}") from error
    if key_mode & _OPEN_TO_OTHERS:
        raise SetupError(f"others can read {folder / KEY}: take that from them with chmod 600")
    try:
        certificate = x509.load_pem_x509_certificate(content[CERTIFICATE])
        ca = x509.load_pem_x509_certificate(content[CA_CERTIFICATE])
        revocations = x509.load_pem_x509_crl(content[REVOCATIONS])
        key = load_pem_private_key(content[KEY], password=None)
    except (ValueError, TypeError) as error:
        raise SetupError(f"a file in {folder} is damaged ({error}): {REMEDY}") from error
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public != certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        raise SetupError(f"{folder / KEY} is not the key of {folder / CERTIFICATE}: {REMEDY}")
    _check_issued(certificate, ca, folder)
    return Material(content[CERTIFICATE], content[CA_CERTIFICATE], ca, _revoked(revocations, ca, folder), content[KEY])


def certified_names(material: Material) -> tuple[str, ...]:
    """The host names and addresses that the certificate is for, in its order: names first, then addresses."""
    try:
        extension = x509.load_pem_x509_certificate(material.certificate_pem).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return ()
    names = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*names, *map(str, addresses))


def _check_issued(certificate: x509.Certificate, ca: x509.Certificate, folder: Path) -> None:
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception as error:  # the library raises whatever its parts do
        raise SetupError(f"{folder / CERTIFICATE} was not issued by {folder / CA_CERTIFICATE}: {REMEDY}") from error
    if not _is_for_servers(certificate):
        raise SetupError(
            f"{folder / CERTIFICATE} is a client's certificate, with which no agent can serve: "
            "`enginebench ca issue agent NAME --host HOST` makes an agent's"
        )
    now = datetime.now(UTC)
    begin = max(certificate.not_valid_before_utc, ca.not_valid_before_utc)
    if now < begin:
        is_own = begin > ca.not_valid_before_utc
        which = "the certificate" if is_own else "the authority of the certificate"
        remedy = REMEDY if is_own else "make another authority, and issue all certificates anew"
        # A board without a clock that goes on when it is off serves before it knows the time.
        _log.warning(
            f"nobody is let in yet: {which} in {folder} begins at {begin:%Y-%m-%d %H:%M} UTC, and the clock of this "
            f"machine says {now:%Y-%m-%d %H:%M} UTC: set the clock; or, where it was wrong when that was made, {remedy}"
        )
    end = min(certificate.not_valid_after_utc, ca.not_valid_after_utc)
    if now >= end:
        raise SetupError(f"the certificate in {folder} ended at {end:%Y-%m-%d %H:%M} UTC: {REMEDY}")


def _is_for_servers(certificate: x509.Certificate) -> bool:
    try:
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:  # good for everything
        return True
    return bool({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(purposes))


def _revoked(revocations: x509.CertificateRevocationList, ca: x509.Certificate, folder: Path) -> frozenset[int]:
    public = ca.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not revocations.is_signature_valid(public):
        raise SetupError(f"{folder / REVOCATIONS} was not signed by {folder / CA_CERTIFICATE}: {REMEDY}")
    return frozenset(each.serial_number for each in revocations)


def _stamp(folder: Path) -> tuple[tuple[int, int, int] | None, ...]:
    return tuple(_file_stamp(folder / name) for name in FILE_NAMES)


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def server_credentials(folder: MaterialFolder) -> Any:
    """Credentials that refuse a handshake without a certificate of the authority, and follow what the folder holds."""
    first = folder.current()
    shown = first

    def renewed() -> Any:
        nonlocal shown
        current = folder.current()
        if current is shown:
            return None
        shown = current
        return _configuration(current)

    return grpc.dynamic_ssl_server_credentials(_configuration(first), renewed, require_client_authentication=True)


def _configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key_pem, material.certificate_pem)], root_certificates=material.ca_pem
    )


def peer_of(context: Any, material: Material) -> Peer:
    """The caller of a call.

    The handshake has checked the certificate, but connections live long: since then it may have ended, have been
    revoked, or the authority been replaced. Raises `UnauthenticatedError`.
    """
    pems = context.auth_context().get("x509_pem_cert")
    if not pems:
        raise UnauthenticatedError(f"this connection shows no certificate: {ASK}")
    try:
        certificate = _certificate(pems[0])
    except ValueError as error:  # its text is for the log, not for the caller
        raise UnauthenticatedError(f"this connection's certificate cannot be read: {ASK}") from error
    peer = Peer(_name_on(certificate), _role_on(certificate))
    if not _is_issued(pems[0], material.ca_pem):
        raise UnauthenticatedError(f"the certificate of {peer.name!r} is not from this agent's authority: {ASK}")
    if certificate.serial_number in material.revoked:
        raise UnauthenticatedError(f"the certificate of {peer.name!r} was revoked: {ASK}")
    if datetime.now(UTC) >= certificate.not_valid_after_utc:
        raise UnauthenticatedError(
            f"the certificate of {peer.name!r} ended at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: {ASK}"
        )
    return peer


@lru_cache(maxsize=256)
def _certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


@lru_cache(maxsize=256)
def _is_issued(pem: bytes, ca_pem: bytes) -> bool:
    try:
        _certificate(pem).verify_directly_issued_by(x509.load_pem_x509_certificate(ca_pem))
    except Exception:  # the library raises whatever its parts do
        return False
    return True


def _name_on(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else "?"


def _role_on(certificate: x509.Certificate) -> Role | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return role_of(names.get_values_for_type(x509.UniformResourceIdentifier))
