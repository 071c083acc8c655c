"""Telling the local network that an agent is here, by multicast DNS (RFC 6762, RFC 6763): a hint, and no proof of it.

Imported only where it is asked for: the library is an extra. Whoever follows the hint still has to show a certificate,
and so has the agent.
"""

import asyncio
import contextlib
import importlib.metadata
import ipaddress
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Sequence

import ifaddr
import zeroconf
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from enginebench_proto.agreed import logs
from enginebench_proto.agreed.meeting import SERVICE_TYPE

LOOK_EVERY_SECONDS = 30.0
"""How often the addresses are looked at: networks come after the agent, and change."""
REGISTER_SECONDS = 10.0
"""Who answers to every name, as if it were taken, could keep it looking for another one."""
_MOST_LABEL_BYTES = 63
_MOST_NAMES_BYTES = 200
"""An entry of a TXT record has 255 at most."""

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def announced(host: str, port: int, certified_names: Sequence[str]) -> AsyncIterator[None]:
    """Announce the agent that listens there while the block lasts, under the names that its certificate is for.

    The block does not wait for it. A network on which it cannot be done is a warning in the log, once: who knows the
    address still reaches the agent.
    """
    telling = asyncio.create_task(_tell(host, port, certified_names))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})  # raises nothing of it: what comes after the block matters more


async def _tell(host: str, port: int, certified_names: Sequence[str]) -> None:
    is_warned = False
    while True:
        try:
            await _tell_until_moved(host, port, certified_names)
        except (OSError, RuntimeError, zeroconf.Error) as error:  # TimeoutError is an OSError
            if not is_warned:
                reason = str(error) or type(error).__name__
                _log.warning("cannot announce this agent (%s): add it by its address; trying again", reason)
            is_warned = True
            await asyncio.sleep(LOOK_EVERY_SECONDS)


async def _tell_until_moved(host: str, port: int, certified_names: Sequence[str]) -> None:
    """Announce it until its addresses are others, or there were none."""
    if addresses := _addresses(host):
        interfaces = zeroconf.InterfaceChoice.All if _is_everywhere(host) else addresses
        async with AsyncZeroconf(interfaces=interfaces) as network:
            service = _service(port, addresses, certified_names)
            async with asyncio.timeout(REGISTER_SECONDS):
                await network.async_register_service(service, allow_name_change=True)
            _log.info("announced", extra=logs.told(name=service.get_name(), port=port))
            while _addresses(host) == addresses:
                await asyncio.sleep(LOOK_EVERY_SECONDS)
    else:
        await asyncio.sleep(LOOK_EVERY_SECONDS)


def _service(port: int, addresses: Sequence[str], certified_names: Sequence[str]) -> AsyncServiceInfo:
    label = socket.gethostname().partition(".")[0].encode()[:_MOST_LABEL_BYTES].decode(errors="ignore") or "agent"
    told = {"version": importlib.metadata.version("enginebench"), "names": _as_many_as_fit(certified_names)}
    return AsyncServiceInfo(
        SERVICE_TYPE,
        f"{label}.{SERVICE_TYPE}",
        port=port,
        # Not the machine's own name: that belongs to the system, which may announce it, too.
        server=f"enginebench-{secrets.token_hex(4)}.local.",
        parsed_addresses=list(addresses),
        properties=told,
    )


def _addresses(host: str) -> list[str]:
    """The IPv4 addresses it is reached at from elsewhere; on loopback, that one. Raises `OSError`."""
    if _is_everywhere(host):
        found = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
        return sorted(str(address) for address in found if not ipaddress.ip_address(str(address)).is_loopback)
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
