"""`health`: whether an agent answers, asked as systemd, a container engine or a person would."""

from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from enginebench_proto.agreed.meeting import CA_CERTIFICATE, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind

# A proxy is for the world outside; the agent of this machine is not behind it.
_OPTIONS = (("grpc.enable_http_proxy", 0),)
_CLIENT_FILES = (CA_CERTIFICATE, key_name(CertificateKind.CLIENT), certificate_name(CertificateKind.CLIENT))


class UnhealthyError(Exception):
    """The agent does not answer, or says that it is not serving; the text is one sentence."""


def check_health(address: str, limit_seconds: float, tls: Path | None = None) -> None:
    """Ask the standard health service; over mutual TLS with the client's certificate of the folder `tls`, where given.

    Raises `UnhealthyError`.
    """
    with _channel(address, tls) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=limit_seconds)
        except grpc.RpcError as error:
            raise UnhealthyError(_unanswered(address, error, tls)) from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnhealthyError(f"the agent at {address} answers that it is not serving: look at its output")


def _channel(address: str, tls: Path | None) -> Any:
    if tls is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(*(_read(tls / name) for name in _CLIENT_FILES))
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnhealthyError(
            f"cannot read {path} ({error.strerror}): --tls takes a folder that `enginebench ca issue client NAME "
            "--read-only --out DIR` made"
        ) from error


def _unanswered(address: str, error: grpc.RpcError, tls: Path | None) -> str:
    reason = f"no agent answers at {address} ({error.code().name})"
    start = "start `enginebench-agent serve`, or look at its output"
    if tls is None:
        return f"{reason}: {start}; one that wants certificates is asked with --tls DIR"
    return f"{reason}, {error.details()}: {start}; its certificate has to name the host of that address"
