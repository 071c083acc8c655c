"""How a new agent gets its certificate over the network: once, with a token, before a deadline.

The token holds a secret and the fingerprint of the certificate that this side shows, both made for one invitation and
kept nowhere. So the agent knows whom it talks to before it says anything, and makes its key itself.
"""

import hashlib
import hmac
import json
import secrets
import socket
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from enginebench_controller.errors import InputError
from enginebench_controller.targets.authority import certificates
from enginebench_controller.targets.authority.authority import Authority
from enginebench_controller.targets.authority.issued import Issued
from enginebench_proto.agreed.durable import PRIVATE, write_whole
from enginebench_proto.agreed.meeting import to_token
from enginebench_proto.agreed.roles import CertificateKind

SECRET_BYTES = 24
MAX_REQUEST_BYTES = 16 * 1024
CONVERSATION_SECONDS = 10.0
_NAME = "enginebench invitation"


@dataclass(frozen=True)
class WantedCertificate:
    """What the agent's certificate is to say."""

    name: str
    hosts: tuple[str, ...]
    days: int


@dataclass(frozen=True)
class Invitation:
    """A secret, the certificate shown to whoever connects, and the TLS context that shows it."""

    context: ssl.SSLContext = field(repr=False)
    certificate_der: bytes
    secret: bytes = field(repr=False)

    @property
    def token(self) -> str:
        """What the agent's owner types there."""
        return to_token(self.secret, hashlib.sha256(self.certificate_der).digest())


def make_invitation(authority: Authority) -> Invitation:
    """Make one. Nothing of it is kept on the disk."""
    now = authority.clock()
    shown = certificates.authority_certificate(
        certificates.make_key(), _NAME, now - certificates.CLOCK_SKEW, now + timedelta(days=1)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory() as scratch:  # the ssl module reads keys from files only
        chain = Path(scratch) / "chain.pem"
        write_whole(chain, certificates.key_pem(shown.key) + certificates.pem(shown.certificate), mode=PRIVATE)
        context.load_cert_chain(chain)
    der = shown.certificate.public_bytes(serialization.Encoding.DER)
    return Invitation(context, der, secrets.token_bytes(SECRET_BYTES))


def wait_for_agent(
    authority: Authority, wish: WantedCertificate, invitation: Invitation, listening: socket.socket, seconds: float
) -> Issued:
    """Wait for whoever has the token, and certify its key. Raises `InputError` where nobody came in time."""
    deadline = monotonic() + seconds
    while (left := deadline - monotonic()) > 0:
        listening.settimeout(left)
        try:
            plain, _ = listening.accept()
        except TimeoutError:
            break
        with plain:
            if issued := _converse(authority, wish, invitation, plain):
                return issued
    raise InputError(
        f"nobody came with the token within {seconds / 60:g} minutes, and it is of no use any more: invite again"
    )


def _converse(
    authority: Authority, wish: WantedCertificate, invitation: Invitation, plain: socket.socket
) -> Issued | None:
    """Answer one connection: with a certificate, or None for anybody without the token or with nothing sensible."""
    plain.settimeout(CONVERSATION_SECONDS)
    try:
        with invitation.context.wrap_socket(plain, server_side=True) as stream:
            public = _asked(stream, invitation)
            if public is None:
                _send(stream, {"error": "the token is not the one of this invitation"})
                return None
            bundle = authority.certify(CertificateKind.AGENT, wish.name, wish.days, public, hosts=wish.hosts)
            _send(stream, {"files": {name: content.decode() for name, content in bundle.files().items()}})
            return bundle.issued
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):  # whatever a stranger sends
        return None


def _asked(stream: ssl.SSLSocket, invitation: Invitation) -> ec.EllipticCurvePublicKey | None:
    request = json.loads(_read_line(stream))
    if not hmac.compare_digest(bytes.fromhex(request["secret"]), invitation.secret):
        return None
    wanted = x509.load_pem_x509_csr(request["request"].encode())
    public = wanted.public_key()
    if not wanted.is_signature_valid or not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError("the request is not signed with the key it is for")
    return public


def _read_line(stream: ssl.SSLSocket) -> bytes:
    deadline, line = monotonic() + CONVERSATION_SECONDS, b""
    while not line.endswith(b"\n"):
        stream.settimeout(max(deadline - monotonic(), 0.001))
        part = stream.recv(4096)
        if not part or len(line) > MAX_REQUEST_BYTES:
            raise ValueError("no request")
        line += part
    return line


def _send(stream: ssl.SSLSocket, answer: dict[str, object]) -> None:
    stream.sendall(json.dumps(answer).encode() + b"\n")
