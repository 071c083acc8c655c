"""Mutual TLS: the agent's certificate, got with a token, read and checked; whom it lets in; who was revoked."""

import hashlib
import hmac
import json
import logging
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from enginebench_agent.door.permissions import Peer
from enginebench_agent.errors import SetupError, UnauthenticatedError
from enginebench_proto.agreed.durable import PRIVATE, write_whole
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, REVOCATIONS, certificate_name, from_token, key_name
from enginebench_proto.agreed.roles import CertificateKind, Role, role_of

CERTIFICATE, KEY = certificate_name(CertificateKind.AGENT), key_name(CertificateKind.AGENT)
FILE_NAMES = (CERTIFICATE, KEY, CA_CERTIFICATE, REVOCATIONS)
REMEDY = "`enginebench ca renew NAME` makes all four files anew"
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
    end = min(certificate.not_valid_after_utc, ca.not_valid_after_utc)
    if datetime.now(UTC) >= end:
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


ASK = "ask whoever keeps the certificate authority for a new one."


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
    peer = Peer(_name(certificate), _role(certificate))
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


def _name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else "?"


def _role(certificate: x509.Certificate) -> Role | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return role_of(names.get_values_for_type(x509.UniformResourceIdentifier))


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


def identify(folder: MaterialFolder) -> Callable[[Any], Peer]:
    """Tells the caller of a call by its certificate and the folder's present files."""
    return lambda context: peer_of(context, folder.current())


def _configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key_pem, material.certificate_pem)], root_certificates=material.ca_pem
    )


CONVERSATION_SECONDS = 20.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024
ASK_AGAIN = "ask for another with `enginebench ca invite`"


def join(address: str, token: str, folder: Path) -> None:
    """Have a key certified by whoever gave the token, and write the TLS files. Raises `SetupError`.

    The token's secret is told to nobody but the one whose fingerprint the token has.
    """
    if _is_there(folder):
        raise SetupError(f"there is {folder} already: move it away first, if this agent is to belong somewhere else")
    secret, fingerprint = _parts(token)
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    question = {"secret": secret.hex(), "request": request.public_bytes(Encoding.PEM).decode()}
    answer = _ask(address, fingerprint, json.dumps(question).encode() + b"\n")
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(
        folder, {name: answer[name].encode() for name in (CERTIFICATE, CA_CERTIFICATE, REVOCATIONS)} | {KEY: key_pem}
    )


def _is_there(folder: Path) -> bool:
    try:
        return folder.exists()
    except OSError as error:
        raise SetupError(
            f"cannot look for {folder} ({error.strerror}): let this user read its place, or name another with --tls"
        ) from error


def _parts(token: str) -> tuple[bytes, bytes]:
    try:
        return from_token(token)
    except ValueError:
        raise SetupError(f"this is no whole token: {ASK_AGAIN}") from None


def _ask(address: str, fingerprint: bytes, question: bytes) -> Mapping[str, str]:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONVERSATION_SECONDS) as plain:
            return _converse(plain, fingerprint, question)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(
            f"cannot join at {address} ({error}): look whether `enginebench ca invite` still waits there; a token is "
            "good for one agent and some minutes"
        ) from error


def _converse(plain: socket.socket, fingerprint: bytes, question: bytes) -> Mapping[str, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Nobody vouches for that certificate but the token, whose fingerprint is compared before a word is said.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(plain) as stream:
        shown = hashlib.sha256(stream.getpeercert(binary_form=True) or b"").digest()
        if not hmac.compare_digest(shown, fingerprint):
            raise SetupError(f"who answers is not who gave the token, so it was told nothing: {ASK_AGAIN}")
        stream.sendall(question)
        with stream.makefile("rb") as answers:
            answer = json.loads(answers.readline(MAX_ANSWER_BYTES))
    if "error" in answer:
        raise SetupError(f"it was refused, as {answer['error']}: {ASK_AGAIN}")
    return dict(answer["files"])


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tls-", dir=folder.parent) as scratch:
            made = Path(scratch) / "tls"
            made.mkdir(0o700)
            for name, content in files.items():
                write_whole(made / name, content, mode=PRIVATE, durable=False)
            load_material(made)  # they fit together, and the certificate is for our key
            made.rename(folder)
    except OSError as error:
        raise SetupError(f"cannot write {folder} ({error.strerror}): make its place writable") from error
