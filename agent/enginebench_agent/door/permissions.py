"""Who may call what: one table, from every method the agent serves to the least role that may call it."""

from collections.abc import Mapping
from dataclasses import dataclass

from enginebench_agent.errors import ForbiddenError
from enginebench_proto.agreed.roles import Role


@dataclass(frozen=True)
class Peer:
    """A caller: the name on its certificate and its role; None where there is no certificate, or no role on it."""

    name: str | None
    role: Role | None


THIS_MACHINE = Peer(None, Role.ADMIN)
"""Who calls over loopback in plain text: somebody with an account on this machine."""

LEAST_ROLE: Mapping[str, Role] = {
    "/enginebench.v1.AgentService/GetHost": Role.READ,
    "/enginebench.v1.AgentService/ListEngines": Role.READ,
    "/enginebench.v1.ModelService/FindMissing": Role.READ,
    "/enginebench.v1.ModelService/Upload": Role.RUN,
    "/enginebench.v1.ModelService/ListFiles": Role.READ,
    "/enginebench.v1.ModelService/DeleteFile": Role.ADMIN,
    "/enginebench.v1.RunService/Start": Role.RUN,
    "/enginebench.v1.RunService/Watch": Role.READ,
    "/enginebench.v1.RunService/Cancel": Role.RUN,
    "/enginebench.v1.RunService/Result": Role.READ,
    "/enginebench.v1.RunService/Acknowledge": Role.RUN,
    "/enginebench.v1.RunService/List": Role.READ,
    "/enginebench.v1.ReservationService/Reserve": Role.RUN,
    "/enginebench.v1.ReservationService/Release": Role.RUN,
    "/grpc.health.v1.Health/Check": Role.READ,
    "/grpc.health.v1.Health/List": Role.READ,
    "/grpc.health.v1.Health/Watch": Role.READ,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Role.READ,
}
"""A method that is not here is refused to everybody."""


def check_allowed(peer: Peer, method: str) -> None:
    """Refuse a caller whose role is too small for a method. Raises `ForbiddenError`."""
    least = LEAST_ROLE.get(method)
    if least is None:
        raise ForbiddenError(f"{method} is open to no role on this agent.")
    if peer.role is None:
        raise ForbiddenError(
            f"the certificate of {peer.name!r} has no role: ask whoever keeps the certificate authority for one of "
            "`enginebench ca issue client`."
        )
    if not peer.role.covers(least):
        raise ForbiddenError(
            f"the certificate of {peer.name!r} has the role {peer.role}, and {_short(method)} needs {least}: "
            f"ask whoever keeps the certificate authority for one with the role {least}."
        )


def changes_something(method: str) -> bool:
    """Whether a method does more than tell what is there."""
    return LEAST_ROLE[method] is not Role.READ


def _short(method: str) -> str:
    return method.rpartition(".")[2]
