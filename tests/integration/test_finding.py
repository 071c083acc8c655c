"""Agents announce themselves by multicast DNS, are found, and nobody is believed who merely says that he is one."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import inet_aton
from typing import Any

import pytest
from zeroconf import DNSAddress, DNSOutgoing, DNSPointer, DNSService, DNSText, Zeroconf

from agent_server import AgentProcess
from certified import Certified
from enginebench_controller.running.finding import SERVICE_TYPE
from integration.bench import Bench

LOOPBACK = "127.0.0.1"
NOTHING_LISTENS = 9
ONLY_FAKE = '[environments.default]\nengines = ["fake"]\n'
FIND = ("targets", "find", "--interface", LOOPBACK, "--seconds", "1.5")
ANSWER, PTR, SRV, TXT, A, INTERNET, TTL_S = 0x8400, 12, 33, 16, 1, 1, 60
"""Numbers of RFC 1035 and 2782."""

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
def say() -> Iterator[Say]:
    """Announces again and again in raw records, as somebody does who keeps to no rule."""
    network, said, over = Zeroconf(interfaces=[LOOPBACK]), list[DNSOutgoing](), threading.Event()

    def repeat() -> None:
        while not over.wait(0.2):
            for message in list(said):
                network.send(message)

    sender = threading.Thread(target=repeat)
    sender.start()
    yield lambda name, port, names: said.append(_announcement(name, port, names))
    over.set()
    sender.join()
    network.close()


def _announcement(name: str, port: int, names: str) -> DNSOutgoing:
    service, told = f"{name}.{SERVICE_TYPE}", f"names={names}".encode()
    message = DNSOutgoing(ANSWER)
    for record in (
        DNSPointer(SERVICE_TYPE, PTR, INTERNET, TTL_S, service),
        DNSService(service, SRV, INTERNET, TTL_S, 0, 0, port, "host.local."),
        DNSText(service, TXT, INTERNET, TTL_S, bytes([len(told)]) + told),
        DNSAddress("host.local.", A, INTERNET, TTL_S, inet_aton(LOOPBACK)),
    ):
        message.add_answer_at_time(record, 0)
    return message


def found(bench: Bench, port: int) -> list[dict[str, Any]]:
    """What was found at this port; tests beside this one may announce others."""
    return [one for one in bench.json(*FIND)["found"] if one["address"].endswith(f":{port}")]


def test_an_agent_that_announces_itself_is_found_added_and_gone_when_it_stops(
    bench: Bench, own: Certified, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path, "--tls", str(own.agent()), "--announce", config=ONLY_FAKE)
    address = f"tls://{agent.address}"
    try:
        while not (hints := found(bench, agent.port)):  # it announces itself once it serves; pytest has a limit of time
            pass
        (hint,) = hints
        assert (hint["address"], hint["health"], hint["cause"], hint["target"]) == (address, "serving", None, None)
        told = bench.cli(*FIND).stderr
        assert f"enginebench targets add {hint['name']} {address}" in told
        assert bench.json("targets", "list") == []  # only people add
        bench.cli("targets", "add", "nuc", address)
        assert found(bench, agent.port)[0]["target"] == "nuc"
    finally:
        agent.stop()
    assert found(bench, agent.port) == []


@pytest.mark.fault(14)
def test_who_announces_an_agent_without_our_certificate_is_not_believed(bench: Bench, say: Say, tmp_path: Path) -> None:
    stranger = AgentProcess(tmp_path, "--tls", str(Certified(tmp_path / "theirs").agent()), config=ONLY_FAKE)
    try:
        say("nuc", stranger.port, LOOPBACK)
        (hint,) = found(bench, stranger.port)
    finally:
        stranger.stop()
    assert hint["health"] == "unreachable"
    assert "its certificate is not from your authority" in hint["cause"]
    assert bench.json("targets", "list") == []


@pytest.mark.fault(14)
def test_whatever_is_announced_becomes_a_harmless_line(bench: Bench, say: Say) -> None:
    say("[link=https:]", NOTHING_LISTENS, LOOPBACK)  # markup
    say("local", NOTHING_LISTENS, LOOPBACK)  # a name that is this machine's
    say("socket", NOTHING_LISTENS, "unix")  # would be a socket of this machine
    say("scheme", NOTHING_LISTENS, "ssh://evil@host,a b,-x,..")
    say("nobody", NOTHING_LISTENS, "")
    say("\x1b[31mred", NOTHING_LISTENS, LOOPBACK)  # no name by the rules of DNS-SD
    hints = found(bench, NOTHING_LISTENS)
    assert [hint["name"] for hint in hints] == ["link-https", "local-1", "nobody"]
    for hint in hints:
        assert hint["address"] == f"tls://{LOOPBACK}:{NOTHING_LISTENS}"
        assert hint["health"] == "unreachable"
    shown = bench.cli(*FIND)
    assert "link-https" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_nothing_announced_is_told_with_what_to_do(bench: Bench) -> None:
    done = bench.cli("targets", "find", "--interface", "127.0.0.7", "--seconds", "0.1")
    assert "serve --announce" in done.stderr


def test_an_address_that_is_not_this_machines_is_told(bench: Bench) -> None:
    done = bench.cli("targets", "find", "--interface", "192.0.2.250", expect=2)
    assert "targets add NAME HOST:PORT" in done.stderr
