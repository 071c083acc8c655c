"""Machines that are reached over the system's `ssh`: their addresses, and the command lines that lead there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from enginebench_controller.errors import InputError, UnreachableError
from enginebench_proto.agreed.meeting import DEFAULT_PORT

SCHEME = "ssh://"
MAX_PORT = 65535

# Neither a user nor a host may begin with "-": ssh would take it for an option.
_ADDRESS = re.compile(
    r"ssh://(?:(?P<user>[\w.][\w.-]*)@)?(?P<host>[\w.][\w.-]*|\[[0-9a-fA-F:]+\])"
    r"(?::(?P<ssh_port>\d{1,5}))?(?:/(?P<agent_port>\d{1,5}))?",
    re.ASCII,
)
# BatchMode: nobody is there to answer a question. Host keys are checked as the user's own configuration says.
_OPTIONS = ("-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oLogLevel=ERROR")
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


def last_words(output: str) -> str:
    """The last line somebody wrote, which mostly says why they failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "it said nothing"
