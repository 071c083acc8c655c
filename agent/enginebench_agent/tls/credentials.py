"""What gRPC asks at each handshake: the agent's certificate, and which authority vouches for its callers."""

from collections.abc import Callable
from typing import Any

import grpc

from enginebench_agent.authorization import Peer
from enginebench_agent.tls.identity import peer_of
from enginebench_agent.tls.material import Material, MaterialFolder


def server_credentials(folder: MaterialFolder) -> Any:
    """Credentials that refuse a handshake without a certificate of the authority, and follow what the folder holds."""
    first = folder.current()
    shown = first

    def renewed() -> Any:
        nonlocal shown
        current = folder.current()
        if current is shown:
            return None
        shown = current
        return _configuration(current)

    return grpc.dynamic_ssl_server_credentials(_configuration(first), renewed, require_client_authentication=True)


def identify(folder: MaterialFolder) -> Callable[[Any], Peer]:
    """Tells the caller of a call by its certificate and the folder's present files."""
    return lambda context: peer_of(context, folder.current())


def _configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key_pem, material.certificate_pem)], root_certificates=material.ca_pem
    )
