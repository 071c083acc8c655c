"""How the two ends find and recognise each other before the first message: ports, names of files, tokens."""

import base64
import binascii

from enginebench_proto.agreed.roles import CertificateKind

DEFAULT_PORT = 50151
SERVICE_TYPE = "_enginebench._tcp.local."
"""Under what agents announce themselves by DNS-SD."""

READY = "enginebench-agent listening on "
"""How the line begins that an agent prints when it can be called; its addresses follow."""

CA_CERTIFICATE, REVOCATIONS = "ca.crt", "ca.crl"
"""What the authority gives into a TLS folder; only agents ask who was revoked."""

FINGERPRINT_BYTES = 32


def certificate_name(kind: CertificateKind) -> str:
    """The name of a certificate in its TLS folder."""
    return f"{kind}.crt"


def key_name(kind: CertificateKind) -> str:
    """The name of its key."""
    return f"{kind}.key"


def to_token(secret: bytes, fingerprint: bytes) -> str:
    """A secret, and the sha256 of the certificate that who waits will show, as a person types it there.

    Letters and digits only, as a command line takes "-ab" for an option.
    """
    return base64.b32encode(secret + fingerprint).decode().rstrip("=").lower()


def from_token(token: str) -> tuple[bytes, bytes]:
    """The secret and the fingerprint of a token. Raises `ValueError` for one that is not whole."""
    try:
        content = base64.b32decode(token + "=" * (-len(token) % 8), casefold=True)
    except binascii.Error as error:
        raise ValueError("no token") from error
    if len(content) <= FINGERPRINT_BYTES:
        raise ValueError("no whole token")
    return content[:-FINGERPRINT_BYTES], content[-FINGERPRINT_BYTES:]
