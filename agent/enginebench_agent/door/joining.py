"""An agent gets its certificate by a token, from whoever keeps the certificate authority."""

import hashlib
import hmac
import json
import socket
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from enginebench_agent.door.tls import CERTIFICATE, KEY, load_material
from enginebench_agent.errors import SetupError
from enginebench_proto.agreed.durable import PRIVATE, write_whole
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, REVOCATIONS, from_token

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
