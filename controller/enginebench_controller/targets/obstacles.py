"""Why there is no connection: what gRPC's core says of it, as a cause and a remedy for a person."""

from dataclasses import dataclass

from enginebench_controller.targets.addresses import TLS_PREFIX, uses_tls, uses_tunnel

START = "start `enginebench-agent serve` there, or correct the address"


@dataclass(frozen=True)
class Obstacle:
    """Why a target cannot be spoken to, and what to do about it."""

    cause: str
    remedy: str = START

    @property
    def because(self) -> str:
        """The cause in brackets, where it says more than that there is no connection."""
        return "" if self == FAILED else f" ({self.cause})"


NOTHING_LISTENS = Obstacle("nothing listens on this port")
NOTHING_BEHIND_SSH = Obstacle("nothing that speaks plain text listens on this port of that machine's loopback")
UNKNOWN_NAME = Obstacle(
    "no machine of this name is known", "correct the address, or make the name known in DNS or /etc/hosts"
)
NO_DESCRIPTORS = Obstacle(
    "this process may not have more files open", "allow it more (`ulimit -n` shows how many), or ask fewer at once"
)
NO_WAY = Obstacle("there is no way to this machine", "see to the network between, or correct the address")
FAILED = Obstacle("the connection failed")
PASSING = frozenset({NOTHING_LISTENS, NOTHING_BEHIND_SSH, NO_WAY, FAILED})
"""Those that a machine which is just starting gets over by itself."""
HUNG_UP_ON_TLS = Obstacle(
    "it hung up on your certificate",
    "have it issued by the authority of that agent, and look whether an agent listens there at all, and what its clock "
    "says",
)
HUNG_UP_ON_PLAIN_TEXT = Obstacle(
    "it hung up on plain text", f"where that agent has TLS files, write {TLS_PREFIX} before the address"
)

# What gRPC's core says, in lower case, the more telling first.
_OBSTACLES = {
    "certificate has expired": Obstacle(
        "its certificate has ended by the clock of this machine",
        "renew it with `enginebench ca renew NAME` and copy the files there, or set the clock of this machine",
    ),
    "certificate is not yet valid": Obstacle(
        "its certificate is not valid yet by the clock of this machine",
        "set the clock of this machine, or that of the machine where it was issued and issue it anew",
    ),
    "hostname verification": Obstacle(
        "its certificate names another host",
        "use the address it was issued for, or issue it anew with `enginebench ca issue agent NAME --host HOST`",
    ),
    "certificate_verify_failed": Obstacle(
        "its certificate is not from your authority",
        "issue it with `enginebench ca issue agent NAME --host HOST`, and copy the files there",
    ),
    "wrong_version_number": Obstacle(
        "it speaks plain text",
        "start that agent with TLS files, or reach it through an SSH tunnel at 127.0.0.1",
    ),
    # c-ares and the system's resolver say it in their own words each.
    "errors resolving": UNKNOWN_NAME,
    "dns resolution failed": UNKNOWN_NAME,
    "name resolution": UNKNOWN_NAME,
    "too many open files": NO_DESCRIPTORS,
    "connection refused": NOTHING_LISTENS,
    "no route to host": NO_WAY,
    "network is unreachable": NO_WAY,
}
# Only while connecting: a connection that was there and broke tells nothing about certificates.
_CONNECTING = "failed to connect"
_HUNG_UP = ("socket closed", "connection reset", "alert")


def find_obstacle(details: str | None, address: str) -> Obstacle:
    """What stands in the way, by gRPC's own words about a call that found no connection."""
    said = (details or "").lower()
    for part, obstacle in _OBSTACLES.items():
        if part in said:
            return obstacle
    if uses_tunnel(address):  # the near end was there; what it says is how the far end went
        return NOTHING_BEHIND_SSH
    if _CONNECTING in said and any(part in said for part in _HUNG_UP):
        return HUNG_UP_ON_TLS if uses_tls(address) else HUNG_UP_ON_PLAIN_TEXT
    return FAILED
