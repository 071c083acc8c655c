"""Whether targets answer: real agents, silent ports, strangers."""

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import grpc
import pytest

from agent_server import AgentProcess, nobody
from certified import Certified
from enginebench_controller.errors import InputError
from enginebench_controller.records import Target
from enginebench_controller.targets import health
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.health import Health, ask_health


@pytest.fixture
def silent():
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def stranger():
    """A gRPC server that is no agent."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0)


def target(address, name="nuc"):
    return Target(name, address, 0)


def test_an_agent_that_runs_is_serving(tmp_path):
    agent = AgentProcess(tmp_path)
    try:
        (answer,) = ask_health([target(agent.address)], 5.0)
    finally:
        agent.stop()

    assert (answer.health, answer.cause) == (Health.SERVING, "")
    assert answer.sentence == f"target 'nuc' at {agent.address} answers"


def test_who_does_not_answer_is_told_with_the_cause(stranger, tmp_path):
    asked = [target(nobody()), target(stranger), target("no-such-machine.invalid:50151")]

    answers = ask_health(asked, 5.0, Certified(tmp_path).client("somebody"))

    assert [one.health for one in answers] == [Health.UNREACHABLE] * 3
    assert [one.cause for one in answers] == [
        "nothing listens on this port",
        "what listens there is no enginebench agent",
        "no machine of this name is known",
    ]
    assert "start `enginebench-agent serve` there" in answers[0].sentence


ASKING = """
import sys
from pathlib import Path
from enginebench_controller.targets.health import ask_health
from enginebench_controller.targets.addresses import new_target
print(ask_health([new_target("nuc", sys.argv[1])], 5.0, Path(sys.argv[2]))[0].cause)
"""


@pytest.mark.slow
def test_a_name_that_only_the_system_can_look_up_is_known(tmp_path, monkeypatch):
    """Such as nuc.local; "127.1" is one that it makes an address of, and DNS does not."""
    monkeypatch.delenv("GRPC_DNS_RESOLVER", raising=False)  # as this process has set it
    port = nobody().rpartition(":")[2]
    ask = [sys.executable, "-c", ASKING, f"127.1:{port}", Certified(tmp_path).client("somebody")]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "nothing listens on this port\n"


def test_without_a_certificate_no_other_machine_is_asked(tmp_path):
    (answer,) = ask_health([target("192.0.2.1:50151")], 5.0, tmp_path)  # of documents, and nobody's

    assert answer.health is Health.UNREACHABLE
    assert answer.sentence.startswith("target 'nuc' at 192.0.2.1:50151: there is no certificate to show")
    assert "`enginebench ca issue client NAME --install`" in answer.sentence


def test_silent_targets_take_no_longer_than_the_limit_together(silent):
    begun = monotonic()
    answers = ask_health([target(silent, f"t{number}") for number in range(8)], 0.5)

    assert monotonic() - begun < 2.0
    assert {one.sentence.partition("not answer ")[2] for one in answers} == {
        "(nothing within 0.5 s): see whether the line is up"
    }


def test_whom_one_waits_for_is_told_before_the_limit(silent, monkeypatch):
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.2)
    told = []
    ask_health([target(nobody(), "off"), target(silent, "mute")], 1.0, waiting=told.append)
    assert [[one.name for one in each] for each in told] == [["mute"]]
    ask_health([target(nobody())], 1.0, waiting=told.append)
    assert len(told) == 1


def test_a_question_that_is_interrupted_ends_at_once_and_leaves_no_thread(silent, monkeypatch):
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.2)

    def interrupt(_):
        raise KeyboardInterrupt

    begun = monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask_health([target(silent, f"t{number}") for number in range(40)], 30.0, waiting=interrupt)
    assert monotonic() - begun < 5.0
    assert not [one.name for one in threading.enumerate() if one.name.startswith("health")]


def test_nobody_is_asked_when_there_are_no_targets():
    assert ask_health([], 5.0) == ()


@pytest.mark.parametrize("name", ["", "local", "a b", "a/b", "a:1", "a~b"])
def test_names_that_cannot_be_ones_are_refused(name):
    with pytest.raises(InputError, match="cannot name a target"):
        new_target(name, "nuc:50151")


@pytest.mark.parametrize(
    "address", ["", "nuc", "nuc:", ":50151", "nuc:0", "nuc:65536", "nuc:x", "nu c:50151", "nuc:-1"]
)
def test_addresses_that_cannot_be_ones_are_refused(address):
    with pytest.raises(InputError, match=r"is not an address: (write HOST:PORT|.* is no port)"):
        new_target("nuc", address)


def test_a_good_name_and_address_make_a_target():
    made = new_target("nuc-1.lab", "[::1]:50151")

    assert (made.name, made.address) == ("nuc-1.lab", "[::1]:50151")
    assert made.added_at_unix_ns > 0
