"""A controller and an agent of different versions: what both know works, and who is to be upgraded is said."""

import importlib.metadata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from agent_server import AgentProcess
from integration.bench import QUICK, Bench
from integration.skewed_agent import newer, older

pytestmark = pytest.mark.fault(20)

THIS = importlib.metadata.version("enginebench")
FAKE = ("--engine", "fake")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path_factory.mktemp("agent"))
    yield agent
    agent.stop()


def test_an_older_agent_measures_and_is_told_to_be_upgraded(bench: Bench, model: Path, agent: AgentProcess) -> None:
    with older(agent.address, "List", "ListFiles", "DeleteFile", "Acknowledge") as old:
        bench.cli("targets", "add", "nuc", old.address)
        done = bench.cli("run", model, *FAKE, "--target", "nuc", *QUICK)
    told = f"target 'nuc' has an older agent (it has enginebench 0.0.9, this is {THIS})"
    assert done.stderr.count(told) == 1
    assert "upgrade the agent on nuc" in done.stderr
    assert "│ ok" in done.stdout


def test_what_an_older_agent_cannot_do_is_a_sentence_that_says_whom_to_upgrade(
    bench: Bench, model: Path, agent: AgentProcess
) -> None:
    with older(agent.address, "Start") as old:
        bench.cli("targets", "add", "nuc", old.address)
        document = bench.json("run", model, *FAKE, "--target", "nuc", *QUICK, expect=1)
    (measurement,) = document["measurements"]
    assert measurement["failure"]["kind"] == "refused"
    assert f"upgrade the agent on nuc (it has enginebench 0.0.9, this is {THIS})" in measurement["failure"]["message"]


def test_an_older_agent_that_cannot_even_list_its_engines_is_told_to_be_upgraded(
    bench: Bench, agent: AgentProcess
) -> None:
    with older(agent.address, "ListEngines") as old:
        done = bench.cli("devices", "--target", old.address, expect=2)
    assert f"upgrade the agent on {old.address} (it has enginebench 0.0.9, this is {THIS})" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_newer_agent_measures_and_this_side_is_told_to_be_upgraded(
    bench: Bench, model: Path, agent: AgentProcess
) -> None:
    with newer(agent.address) as new:
        bench.cli("targets", "add", "nuc", new.address)
        engines = bench.json("devices", "--target", "nuc")["targets"][0]["engines"]
        done = bench.cli("run", model, *FAKE, "--target", "nuc", *QUICK)
    (lunar,) = [engine for engine in engines if engine["name"] == "lunar"]
    assert lunar["unavailable"] == {"kind": "unspecified", "reason": "The moon is not full.", "detail": ""}
    assert f"a newer agent (it has enginebench 9.9.9, this is {THIS})" in done.stderr
    assert "upgrade enginebench here" in done.stderr
    assert "│ ok" in done.stdout


def test_versions_that_speak_one_wire_say_nothing(bench: Bench, agent: AgentProcess) -> None:
    assert bench.cli("devices", "--target", agent.address).stderr == ""


def test_a_server_that_is_no_agent_is_told_as_such(bench: Bench) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    done = bench.cli("devices", "--target", address, expect=2)
    server.stop(None)
    assert f"what listens at {address} is no enginebench agent" in done.stderr
