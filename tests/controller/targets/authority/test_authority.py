"""The certificate authority: what it makes, remembers, renews, revokes, and refuses."""

import errno
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from enginebench_controller.errors import InputError
from enginebench_controller.targets.authority.authority import Authority
from enginebench_controller.targets.authority.issued import CertificateState
from enginebench_proto.agreed.roles import CertificateKind, Role

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def authority(tmp_path):
    made = at(tmp_path, NOON)
    made.create("lab", 100)
    return made


def at(tmp_path, now):
    return Authority(tmp_path / "ca", lambda: now)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def certificate_of(bundle):
    return x509.load_pem_x509_certificate(bundle.certificate)


def test_what_it_makes_is_for_its_owner_only(authority, tmp_path):
    assert {path.name for path in authority.folder.iterdir()} == {"ca.key", "ca.crt", "ca.crl", "issued.json"}
    assert mode(authority.folder) == 0o700
    assert {mode(path) for path in authority.folder.iterdir()} == {0o600}
    authority.issue(CertificateKind.AGENT, "nuc", 90, hosts=["nuc.lab"]).write(tmp_path / "bundle")
    assert mode(tmp_path / "bundle") == 0o700
    assert {mode(path) for path in (tmp_path / "bundle").iterdir()} == {0o600}
    assert list(tmp_path.glob(".*")) == []


def test_it_is_never_overwritten(authority):
    before = (authority.folder / "ca.key").read_bytes()
    with pytest.raises(InputError, match="already; it is never overwritten"):
        authority.create("lab", 100)
    assert (authority.folder / "ca.key").read_bytes() == before


def test_without_one_every_command_says_how_to_make_it(tmp_path):
    missing = at(tmp_path, NOON)
    for act in (
        missing.certificates,
        lambda: missing.revoke("nuc"),
        lambda: missing.issue(CertificateKind.CLIENT, "ci", 1),
    ):
        with pytest.raises(InputError, match="make one with `enginebench ca create`"):
            act()


def test_an_agent_is_certified_for_its_hosts_and_as_a_server_only(authority):
    bundle = authority.issue(CertificateKind.AGENT, "nuc", 90, hosts=["nuc.lab", "10.0.0.7"])
    certificate = certificate_of(bundle)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert names.get_values_for_type(x509.DNSName) == ["nuc.lab"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert set(bundle.files()) == {"agent.crt", "agent.key", "ca.crt", "ca.crl"}


@pytest.mark.parametrize("role", list(Role))
def test_a_client_is_certified_for_its_role_and_as_a_client_only(authority, role):
    bundle = authority.issue(CertificateKind.CLIENT, "ci", 90, role=role)
    certificate = certificate_of(bundle)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"urn:enginebench:role:{role}"]
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert set(bundle.files()) == {"client.crt", "client.key", "ca.crt"}


def test_a_certificate_is_short_lived_signed_by_the_authority_and_fits_its_key(authority):
    bundle = authority.issue(CertificateKind.CLIENT, "ci", 90, role=Role.RUN)
    certificate = certificate_of(bundle)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(bundle.ca_certificate))
    assert certificate.not_valid_after_utc == NOON + 90 * DAY
    public = load_pem_private_key(bundle.key, None).public_key()
    der = [
        each.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        for each in (public, certificate.public_key())
    ]
    assert der[0] == der[1]
    assert f"{certificate.serial_number:x}" == bundle.issued.serial == authority.certificates()[-1].serial


def test_no_certificate_outlives_the_authority(authority, tmp_path):
    assert certificate_of(authority.issue(CertificateKind.CLIENT, "ci", 365)).not_valid_after_utc == NOON + 100 * DAY
    with pytest.raises(InputError, match="ended at 2030-04-11"):
        at(tmp_path, NOON + 101 * DAY).issue(CertificateKind.CLIENT, "late", 1)


@pytest.mark.fault(29)
def test_nothing_is_issued_before_the_authority_begins(authority, tmp_path):
    """Whichever clock was wrong: that of then, or that of now."""
    authority.issue(CertificateKind.CLIENT, "known", 10)
    early = at(tmp_path, NOON - 3 * 365 * DAY)
    said = "begins at 2030-01-01 11:55 UTC, and the clock of this machine says 2027-01-02 12:00 UTC: set the clock"
    for act in (
        lambda: early.issue(CertificateKind.CLIENT, "now", 1),
        lambda: early.issue(CertificateKind.AGENT, "ag", 1, hosts=["nuc"]),
        lambda: early.renew("known"),
    ):
        with pytest.raises(InputError, match=said):
            act()
    assert [one.name for one in authority.certificates()] == ["known"]
    assert early.begins_at() == NOON - timedelta(minutes=5)
    slow = at(tmp_path, NOON - timedelta(minutes=4))
    assert slow.issue(CertificateKind.CLIENT, "slow", 1).issued.state(NOON) is CertificateState.VALID


def test_a_name_has_one_certificate_until_it_ends_or_is_revoked(authority, tmp_path):
    authority.issue(CertificateKind.CLIENT, "ci", 10)
    for kind in CertificateKind:
        with pytest.raises(InputError, match="there is a certificate for 'ci' already: renew it"):
            authority.issue(kind, "ci", 10)
    authority.revoke("ci")
    authority.issue(CertificateKind.CLIENT, "ci", 10)
    at(tmp_path, NOON + 11 * DAY).issue(CertificateKind.CLIENT, "ci", 10)


def test_a_renewal_keeps_name_role_hosts_and_period_and_has_a_new_key(authority, tmp_path):
    for kind, extra in (
        (CertificateKind.AGENT, {"hosts": ["nuc.lab"]}),
        (CertificateKind.CLIENT, {"role": Role.ADMIN}),
    ):
        before = authority.issue(kind, kind.value, 30, **extra)
        after = at(tmp_path, NOON + 20 * DAY).renew(kind.value)
        kept = [(one.issued.name, one.issued.kind, one.issued.role, one.issued.hosts) for one in (before, after)]
        assert kept[0] == kept[1]
        assert after.issued.ends_at == NOON + 50 * DAY
        assert after.key != before.key and after.issued.serial != before.issued.serial
    assert at(tmp_path, NOON + 20 * DAY).renew("agent", days=7).issued.ends_at == NOON + 27 * DAY


def test_what_was_revoked_or_never_was_cannot_be_renewed(authority):
    authority.issue(CertificateKind.CLIENT, "ci", 10)
    authority.revoke("ci")
    with pytest.raises(InputError, match="'ci' was revoked: `enginebench ca issue client ci` issues another"):
        authority.renew("ci")
    with pytest.raises(InputError, match="no certificate for 'nobody' to renew"):
        authority.renew("nobody")


def test_a_revocation_is_signed_and_names_every_certificate_in_force(authority):
    serials = {authority.issue(CertificateKind.CLIENT, "ci", 10).issued.serial, authority.renew("ci").issued.serial}
    other = authority.issue(CertificateKind.CLIENT, "other", 10)

    revoked = authority.revoke("ci")

    crl = x509.load_pem_x509_crl(authority.revocations_file.read_bytes())
    assert crl.is_signature_valid(x509.load_pem_x509_certificate(other.ca_certificate).public_key())
    assert {f"{each.serial_number:x}" for each in crl} == serials == {each.serial for each in revoked}
    assert (
        authority.issue(CertificateKind.AGENT, "nuc", 10, hosts=["nuc"]).revocations
        == authority.revocations_file.read_bytes()
    )
    with pytest.raises(InputError, match="no certificate in force for 'ci'"):
        authority.revoke("ci")


def test_states_follow_the_clock(authority):
    issued = authority.issue(CertificateKind.CLIENT, "ci", 90).issued
    states = [issued.state(NOON + days * DAY) for days in (-1, 0, 59, 61, 90)]
    assert [*map(str, states)] == ["not yet valid", "valid", "valid", "renew soon", "expired"]
    assert authority.revoke("ci")[0].state(NOON) is CertificateState.REVOKED


def test_what_a_fast_clock_issued_can_be_renewed_and_revoked(authority, tmp_path):
    at(tmp_path, NOON + 50 * DAY).issue(CertificateKind.CLIENT, "ci", 20)
    with pytest.raises(InputError, match="there is a certificate for 'ci' already"):
        authority.issue(CertificateKind.CLIENT, "ci", 20)
    assert authority.renew("ci").issued.ends_at == NOON + 20 * DAY
    assert len(authority.revoke("ci")) == 2


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "-x", "ä", "x" * 64, "a\n"])
def test_names_that_cannot_be_ones_are_refused(authority, name):
    with pytest.raises(InputError, match="cannot name a certificate"):
        authority.issue(CertificateKind.CLIENT, name, 1)


@pytest.mark.parametrize("host", ["", "*", "*.lab", "nuc:50151", "a b", "http://nuc", ".lab", "a\n", "x" * 254])
def test_hosts_that_cannot_be_ones_are_refused(authority, host):
    with pytest.raises(InputError, match="is no host"):
        authority.issue(CertificateKind.AGENT, "nuc", 1, hosts=[host])


def test_a_damaged_list_is_told(authority):
    (authority.folder / "issued.json").write_text('{"certificates": [{}]}')
    with pytest.raises(InputError, match=r"cannot read .*issued\.json"):
        authority.certificates()


@pytest.mark.parametrize("name", ["ca.key", "ca.crt"])
def test_a_damaged_authority_is_told(authority, name):
    (authority.folder / name).write_text("-----BEGIN nothing")
    with pytest.raises(InputError, match=rf"cannot read .*{name}.*backup"):
        authority.issue(CertificateKind.CLIENT, "ci", 1)
    assert authority.certificates() == ()


def test_a_folder_that_cannot_be_written_is_told(authority, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("enginebench_controller.targets.authority.issued.write_whole", full)
    with pytest.raises(InputError, match=r"No space left on device.*nothing was handed out"):
        authority.issue(CertificateKind.CLIENT, "ci", 1)
    assert authority.certificates() == ()


def test_a_key_is_never_shown(authority):
    bundle = authority.issue(CertificateKind.CLIENT, "ci", 1)
    assert "PRIVATE" not in repr(bundle)


def test_what_a_certificate_may_not_do_binds_also_those_who_do_not_know_that_restriction(authority):
    bundle = authority.issue(CertificateKind.CLIENT, "me", 90, role=next(iter(Role)))
    for text, is_authority in ((bundle.certificate, False), (bundle.ca_certificate, True)):
        found = x509.load_pem_x509_certificate(text).extensions.get_extension_for_class(x509.BasicConstraints)
        assert (found.critical, found.value.ca) == (True, is_authority)
