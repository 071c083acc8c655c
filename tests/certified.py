"""A real certificate authority for tests, and the folders that its agents and clients keep."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc

from enginebench_controller.targets.authority.authority import Authority
from enginebench_controller.targets.authority.issued import Bundle
from enginebench_proto.agreed.roles import CertificateKind, Role

HOST = "127.0.0.1"
DAY = timedelta(days=1)


class Certified:
    """An authority below `folder`, usually made a month ago, so that it could issue what has ended meanwhile."""

    def __init__(self, folder: Path, made_in: timedelta = -30 * DAY) -> None:
        self.folder = folder
        self.authority = Authority(folder / "ca")
        self._at(datetime.now(UTC) + made_in).create("tests", 60)

    def agent(self, name: str = "agent", host: str = HOST) -> Path:
        """A TLS folder of an agent."""
        return self.written(self.authority.issue(CertificateKind.AGENT, name, 10, hosts=[host]))

    def client(self, name: str, role: Role = Role.RUN, ends_in: timedelta = 10 * DAY) -> Path:
        """A TLS folder of a client; a negative `ends_in` makes a certificate that has ended."""
        issuer = self._at(datetime.now(UTC) + ends_in - 10 * DAY)
        return self.written(issuer.issue(CertificateKind.CLIENT, name, 10, role=role))

    def written(self, bundle: Bundle) -> Path:
        """The folder of a bundle's name, with its files."""
        folder = self.folder / bundle.issued.name
        bundle.write(folder)
        return folder

    def _at(self, now: datetime) -> Authority:
        return Authority(self.authority.folder, lambda: now)


def credentials(client: Path | None, ca: Path) -> grpc.ChannelCredentials:
    """What a client shows (None: nothing) and the folder of the authority it believes."""
    root = (ca / "ca.crt").read_bytes()
    if client is None:
        return grpc.ssl_channel_credentials(root)
    return grpc.ssl_channel_credentials(
        root, (client / "client.key").read_bytes(), (client / "client.crt").read_bytes()
    )
