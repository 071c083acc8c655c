"""New targets: what may be their name and their address.

An address is HOST:PORT. Beyond this machine it means mutual TLS; on loopback it means plain text, and mutual TLS with
`tls://` before it. ssh://USER@HOST is an agent on another machine's loopback, through a tunnel.
"""

import contextlib
import ipaddress
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from enginebench_controller.errors import InputError, UnreachableError
from enginebench_controller.records.target import LOCAL_TARGET, Target
from enginebench_proto.agreed.meeting import DEFAULT_PORT
from enginebench_proto.agreed.names import as_name

SCHEME = "ssh://"
MAX_PORT = 65535

# Neither a user nor a host may begin with "-": ssh would take it for an option.
_ADDRESS = re.compile(
    r"ssh://(?:(?P<user>[\w.][\w.-]*)@)?(?P<host>[\w.][\w.-]*|\[[0-9a-fA-F:]+\])"
    r"(?::(?P<ssh_port>\d{1,5}))?(?:/(?P<agent_port>\d{1,5}))?",
    re.ASCII,
)
# BatchMode: nobody is there to answer a question. Host keys are checked as the user's own configuration says.
# ServerAlive: of a line that went dead in silence nothing else tells, for hours.
_OPTIONS = (
    *("-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oLogLevel=ERROR"),
    *("-oServerAliveInterval=5", "-oServerAliveCountMax=3"),
)
_SSH_ITSELF_FAILED = 255
"""The exit code with which ssh says that no command was run."""


class SshError(UnreachableError):
    """ssh does not get to a machine; `cause` is what it said."""

    def __init__(self, place: "SshPlace", cause: str) -> None:
        super().__init__(
            f"ssh does not get to {place.destination} ({cause}): "
            f"make sure that `ssh {place.destination} true` works without a question"
        )
        self.cause = cause


@dataclass(frozen=True)
class SshPlace:
    """An agent behind SSH: where to log in, None for the port that ssh is configured for, and the agent's own port."""

    user: str
    host: str
    ssh_port: int | None = None
    agent_port: int = DEFAULT_PORT

    @classmethod
    def parse(cls, address: str) -> Self:
        """Read ssh://[USER@]HOST[:SSH_PORT][/AGENT_PORT]. Raises `InputError` for anything else."""
        found = _ADDRESS.fullmatch(address)
        ports = [int(port) for port in found.group("ssh_port", "agent_port") if port] if found else []
        if found is None or not all(0 < port <= MAX_PORT for port in ports):
            raise InputError(
                f"{address!r} is not an address: write ssh://USER@HOST, with :PORT for another port of SSH, /PORT for "
                "another port of the agent"
            )
        ssh_port, agent_port = found["ssh_port"], found["agent_port"]
        return cls(
            found["user"] or "",
            found["host"].strip("[]"),
            int(ssh_port) if ssh_port else None,
            int(agent_port) if agent_port else DEFAULT_PORT,
        )

    @property
    def destination(self) -> str:
        """What to tell ssh: "user@host"."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def address(self) -> str:
        """The address that `parse` reads, at its shortest."""
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        ssh_port = f":{self.ssh_port}" if self.ssh_port else ""
        agent_port = f"/{self.agent_port}" if self.agent_port != DEFAULT_PORT else ""
        return f"{SCHEME}{user}{host}{ssh_port}{agent_port}"

    def command(self, remote: str, options: Sequence[str] = ()) -> list[str]:
        """The command line that runs `remote`, a line for the shell there."""
        port = ("-p", str(self.ssh_port)) if self.ssh_port else ()
        return ["ssh", *_OPTIONS, *options, *port, "--", self.destination, remote]


def is_ssh(address: str) -> bool:
    """Whether an address is meant to be reached over SSH."""
    return address.startswith(SCHEME)


def failed_itself(exit_code: int | None) -> bool:
    """Whether ssh ended because it did not get there, and not because the command there failed."""
    return exit_code == _SSH_ITSELF_FAILED


def last_line(output: str, otherwise: str = "it said nothing") -> str:
    """The last line somebody wrote, which mostly says why they failed; `otherwise` where they wrote none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else otherwise


TLS_PREFIX = "tls://"
_HOST = re.compile(r"[^\s/:@\[\]]+|\[[0-9A-Fa-f:.]+(%\w+)?\]")
"""A name, or a number; those with colons in brackets, as gRPC takes a bare one for a name and a port."""

UNIX_PREFIX = "unix:"
"""The near end of a tunnel."""


def new_target(name: str, address: str, *, tls: bool = False, labels: Mapping[str, str] | None = None) -> Target:
    """A target added now, by mutual TLS also on loopback where `tls`.

    Raises `InputError` for a name or an address that cannot be one.
    """
    name = as_name(name)
    if name == LOCAL_TARGET or not name or not all(character.isalnum() or character in "-_." for character in name):
        raise InputError(f"{name!r} cannot name a target: use letters, digits, '-', '_' or '.', and not 'local'")
    if is_ssh(address):
        return Target(name, SshPlace.parse(address).address, time.time_ns(), labels or {})
    check_address(address)
    bare = host_and_port(address)
    secured = (tls or bare != address) and is_loopback(bare)
    return Target(name, TLS_PREFIX + bare if secured else bare, time.time_ns(), labels or {})


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
    is_number = port.isascii() and port.isdecimal()  # other scripts have digits, which gRPC does not read
    if host and is_number and not 0 < int(port[:20]) <= MAX_PORT:
        raise InputError(f"{address[:200]!r} is not an address: {port[:20]} is no port, which are 1 to {MAX_PORT}")
    if not host or not is_number or not _HOST.fullmatch(host):
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
    return address.startswith(TLS_PREFIX) or not (uses_tunnel(address) or is_loopback(address))


def uses_tunnel(address: str) -> bool:
    """Whether an address, of a target or of the near end of a tunnel, leads over SSH."""
    return address.startswith((SCHEME, UNIX_PREFIX))


def host_and_port(address: str) -> str:
    """The address as gRPC wants it."""
    return address.removeprefix(TLS_PREFIX)


def is_loopback(address: str) -> bool:
    """Whether a HOST:PORT is this machine and no other."""
    host = address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False
