"""New targets: what may be their name and their address.

An address is HOST:PORT. Beyond this machine it means mutual TLS; on loopback it means plain text, and mutual TLS with
`tls://` before it. ssh://USER@HOST is an agent on another machine's loopback, through a tunnel.
"""

import contextlib
import ipaddress
import re
import socket
import time

from enginebench_controller.errors import InputError, UnreachableError
from enginebench_controller.records import LOCAL_TARGET, Target
from enginebench_controller.running.ssh import MAX_PORT, SCHEME, SshPlace, is_ssh

TLS_PREFIX = "tls://"
_HOST = re.compile(r"[^\s/:@\[\]]+|\[[0-9A-Fa-f:.]+(%\w+)?\]")
"""A name, or a number; those with colons in brackets, as gRPC takes a bare one for a name and a port."""

UNIX_PREFIX = "unix:"
"""The near end of a tunnel."""


def new_target(name: str, address: str, *, tls: bool = False) -> Target:
    """A target added now, by mutual TLS also on loopback where `tls`.

    Raises `InputError` for a name or an address that cannot be one.
    """
    if name == LOCAL_TARGET or not name or not all(character.isalnum() or character in "-_." for character in name):
        raise InputError(f"{name!r} cannot name a target: use letters, digits, '-', '_' or '.', and not 'local'")
    if is_ssh(address):
        return Target(name, SshPlace.parse(address).address, time.time_ns())
    check_address(address)
    bare = host_and_port(address)
    secured = (tls or bare != address) and _is_loopback(bare)
    return Target(name, TLS_PREFIX + bare if secured else bare, time.time_ns())


def check_address(address: str) -> None:
    """Raise `InputError` for what cannot be the address of an agent."""
    if is_ssh(address):
        SshPlace.parse(address)
        return
    scheme, separator, _ = address.rpartition("://")
    if separator and scheme + separator != TLS_PREFIX:
        raise InputError(
            f"{address[:200]!r} is no address of an agent, which does not speak {scheme[:20]}: write HOST:PORT, such "
            "as nuc.local:50151"
        )
    host, _, port = host_and_port(address).rpartition(":")
    if host and port.isdecimal() and not 0 < int(port[:20]) <= MAX_PORT:
        raise InputError(f"{address[:200]!r} is not an address: {port[:20]} is no port, which are 1 to {MAX_PORT}")
    if not host or not port.isdecimal() or not _HOST.fullmatch(host):
        raise InputError(
            f"{address[:200]!r} is not an address: write HOST:PORT, such as nuc.local:50151, or ssh://USER@HOST for an "
            "agent that listens on loopback there"
        )


def refuse_unknown_host(address: str) -> None:
    """Raise `UnreachableError` where no machine has the name in the address. Takes as long as the resolver does."""
    host = host_and_port(address).rpartition(":")[0].strip("[]")
    try:
        socket.getaddrinfo(host, None)
    except (socket.gaierror, UnicodeError):
        raise UnreachableError(
            f"no machine called {host!r} is known here: correct the address, or make the name known in DNS or "
            "/etc/hosts",
            lasting=True,
        ) from None


def uses_tls(address: str) -> bool:
    """Whether a target is spoken to by mutual TLS: not through a tunnel, which has SSH for that."""
    return address.startswith(TLS_PREFIX) or not (uses_tunnel(address) or _is_loopback(address))


def uses_tunnel(address: str) -> bool:
    """Whether an address, of a target or of the near end of a tunnel, leads over SSH."""
    return address.startswith((SCHEME, UNIX_PREFIX))


def host_and_port(address: str) -> str:
    """The address as gRPC wants it."""
    return address.removeprefix(TLS_PREFIX)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False
