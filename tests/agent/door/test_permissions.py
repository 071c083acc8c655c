"""Who may call what: every method the agent serves × every kind of caller, over real sockets and real certificates."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from agent_server import AgentProcess
from certified import DAY, Certified, credentials
from enginebench_agent.door.audit import AuditLog
from enginebench_agent.door.interceptors import Guarding
from enginebench_agent.door.permissions import THIS_MACHINE
from enginebench_proto.agreed.roles import Role
from enginebench_proto.v1 import agent_pb2, model_pb2, reservation_pb2, run_pb2

OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED

FILES = (agent_pb2, model_pb2, run_pb2, reservation_pb2, health_pb2, reflection_pb2)
SERVICES = [service for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
METHODS = {f"{service.full_name}/{method.name}": method for service in SERVICES for method in service.methods}

LEAST = {
    "enginebench.v1.AgentService/GetHost": (Role.READ, OK),
    "enginebench.v1.AgentService/ListEngines": (Role.READ, OK),
    "enginebench.v1.ModelService/FindMissing": (Role.READ, OK),
    "enginebench.v1.ModelService/Upload": (Role.RUN, INVALID),
    "enginebench.v1.ModelService/ListFiles": (Role.READ, OK),
    "enginebench.v1.ModelService/DeleteFile": (Role.ADMIN, INVALID),
    "enginebench.v1.RunService/Start": (Role.RUN, INVALID),
    "enginebench.v1.RunService/Watch": (Role.READ, NOT_FOUND),
    "enginebench.v1.RunService/Cancel": (Role.RUN, NOT_FOUND),
    "enginebench.v1.RunService/Result": (Role.READ, NOT_FOUND),
    "enginebench.v1.RunService/Acknowledge": (Role.RUN, INVALID),
    "enginebench.v1.RunService/List": (Role.READ, OK),
    "enginebench.v1.ReservationService/Reserve": (Role.RUN, INVALID),
    "enginebench.v1.ReservationService/Release": (Role.RUN, OK),
    "grpc.health.v1.Health/Check": (Role.READ, OK),
    "grpc.health.v1.Health/List": (Role.READ, grpc.StatusCode.UNIMPLEMENTED),
    "grpc.health.v1.Health/Watch": (Role.READ, OK),
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": (Role.READ, OK),
}
"""The least role, and what an empty request meets once it is let in."""

OUTSIDERS = {
    "no certificate": UNAVAILABLE,
    "foreign authority": UNAVAILABLE,
    "expired": UNAVAILABLE,
    "an agent's certificate": UNAVAILABLE,
    # The caller dials the agent by a name its certificate does not hold, and hangs up.
    "wrong name": UNAVAILABLE,
    "plain text": UNAVAILABLE,
    "revoked": UNAUTHENTICATED,
}
INSIDERS = {"read": Role.READ, "run": Role.RUN, "admin": Role.ADMIN}
ROLES = tuple(Role)


@dataclass(frozen=True)
class House:
    """An agent behind mutual TLS, and a channel of every kind of caller."""

    agent: AgentProcess
    channels: dict[str, grpc.Channel]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    own = Certified(tmp_path_factory.mktemp("own"))
    foreign = Certified(tmp_path_factory.mktemp("foreign"))
    own.client("revoked")
    own.authority.revoke("revoked")
    tls = own.agent()
    agent = AgentProcess(tmp_path_factory.mktemp("agent"), "--tls", str(tls))
    channels = {name: secure(agent.address, own.client(name, role), tls) for name, role in INSIDERS.items()}
    channels |= {
        "no certificate": secure(agent.address, None, tls),
        "foreign authority": secure(agent.address, foreign.client("admin", Role.ADMIN), tls),
        "expired": secure(agent.address, own.client("expired", Role.ADMIN, ends_in=timedelta(seconds=-1)), tls),
        "an agent's certificate": secure(agent.address, as_client(own.agent("other"), own.folder / "posing"), tls),
        "wrong name": secure(agent.address.replace("127.0.0.1", "localhost"), own.folder / "admin", tls),
        "plain text": grpc.insecure_channel(agent.address),
        "revoked": secure(agent.address, own.folder / "revoked", tls),
    }
    yield House(agent, channels)
    for channel in channels.values():
        channel.close()
    agent.stop()


def secure(address: str, client: Path | None, ca: Path) -> grpc.Channel:
    return grpc.secure_channel(address, credentials(client, ca))


def as_client(agent: Path, folder: Path) -> Path:
    """An agent's certificate and key under the names of a client's."""
    folder.mkdir()
    for ending in ("crt", "key"):
        (folder / f"client.{ending}").write_bytes((agent / f"agent.{ending}").read_bytes())
    return folder


def status_of(channel: grpc.Channel, path: str) -> grpc.StatusCode:
    """How an empty request ends; a stream of answers that begins is well."""
    method = METHODS[path]
    kind = "_".join("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
    try:
        answer = getattr(channel, kind)(f"/{path}")(iter([b""]) if method.client_streaming else b"", timeout=30)
        if method.server_streaming:
            next(answer)
            answer.cancel()
    except grpc.RpcError as error:
        return error.code()
    return OK


def test_every_method_of_every_service_has_its_line() -> None:
    assert set(METHODS) == set(LEAST)


@pytest.mark.slow
def test_the_agent_serves_no_other_service(house: House) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(house.channels["admin"])
    (answer,) = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    served = {service.name for service in answer.list_services_response.service}
    assert served == {service.full_name for service in SERVICES}


@pytest.mark.slow
@pytest.mark.fault(14)
@pytest.mark.parametrize("path", METHODS)
@pytest.mark.parametrize("caller", OUTSIDERS)
def test_who_does_not_belong_calls_nothing(house: House, caller: str, path: str) -> None:
    assert status_of(house.channels[caller], path) is OUTSIDERS[caller]


@pytest.mark.fault(14)
@pytest.mark.fault(15)
@pytest.mark.parametrize("path", METHODS)
@pytest.mark.parametrize("caller", INSIDERS)
def test_a_role_calls_what_it_may_and_no_more(house: House, caller: str, path: str) -> None:
    least, status = LEAST.get(path, (None, None))
    assert least is not None, f"{path} has no line in this table"
    may = ROLES.index(INSIDERS[caller]) >= ROLES.index(least)
    assert status_of(house.channels[caller], path) is (status if may else DENIED)


@pytest.mark.fault(14)
def test_the_refusal_tells_the_role_and_what_to_do(house: House) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        house.channels["read"].unary_unary("/enginebench.v1.RunService/Start")(b"")
    sentence = "the certificate of 'read' has the role read, and RunService/Start needs run: ask whoever keeps"
    assert sentence in refused.value.details()


async def test_a_method_without_a_line_is_refused_to_everybody(tmp_path: Path) -> None:
    async def new_method(_request: bytes, _context: Any) -> bytes:
        return b"done"

    path = "/enginebench.v1.RunService/NewMethod"
    handler = grpc.method_handlers_generic_handler(
        "enginebench.v1.RunService", {"NewMethod": grpc.unary_unary_rpc_method_handler(new_method)}
    )
    guard = Guarding(lambda _context: THIS_MACHINE, AuditLog(tmp_path / "audit.log"))
    server = grpc.aio.server(interceptors=[guard])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(path)(b"")
    await server.stop(None)
    assert refused.value.code() is DENIED


@pytest.mark.slow
def test_certificates_of_the_past_and_the_future_differ_by_their_end_only(tmp_path: Path) -> None:
    """The expired caller of the matrix is refused for its end alone: the same with a later end is let in."""
    own = Certified(tmp_path)
    tls = own.agent()
    agent = AgentProcess(tmp_path / "data", "--tls", str(tls))
    try:
        with secure(agent.address, own.client("late", Role.ADMIN, ends_in=DAY), tls) as channel:
            assert status_of(channel, "enginebench.v1.AgentService/GetHost") is OK
    finally:
        agent.stop()
