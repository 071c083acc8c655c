"""An index of packages that takes every question and never answers, so that pip is at work for as long as a test."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class SilentIndex:
    """What pip asks that is started with the `variables`."""

    server: socket.socket

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "PIP_INDEX_URL": f"http://127.0.0.1:{self.server.getsockname()[1]}/simple",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_TIMEOUT": "600",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def asked(self) -> socket.socket:
        """Wait for a pip that asks; returns the connection to it."""
        connection, _ = self.server.accept()
        connection.settimeout(30)
        return connection


@contextmanager
def silent_index() -> Iterator[SilentIndex]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        yield SilentIndex(server)


def wait_for_the_end_of(connection: socket.socket) -> None:
    """Wait until the process at the other end is gone; raises `TimeoutError` where it stays."""
    while connection.recv(4096):
        pass
