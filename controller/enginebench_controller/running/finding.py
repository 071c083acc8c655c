"""Agents that announce themselves on the local network, by multicast DNS (RFC 6762, RFC 6763).

Anybody on the network can announce anything: what is heard is where to ask, and nothing is believed of it. Imported
only where it is asked for: the library is an extra.
"""

import contextlib
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zeroconf

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.records import Target
from enginebench_controller.running.health import Health, HealthAnswer, ask_health
from enginebench_controller.running.target_address import new_target, uses_tls

SERVICE_TYPE = "_enginebench._tcp.local."
MOST_HINTS = 100
MOST_ADDRESSES = 4
"""Of one hint: a network may say whatever it likes, and as much."""

_ASK_MS = 1000
_LONGEST_NAME = 63
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+")
"""Host names, IPv4 and IPv6 addresses."""
_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Hint:
    """What somebody on the network said: a name, and where an agent is, as targets to be spoken to by mutual TLS."""

    name: str
    places: tuple[Target, ...]


def listen(seconds: float, interfaces: Sequence[str] = ()) -> tuple[Hint, ...]:
    """What is announced within so many seconds, by name; no more than `MOST_HINTS`.

    `interfaces` are IPv4 addresses of this machine, by default all. Raises `EnginebenchError` where there is no network
    to listen to.
    """
    try:
        network = zeroconf.Zeroconf(interfaces=list(interfaces) or zeroconf.InterfaceChoice.All)
    except OSError as error:
        raise EnginebenchError(
            f"cannot listen for announcements on this network ({error.strerror or error}): add targets by their "
            "address, with `enginebench targets add NAME HOST:PORT`"
        ) from error
    heard = _Heard()
    with contextlib.closing(network):
        zeroconf.ServiceBrowser(network, SERVICE_TYPE, heard)
        heard.enough.wait(seconds)
        services = [_asked(network, name) for name in heard.names()]
    hints = (_hint(service) for service in services if service is not None)
    return tuple(sorted((hint for hint in hints if hint.places), key=lambda hint: hint.name))


def ask_hints(hints: Sequence[Hint], limit_s: float, tls: Path | None = None) -> list[HealthAnswer]:
    """What answers for each hint: at the first of its places that serves and belongs to us, else at its first.

    Takes about `limit_s`; see `ask_health`.
    """
    answers = iter(ask_health([place for hint in hints for place in hint.places], limit_s, tls))
    found = []
    for hint in hints:
        those = [next(answers) for _ in hint.places]
        found.append(next((one for one in those if one.health is Health.SERVING), those[0]))
    return found


class _Heard(zeroconf.ServiceListener):
    """Collects names, from zeroconf's own thread; `enough` is set when there are as many as are wanted."""

    def __init__(self) -> None:
        self.enough = threading.Event()
        self._names: dict[str, None] = {}

    def names(self) -> list[str]:
        return list(self._names)[:MOST_HINTS]

    def add_service(self, zc: zeroconf.Zeroconf, type_: str, name: str) -> None:
        if len(self._names) < MOST_HINTS:
            self._names[name] = None
        else:
            self.enough.set()

    def update_service(self, zc: zeroconf.Zeroconf, type_: str, name: str) -> None:
        """Nothing: what counts is asked for in the end."""

    def remove_service(self, zc: zeroconf.Zeroconf, type_: str, name: str) -> None:
        self._names.pop(name, None)


def _asked(network: zeroconf.Zeroconf, name: str) -> zeroconf.ServiceInfo | None:
    with contextlib.suppress(zeroconf.Error):  # what is no name by the rules of DNS-SD
        return network.get_service_info(SERVICE_TYPE, name, _ASK_MS)
    return None


def _hint(service: zeroconf.ServiceInfo) -> Hint:
    name = _NO_PART_OF_A_NAME.sub("-", service.get_name())[:_LONGEST_NAME].strip("-") or "agent"
    if name == "local":  # this machine's own
        name = "local-1"
    told = service.decoded_properties.get("names") or ""
    # The certificate is for these names; addresses count where nothing was said of them.
    hosts = told.split(",") if told else service.parsed_addresses(zeroconf.IPVersion.V4Only)
    return Hint(name, tuple(_places(name, hosts[:MOST_ADDRESSES], service.port)))


def _places(name: str, hosts: Sequence[str], port: int | None) -> list[Target]:
    places = []
    for host in filter(_HOST.fullmatch, hosts):
        with contextlib.suppress(InputError):  # of what cannot be an address, nothing comes
            places.append(new_target(name, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", tls=True))
    return [place for place in places if uses_tls(place.address)]  # "unix:" would be a socket of this machine
