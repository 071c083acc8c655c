"""Agents that announce themselves on the local network, by multicast DNS (RFC 6762, RFC 6763).

Anybody on the network can announce anything: what is heard is where to ask, and nothing is believed of it. Imported
only where it is asked for: the library is an extra.
"""

import asyncio
import contextlib
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.records import Target
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.health import Health, HealthAnswer, ask_health
from enginebench_proto.agreed.meeting import SERVICE_TYPE

MOST_HINTS = 32
MOST_ADDRESSES = 4
"""Of one hint: a network may say whatever it likes, and as much."""

_ASK_MS = 1000
_LONGEST_NAME = 63
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+")
"""Host names, IPv4 and IPv6 addresses."""
_SCHEMES = frozenset({"dns", "google-c2p", "ipv4", "ipv6", "unix", "unix-abstract", "vsock", "xds"})
"""What gRPC takes for the kind of an address: "unix:50151" is a socket of this machine."""
_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Announcement:
    """What somebody on the network said: a name, and where an agent is, as targets to be spoken to by mutual TLS."""

    name: str
    places: tuple[Target, ...]


def listen(seconds: float, interfaces: Sequence[str] = ()) -> tuple[Announcement, ...]:
    """What is announced within so many seconds, by name; no more than `MOST_HINTS`. Takes up to a second longer.

    `interfaces` are IPv4 addresses of this machine, by default all. Raises `InputError` for what is none, and
    `EnginebenchError` where there is no network to listen to.
    """
    for interface in interfaces:
        try:
            ipaddress.IPv4Address(interface)
        except ValueError as error:
            raise InputError(
                f"{interface!r} is no IPv4 address: name one of this machine's, such as 10.0.0.2"
            ) from error
    try:
        services = asyncio.run(_heard(seconds, list(interfaces) or zeroconf.InterfaceChoice.All))
    except (OSError, RuntimeError) as error:  # the latter on a machine without an address
        reason = getattr(error, "strerror", None) or error
        raise EnginebenchError(
            f"cannot listen for announcements on this network ({reason}): add targets by their address, with "
            "`enginebench targets add NAME HOST:PORT`"
        ) from error
    hints = map(_hint, services)
    return tuple(sorted((hint for hint in hints if hint.places), key=lambda hint: hint.name))


def ask_hints(hints: Sequence[Announcement], limit_s: float, tls: Path | None = None) -> list[HealthAnswer]:
    """What answers for each hint: at the first of its places that serves and belongs to us, else at its first.

    Asks 32 places at once, and takes about `limit_s` for them; see `ask_health`.
    """
    answers = iter(ask_health([place for hint in hints for place in hint.places], limit_s, tls))
    found = []
    for hint in hints:
        those = [next(answers) for _ in hint.places]
        found.append(next((one for one in those if one.health is Health.SERVING), those[0]))
    return found


async def _heard(seconds: float, interfaces: list[str] | zeroconf.InterfaceChoice) -> list[AsyncServiceInfo]:
    # A name that cannot be sent back fails in a timer of the library's, which would print a traceback.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    names = _Names()
    async with AsyncZeroconf(interfaces=interfaces) as network:
        browser = AsyncServiceBrowser(network.zeroconf, SERVICE_TYPE, listener=names)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(names.enough.wait(), seconds)
        await browser.async_cancel()
        services = [service for name in names.heard if (service := _service(name))]
        answers = (service.async_request(network.zeroconf, _ASK_MS) for service in services)
        told = await asyncio.gather(*answers, return_exceptions=True)
    return [service for service, is_told in zip(services, told, strict=True) if is_told is True]


class _Names(zeroconf.ServiceListener):
    """The names heard; `enough` is set when there are as many as are wanted."""

    def __init__(self) -> None:
        self.heard: dict[str, None] = {}
        self.enough = asyncio.Event()

    def add_service(self, zc: zeroconf.Zeroconf, type_: str, name: str) -> None:
        """One more, unless it is of another type, as anybody may say."""
        if name.lower().endswith(f".{SERVICE_TYPE}"):
            self.heard[name] = None
        if len(self.heard) >= MOST_HINTS:
            self.enough.set()

    def update_service(self, zc: zeroconf.Zeroconf, type_: str, name: str) -> None:
        """Nothing: what counts is asked for in the end."""

    def remove_service(self, zc: zeroconf.Zeroconf, type_: str, name: str) -> None:
        """One less."""
        self.heard.pop(name, None)


def _service(name: str) -> AsyncServiceInfo | None:
    with contextlib.suppress(zeroconf.Error, IndexError, ValueError):  # what is no name by the rules of DNS-SD
        return AsyncServiceInfo(SERVICE_TYPE, name)
    return None


def _hint(service: AsyncServiceInfo) -> Announcement:
    name = _NO_PART_OF_A_NAME.sub("-", service.get_name())[:_LONGEST_NAME].strip("-") or "agent"
    if name == "local":  # this machine's own
        name = "local-1"
    told = (service.decoded_properties.get("names") or "").split(",")
    # The certificate is for these names; addresses count where none of them can be dialled.
    places = _places(name, told, service.port)
    return Announcement(
        name, places or _places(name, service.parsed_addresses(zeroconf.IPVersion.V4Only), service.port)
    )


def _places(name: str, hosts: Sequence[str], port: int | None) -> tuple[Target, ...]:
    places = []
    for host in hosts[:MOST_ADDRESSES]:
        if _HOST.fullmatch(host) and host.lower() not in _SCHEMES:
            with contextlib.suppress(InputError):  # of what cannot be an address, nothing comes
                places.append(new_target(name, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", tls=True))
    return tuple(places)
