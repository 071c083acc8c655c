"""`health`: whether an agent answers, asked as systemd, a container engine or a person would."""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

# A proxy is for the world outside; the agent of this machine is not behind it.
_OPTIONS = (("grpc.enable_http_proxy", 0),)


class UnhealthyError(Exception):
    """The agent does not answer, or says that it is not serving; the text is one sentence."""


def check_health(address: str, limit_seconds: float) -> None:
    """Ask the standard health service. Raises `UnhealthyError`."""
    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=limit_seconds)
        except grpc.RpcError as error:
            raise UnhealthyError(
                f"no agent answers at {address} ({error.code().name}): start `enginebench-agent serve`, "
                "or look at its output"
            ) from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnhealthyError(f"the agent at {address} answers that it is not serving: look at its output")
