"""The X.509 forms: an authority's own certificate, those it signs, and its list of revocations.

A client's role is a URI among its alternative names, `urn:enginebench:role:ROLE`. The extended key usage keeps the
kinds apart: an agent's certificate opens no connection as a client, and a client's serves none.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from enginebench_controller.targets.authority.issued import Issued
from enginebench_proto.agreed.roles import CertificateKind

CLOCK_SKEW = timedelta(minutes=5)
"""Certificates begin this much earlier, for machines whose clocks are slow."""
_USAGE = {
    CertificateKind.AGENT: ExtendedKeyUsageOID.SERVER_AUTH,
    CertificateKind.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH,
}
_KEY_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True)
class Issuer:
    """An authority that can sign: its certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_key() -> ec.EllipticCurvePrivateKey:
    """Make a key on the curve P-256, which every TLS library knows."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Write a private key as PEM, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def pem(document: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    """Write what is public as PEM."""
    return document.public_bytes(serialization.Encoding.PEM)


def authority_certificate(key: ec.EllipticCurvePrivateKey, name: str, begin: datetime, end: datetime) -> Issuer:
    """Make an authority that signs its own certificate, and no other authorities."""
    subject = _subject(name)
    public = key.public_key()
    builder = (
        _builder(subject, public, begin, end)
        .issuer_name(subject)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage("key_cert_sign", "crl_sign"), critical=True)
    )
    return Issuer(builder.sign(key, hashes.SHA256()), key)


def signed_certificate(issuer: Issuer, public: ec.EllipticCurvePublicKey, issued: Issued) -> x509.Certificate:
    """Sign the certificate that a record describes."""
    builder = (
        _builder(_subject(issued.name), public, issued.begins_at, issued.ends_at)
        .issuer_name(issuer.certificate.subject)
        .serial_number(int(issued.serial, 16))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_USAGE[issued.kind]]), critical=True)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(issued)), critical=False)
        .add_extension(_issuer_key(issuer), critical=False)
    )
    return builder.sign(issuer.key, hashes.SHA256())


def revocation_list(issuer: Issuer, issued: Iterable[Issued], now: datetime) -> x509.CertificateRevocationList:
    """Sign the list of all that were revoked. It holds as long as the authority: the next one comes when it is made."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(now)
        .next_update(max(issuer.certificate.not_valid_after_utc, now + timedelta(days=1)))
        .add_extension(_issuer_key(issuer), critical=False)
    )
    for each in issued:
        if each.revoked_at_unix_s is not None:
            builder = builder.add_revoked_certificate(_revoked(int(each.serial, 16), each.revoked_at_unix_s))
    return builder.sign(issuer.key, hashes.SHA256())


def _builder(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).public_key(public)
    builder = builder.not_valid_before(begin).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*used: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in used for usage in _KEY_USAGES})


def _issuer_key(issuer: Issuer) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())


def _revoked(serial: int, at_unix_s: int) -> x509.RevokedCertificate:
    builder = x509.RevokedCertificateBuilder().serial_number(serial)
    return builder.revocation_date(datetime.fromtimestamp(at_unix_s, UTC)).build()


def _alternative_names(issued: Issued) -> Sequence[x509.GeneralName]:
    if issued.role is not None:
        return [x509.UniformResourceIdentifier(issued.role.uri)]
    return [_host_name(host) for host in issued.hosts]


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
