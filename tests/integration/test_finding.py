"""Agents announce themselves by multicast DNS, are found, and nobody is believed who merely says that he is one."""

import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_server import AgentProcess
from certified import Certified
from enginebench_controller.targets.finding import SERVICE_TYPE
from integration.bench import Bench

pytestmark = pytest.mark.xdist_group("mdns")  # all of a machine hear each other

LOOPBACK = "127.0.0.1"
NOTHING_LISTENS = 9
FIND = ("targets", "find", "--interface", LOOPBACK, "--seconds", "1.5")
MULTICAST = ("224.0.0.251", 5353)
TYPE = tuple(part.encode() for part in SERVICE_TYPE.rstrip(".").split("."))
ANSWER, PTR, SRV, TXT, A, INTERNET, TTL_S = 0x8400, 12, 33, 16, 1, 1, 60
"""Numbers of RFC 1035 and 2782."""

Shout = Callable[[bytes], None]
Say = Callable[[str, int, str], None]
"""Announces an agent: what it calls itself, its port, the hosts of its certificate."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return Certified(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def shown(own: Certified) -> Path:
    """The folder of a client's certificate."""
    return own.client("me")


@pytest.fixture
def bench(bench: Bench, shown: Path) -> Bench:
    """A bench whose commands show that certificate."""
    shutil.copytree(shown, bench.home / "tls")
    return bench


@pytest.fixture
def shout() -> Iterator[Shout]:
    """Says a message of DNS again and again, as somebody may who keeps to no rule."""
    said, over = list[bytes](), threading.Event()
    network = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    network.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))

    def repeat() -> None:
        while not over.wait(0.2):
            for message in list(said):
                network.sendto(message, MULTICAST)

    sender = threading.Thread(target=repeat)
    sender.start()
    yield said.append
    over.set()
    sender.join()
    network.close()


@pytest.fixture
def say(shout: Shout) -> Say:
    """Announces an agent in that way."""
    return lambda name, port, names: shout(announcement(name.encode(), port, names))


def announcement(name: bytes, port: int, names: str) -> bytes:
    """Who is there, where, and what is told of it."""
    service, host, told = labels(name, *TYPE), labels(b"host", b"local"), f"names={names}".encode()
    return answer(
        (labels(*TYPE), PTR, service),
        (service, SRV, struct.pack("!3H", 0, 0, port) + host),
        (service, TXT, bytes([len(told)]) + told),
        (host, A, socket.inet_aton(LOOPBACK)),
    )


def answer(*records: tuple[bytes, int, bytes]) -> bytes:
    """A message of DNS with these records: whose, of which kind, and what they say."""
    written = (name + struct.pack("!HHIH", kind, INTERNET, TTL_S, len(data)) + data for name, kind, data in records)
    return struct.pack("!6H", 0, ANSWER, 0, len(records), 0, 0) + b"".join(written)


def labels(*parts: bytes) -> bytes:
    """A name as DNS writes it."""
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def found(bench: Bench, port: int) -> list[dict[str, Any]]:
    """What was found at this port; tests beside this one may announce others."""
    return [one for one in bench.json(*FIND)["found"] if one["address"].endswith(f":{port}")]


def found_at_last(bench: Bench, port: int) -> list[dict[str, Any]]:
    """The same, asked again: responders answer a question once a second at most, and on a busy machine too late."""
    while not (hints := found(bench, port)):  # pytest has a limit of time
        pass
    return hints


def test_an_agent_that_announces_itself_is_found_added_and_gone_when_it_stops(
    bench: Bench, own: Certified, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path, "--tls", str(own.agent()), "--announce")
    address = f"tls://{agent.address}"
    try:
        (hint,) = found_at_last(bench, agent.port)
        assert (hint["address"], hint["health"], hint["cause"], hint["target"]) == (address, "serving", None, None)
        while f"enginebench targets add {hint['name']} {address}" not in bench.cli(*FIND).stderr:
            pass
        assert bench.json("targets", "list") == []  # only people add
        bench.cli("targets", "add", "nuc", address)
        assert found_at_last(bench, agent.port)[0]["target"] == "nuc"
    finally:
        agent.stop()
    assert found(bench, agent.port) == []


@pytest.mark.fault(14)
def test_who_announces_an_agent_without_our_certificate_is_not_believed(bench: Bench, say: Say, tmp_path: Path) -> None:
    stranger = AgentProcess(tmp_path, "--tls", str(Certified(tmp_path / "theirs").agent()))
    try:
        say("nuc", stranger.port, LOOPBACK)
        (hint,) = found_at_last(bench, stranger.port)
    finally:
        stranger.stop()
    assert hint["health"] == "unreachable"
    assert "its certificate is not from your authority" in hint["cause"]
    assert bench.json("targets", "list") == []


@pytest.mark.fault(14)
def test_whatever_is_announced_becomes_a_harmless_line(bench: Bench, say: Say) -> None:
    say("[link=https:]", NOTHING_LISTENS, LOOPBACK)  # markup
    say("local", NOTHING_LISTENS, LOOPBACK)  # a name that is this machine's
    say("socket", NOTHING_LISTENS, "unix,unix-abstract")  # would be sockets of this machine
    say("scheme", NOTHING_LISTENS, "ssh://evil@host,a b,-x,..")
    say("nobody", NOTHING_LISTENS, "")
    say("\x1b[31mred", NOTHING_LISTENS, LOOPBACK)  # no name by the rules of DNS-SD
    hints = found(bench, NOTHING_LISTENS)
    assert [hint["name"] for hint in hints] == ["link-https", "local-1", "nobody", "scheme", "socket"]
    for hint in hints:
        assert hint["address"] == f"tls://{LOOPBACK}:{NOTHING_LISTENS}"
        assert hint["health"] == "unreachable"
    shown = bench.cli(*FIND)
    assert "link-https" in shown.stdout
    assert "\x1b" not in shown.stdout


@pytest.mark.fault(14)
@pytest.mark.parametrize("name", [b"\xff" * 63, b"", b"a" * 63], ids=["no text", "empty", "long"])
def test_a_name_that_is_none_prevents_nothing(bench: Bench, shout: Shout, say: Say, name: bytes) -> None:
    shout(announcement(name, NOTHING_LISTENS, LOOPBACK))
    shout(answer((labels(*TYPE), PTR, labels(b"x", b"_", b"_tcp", b"local"))))  # of another type, and of none
    say("nobody", NOTHING_LISTENS, LOOPBACK)
    done = bench.cli(*FIND)
    assert "nobody" in done.stdout
    assert "Exception" not in done.stderr


def test_nothing_announced_is_told_with_what_to_do(bench: Bench) -> None:
    assert "serve --announce" in bench.cli(*FIND).stderr


@pytest.mark.parametrize("interface", ["192.0.2.250", "eth0", "fd00::77", "nowhere.example"])
def test_an_address_that_is_not_this_machines_is_told(bench: Bench, interface: str) -> None:
    done = bench.cli("targets", "find", "--interface", interface, expect=2)
    assert interface in done.stderr or "targets add NAME HOST:PORT" in done.stderr
