"""What a caller may do, and how a certificate says so."""

from collections.abc import Collection
from enum import StrEnum

_ROLE_URI = "urn:enginebench:role:"


class CertificateKind(StrEnum):
    """Which side of a connection a certificate is for."""

    AGENT = "agent"
    CLIENT = "client"


class Role(StrEnum):
    """What a caller may do, each more than the one before: look; run, cancel and upload; delete.

    They are compared with `covers`: as texts they have another order.
    """

    READ = "read"
    RUN = "run"
    ADMIN = "admin"

    def covers(self, least: "Role") -> bool:
        """Whether this role may do what the other one may."""
        order = list(Role)
        return order.index(self) >= order.index(least)

    @property
    def uri(self) -> str:
        """As it stands in a certificate."""
        return f"{_ROLE_URI}{self}"


def role_of(uris: Collection[str]) -> Role | None:
    """The role that the URIs of a certificate name; None where they name none."""
    return next((role for role in Role if role.uri in uris), None)
