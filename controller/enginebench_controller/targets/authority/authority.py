"""The authority: made once, then it issues, renews and revokes certificates, and remembers each."""

import ipaddress
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from filelock import FileLock

from enginebench_controller.errors import InputError
from enginebench_controller.targets.authority import certificates
from enginebench_controller.targets.authority.certificates import CLOCK_SKEW, Issuer
from enginebench_controller.targets.authority.issued import Bundle, CertificateState, Issued, read_issued, write_issued
from enginebench_proto.agreed.durable import PRIVATE, PRIVATE_FOLDER, make_private_folder, write_whole
from enginebench_proto.agreed.meeting import CA_CERTIFICATE
from enginebench_proto.agreed.roles import CertificateKind, Role

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_MAX_HOST_CHARS = 253


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Authority:
    """The authority kept in `folder`: its key, its certificate, its list of revocations and what it issued.

    Every method but `create` raises `InputError` where there is no authority yet; `clock` tells the time.
    """

    folder: Path
    clock: Callable[[], datetime] = _now

    @property
    def certificate_file(self) -> Path:
        """The authority's own certificate, which agents and clients hold."""
        return self.folder / CA_CERTIFICATE

    @property
    def revocations_file(self) -> Path:
        """The signed list of who was revoked, which agents hold."""
        return self.folder / "ca.crl"

    @property
    def _key_file(self) -> Path:
        return self.folder / "ca.key"

    @property
    def _issued_file(self) -> Path:
        return self.folder / "issued.json"

    def create(self, name: str, days: int) -> None:
        """Make the authority. Raises `InputError` where there is one, which is never overwritten, or cannot be one."""
        _check_name(name)
        if self.folder.exists():
            raise InputError(f"there is a certificate authority in {self.folder} already; it is never overwritten")
        try:
            self._create(name, days)
        except OSError as error:
            raise InputError(f"cannot write {self.folder} ({error.strerror or error}): nothing was made") from error

    def issue(
        self, kind: CertificateKind, name: str, days: int, *, role: Role | None = None, hosts: Sequence[str] = ()
    ) -> Bundle:
        """Make a key and a certificate for a name that has none. Raises `InputError` where one cannot be."""
        key = certificates.make_key()
        bundle = self.certify(kind, name, days, key.public_key(), role=role, hosts=hosts)
        return replace(bundle, key=certificates.key_pem(key))

    def certify(
        self,
        kind: CertificateKind,
        name: str,
        days: int,
        public: ec.EllipticCurvePublicKey,
        *,
        role: Role | None = None,
        hosts: Sequence[str] = (),
    ) -> Bundle:
        """Make a certificate for somebody else's key, as `issue` does; the bundle has no key."""
        with self._changing():
            self.check_free(name, hosts)
            return self._sign(Issued("", kind, name, role, tuple(hosts), 0, 0), timedelta(days=days), public)

    def check_free(self, name: str, hosts: Sequence[str]) -> None:
        """Raise `InputError` where a name has a certificate in force, or where it or a host cannot be one."""
        _check_name(name)
        for host in hosts:
            _check_host(host)
        if self._in_force(name):
            raise InputError(
                f"there is a certificate for {name!r} already: renew it with `enginebench ca renew {name}`, "
                f"or revoke it first with `enginebench ca revoke {name}`"
            )

    def renew(self, name: str, days: int | None = None) -> Bundle:
        """Issue a new key and certificate for a name, with its role or hosts, for the period it had or for `days`.

        The ones before stay valid until they end. Raises `InputError` for a name that has none in force.
        """
        with self._changing():
            all_of_it = [each for each in self.certificates() if each.name == name]
            before = [each for each in all_of_it if each.revoked_at_unix_s is None]
            if not before and all_of_it:
                again = f"enginebench ca issue {all_of_it[-1].kind} {name}"
                raise InputError(f"the certificate of {name!r} was revoked: `{again}` issues another")
            if not before:
                raise InputError(f"there is no certificate for {name!r} to renew; see `enginebench ca list`")
            period = before[-1].period - CLOCK_SKEW if days is None else timedelta(days=days)
            key = certificates.make_key()
            return replace(self._sign(before[-1], period, key.public_key()), key=certificates.key_pem(key))

    def revoke(self, name: str) -> tuple[Issued, ...]:
        """Revoke whatever is in force for a name, and sign the list anew. Raises `InputError` where nothing is."""
        with self._changing():
            ended = self._in_force(name)
            if not ended:
                raise InputError(f"there is no certificate in force for {name!r}; see `enginebench ca list`")
            revoked = tuple(replace(each, revoked_at_unix_s=int(self.clock().timestamp())) for each in ended)
            new = {each.serial: each for each in revoked}
            issued = tuple(new.get(each.serial, each) for each in self.certificates())
            # The list first: a record of a revocation that no list carries would look done.
            self._write_revocations(self._issuer(), issued)
            write_issued(self._issued_file, issued)
            return revoked

    def certificates(self) -> tuple[Issued, ...]:
        """Whatever was issued, the newest last."""
        self._require()
        return read_issued(self._issued_file)

    def ends_at(self) -> datetime:
        """When the authority's own certificate ends."""
        return self._certificate().not_valid_after_utc

    def begins_at(self) -> datetime:
        """When the authority's own certificate begins; later than now, where a clock was fast when it was made."""
        return self._certificate().not_valid_before_utc

    def _create(self, name: str, days: int) -> None:
        make_private_folder(self.folder.parent)
        begin = self.clock()
        issuer = certificates.authority_certificate(
            certificates.make_key(), name, begin - CLOCK_SKEW, begin + timedelta(days=days)
        )
        with tempfile.TemporaryDirectory(prefix=".ca-", dir=self.folder.parent) as scratch:
            made = Authority(Path(scratch) / "ca", self.clock)
            made.folder.mkdir(PRIVATE_FOLDER)
            write_whole(made._key_file, certificates.key_pem(issuer.key), mode=PRIVATE)
            write_whole(made.certificate_file, certificates.pem(issuer.certificate), mode=PRIVATE)
            made._write_revocations(issuer, ())
            write_issued(made._issued_file, ())
            made.folder.rename(self.folder)  # fails where another was made meanwhile

    def _sign(self, wish: Issued, period: timedelta, public: ec.EllipticCurvePublicKey) -> Bundle:
        issuer = self._issuer()
        issued = self._dated(wish, period, issuer.certificate)
        certificate = certificates.signed_certificate(issuer, public, issued)
        # Recorded before it is handed out: what is not on record could not be revoked.
        write_issued(self._issued_file, (*self.certificates(), issued))
        return Bundle(
            issued,
            certificates.pem(certificate),
            certificates.pem(issuer.certificate),
            self.revocations_file.read_bytes(),
        )

    def _dated(self, wish: Issued, period: timedelta, own: x509.Certificate) -> Issued:
        now, earliest, latest = self.clock(), own.not_valid_before_utc, own.not_valid_after_utc
        if now < earliest:
            raise InputError(
                f"the certificate authority in {self.folder} begins at {earliest:%Y-%m-%d %H:%M} UTC, and the clock of "
                f"this machine says {now:%Y-%m-%d %H:%M} UTC: set the clock; or, where it was wrong when the authority "
                "was made, move that folder away, make another with `enginebench ca create`, and issue all "
                "certificates anew"
            )
        end = min(now + period, latest)
        if end <= now:
            raise InputError(
                f"the certificate authority in {self.folder} ended at {latest:%Y-%m-%d %H:%M} UTC: move that folder "
                "away, make another with `enginebench ca create`, and issue all certificates anew"
            )
        return replace(
            wish,
            serial=f"{x509.random_serial_number():x}",
            begins_at_unix_s=int((now - CLOCK_SKEW).timestamp()),
            ends_at_unix_s=int(end.timestamp()),
        )

    def _in_force(self, name: str) -> list[Issued]:
        over = (CertificateState.EXPIRED, CertificateState.REVOKED)
        return [each for each in self.certificates() if each.name == name and each.state(self.clock()) not in over]

    def _issuer(self) -> Issuer:
        with _readable(self._key_file):
            key = serialization.load_pem_private_key(self._key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InputError(f"{self._key_file} is no key of the kind that `enginebench ca create` makes")
        return Issuer(self._certificate(), key)

    def _certificate(self) -> x509.Certificate:
        self._require()
        with _readable(self.certificate_file):
            return x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    def _write_revocations(self, issuer: Issuer, issued: Sequence[Issued]) -> None:
        revoked = certificates.revocation_list(issuer, issued, self.clock())
        write_whole(self.revocations_file, certificates.pem(revoked), mode=PRIVATE)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._require()
        try:
            with FileLock(self.folder / "ca.lock", mode=0o600):
                yield
        except OSError as error:
            raise InputError(
                f"cannot write to {self.folder} ({error.strerror or error}): nothing was handed out; make that "
                "possible and do the same again"
            ) from error

    def _require(self) -> None:
        if not self._key_file.exists():
            raise InputError(
                f"there is no certificate authority in {self.folder}: make one with `enginebench ca create`"
            )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read {path} ({error}): restore it from a backup") from error


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a certificate: use up to 63 letters, digits, '.', '-' or '_'")


def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if len(host) > _MAX_HOST_CHARS or not _HOST.fullmatch(host):
            raise InputError(
                f"{host!r} is no host: write the name or address by which controllers reach the agent, without a port"
            ) from None
