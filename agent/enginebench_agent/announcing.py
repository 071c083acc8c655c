"""Telling the local network that an agent is here, by multicast DNS (RFC 6762, RFC 6763): a hint, and no proof of it.

Imported only where it is asked for: the library is an extra. Whoever follows the hint still has to show a certificate,
and so has the agent.
"""

import contextlib
import importlib.metadata
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Sequence

import ifaddr
import zeroconf
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from enginebench_agent import logs

SERVICE_TYPE = "_enginebench._tcp.local."
_MOST_LABEL_BYTES = 63
_MOST_NAMES_BYTES = 200
"""An entry of a TXT record has 255 at most."""

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def announced(host: str, port: int, certified_names: Sequence[str]) -> AsyncIterator[None]:
    """Announce the agent that listens there while the block lasts, under the names that its certificate is for.

    A network on which that cannot be done is a warning in the log: who knows the address still reaches the agent.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            service = _service(host, port, certified_names)
            interfaces = zeroconf.InterfaceChoice.All if _is_everywhere(host) else _addresses(host)
            network = AsyncZeroconf(interfaces=interfaces)
            stack.push_async_callback(network.async_close)
            await network.async_register_service(service, allow_name_change=True)
            _log.info("announced", extra=logs.told(name=service.get_name(), port=port))
        except (OSError, zeroconf.Error) as error:
            _log.warning("cannot announce this agent on the network: %s", error or type(error).__name__)
        yield


def _service(host: str, port: int, certified_names: Sequence[str]) -> AsyncServiceInfo:
    label = socket.gethostname().partition(".")[0].encode()[:_MOST_LABEL_BYTES].decode(errors="ignore") or "agent"
    told = {"version": importlib.metadata.version("enginebench"), "names": _as_many_as_fit(certified_names)}
    return AsyncServiceInfo(
        SERVICE_TYPE,
        f"{label}.{SERVICE_TYPE}",
        port=port,
        server=f"{label}.local.",
        parsed_addresses=_addresses(host),
        properties=told,
    )


def _addresses(host: str) -> list[str]:
    """The IPv4 addresses it is reached at from elsewhere; on loopback, that one. Raises `OSError`."""
    if _is_everywhere(host):
        found = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
        return [str(address) for address in found if not ipaddress.ip_address(str(address)).is_loopback]
    places = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    return sorted({str(place[0]) for *_, place in places})


def _is_everywhere(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False


def _as_many_as_fit(names: Sequence[str]) -> str:
    fitting = ""
    for name in names:
        longer = f"{fitting},{name}".removeprefix(",")
        if len(longer.encode()) <= _MOST_NAMES_BYTES:
            fitting = longer
    return fitting
