"""How every channel to an agent is made: plain text to this machine, mutual TLS to any other."""

from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.running.client_certificate import client_credentials
from enginebench_controller.running.target_address import host_and_port, refuse_unknown_host, uses_tls

# keepalive_timeout_ms alone leaves a stopped peer unnoticed for a minute: the transport's own ping timer decides.
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.enable_http_proxy", 0),
    # The profile of a large network comes in one message.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


def open_channel(library: Any, address: str, tls: Path | None = None) -> Any:
    """Make a channel of `grpc` or of `grpc.aio`, whichever `library` is, to a target's address.

    `tls` is the folder of the client's certificate, by default that of the user's home. The agent must show a
    certificate of the same authority for the host in the address. Raises `InputError` where TLS is needed and the
    client's certificate is missing or of no use any more.
    """
    if not uses_tls(address):
        return library.insecure_channel(host_and_port(address), options=CHANNEL_OPTIONS)
    try:
        credentials = client_credentials(tls or default_home().tls)
    except InputError:
        refuse_unknown_host(address)  # which no certificate would help
        raise
    return library.secure_channel(host_and_port(address), credentials, options=CHANNEL_OPTIONS)
