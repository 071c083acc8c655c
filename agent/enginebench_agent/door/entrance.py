"""How one gets in: mutual TLS where its files are, plain text on loopback only, and nothing else."""

import contextlib
import importlib.util
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginebench_agent.door.permissions import THIS_MACHINE, Peer
from enginebench_agent.errors import SetupError


@dataclass(frozen=True)
class Entrance:
    """`credentials` for the port, None for plain text; `identify` tells the caller of a call.

    `names` are the hosts that the certificate is for, at the start: what callers may dial.
    """

    credentials: Any | None
    identify: Callable[[Any], Peer]
    names: tuple[str, ...] = ()

    def add_port(self, server: Any, address: str) -> int:
        """Open the port at an address; returns its number. Raises `RuntimeError` as gRPC does."""
        if self.credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, self.credentials))


def make_entrance(host: str, tls: Path, *, is_tls_asked: bool, is_plain_asked: bool) -> Entrance:
    """Mutual TLS with the files of the folder `tls` where it has any or it is asked for, else plain text.

    Raises `SetupError` where plain text would be reachable from elsewhere, and where the files are not in order.
    """
    if not is_plain_asked and (is_tls_asked or _has_files(tls)):
        return _mutual_tls(tls)
    if not _is_loopback(host):
        raise SetupError(
            f"will not listen on {host} without mutual TLS, as anybody who reaches the port could run models here: put "
            f"the files that `enginebench ca issue agent NAME --host HOST` writes into {tls}, or listen on 127.0.0.1"
        )
    return Entrance(None, lambda _context: THIS_MACHINE)


def require_cryptography() -> None:
    """Raise `SetupError` where what mutual TLS needs is not installed: the base does without."""
    if importlib.util.find_spec("cryptography") is None:
        raise SetupError('mutual TLS needs the package cryptography: run `pip install "enginebench[tls]"`')


def _mutual_tls(folder: Path) -> Entrance:
    require_cryptography()
    # cryptography is loaded only where it is needed
    from enginebench_agent.door.tls import (  # noqa: PLC0415
        MaterialFolder,
        certified_names,
        peer_of,
        server_credentials,
    )

    material = MaterialFolder(folder)
    return Entrance(
        server_credentials(material),
        lambda context: peer_of(context, material.current()),
        certified_names(material.current()),
    )


def _has_files(folder: Path) -> bool:
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise SetupError(
            f"cannot look for TLS files in {folder} ({error.strerror}): let this user read it, or name another with "
            "--tls"
        ) from error


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False
