"""Why there is no connection: what gRPC's core says of it, as a cause and a remedy for a person."""

from dataclasses import dataclass

from enginebench_controller.running.target_address import TLS_PREFIX, uses_tls, uses_tunnel

START = "start `enginebench-agent serve` there, or correct the address"


@dataclass(frozen=True)
class Obstacle:
    """Why a target cannot be spoken to, and what to do about it."""

    cause: str
    remedy: str = START


NOTHING_LISTENS = Obstacle("nothing listens on this port")
NOTHING_BEHIND_SSH = Obstacle("nothing that speaks plain text listens on this port of that machine's loopback")
FAILED = Obstacle("the connection failed")
HUNG_UP_ON_TLS = Obstacle(
    "it hung up on your certificate",
    "have it issued by the authority of that agent, and look whether an agent listens there at all",
)
HUNG_UP_ON_PLAIN_TEXT = Obstacle(
    "it hung up on plain text", f"where that agent has TLS files, write {TLS_PREFIX} before the address"
)

# What gRPC's core says, in lower case, the more telling first.
_OBSTACLES = {
    "certificate has expired": Obstacle(
        "its certificate has ended", "renew it with `enginebench ca renew NAME` and copy the files there"
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
    "errors resolving": Obstacle("no machine of this name is known"),
    "dns resolution failed": Obstacle("no machine of this name is known"),
    "connection refused": NOTHING_LISTENS,
    "no route to host": Obstacle("there is no way to this machine"),
    "network is unreachable": Obstacle("there is no way to this machine"),
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
