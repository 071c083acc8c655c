"""The certificate that this machine shows to agents: read, and looked at before anybody else has to."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind

FILE_NAMES = (CA_CERTIFICATE, key_name(CertificateKind.CLIENT), certificate_name(CertificateKind.CLIENT))


def client_credentials(folder: Path) -> Any:
    """gRPC's credentials of the files in a folder. Raises `InputError` where one is missing, damaged or has ended."""
    root, key, certificate = (_read(folder / name) for name in FILE_NAMES)
    _check_in_force(certificate, folder)
    return grpc.ssl_channel_credentials(root, key, certificate)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"there is no certificate to show, as {path} is missing: make one with `enginebench ca issue client NAME "
            "--install` where the certificate authority is, or put the three files of yours there"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}): make it readable for you") from error


def _check_in_force(pem: bytes, folder: Path) -> None:
    # Here, since plain text to this machine should not wait for it.
    from cryptography import x509  # noqa: PLC0415

    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise InputError(f"{folder / FILE_NAMES[-1]} is damaged ({error}): copy it again") from error
    if (now := datetime.now(UTC)) < certificate.not_valid_before_utc:
        raise InputError(
            f"your certificate in {folder} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, and "
            f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC: set the clock"
        )
    if now >= certificate.not_valid_after_utc:
        raise InputError(
            f"your certificate in {folder} ended at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and the "
            f"clock of this machine says {now:%Y-%m-%d %H:%M} UTC: renew it with `enginebench ca renew NAME --install` "
            "where the certificate authority is, or set the clock"
        )
