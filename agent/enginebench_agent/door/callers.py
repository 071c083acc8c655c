"""Who calls: the name and the role on the certificate at the other end of a call."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from enginebench_agent.door.permissions import Peer
from enginebench_agent.door.tls import Material
from enginebench_agent.errors import UnauthenticatedError
from enginebench_proto.agreed.roles import Role, role_of

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
