"""Targets behind SSH: agents on the loopback of a machine that only a real sshd leads to."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_server import AgentProcess
from enginebench_controller.errors import UnreachableError
from enginebench_controller.targets.addresses import SshError, SshPlace, new_target
from enginebench_controller.targets.channels import _open, reachable
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.health import Health, ask_health
from integration.bench import QUICK, Bench
from integration.ssh_machine import SshMachine


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent()


@pytest.fixture
def address(machine: SshMachine, agent: AgentProcess) -> str:
    return f"{machine.address}/{agent.port}"


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_target_behind_ssh_is_measured_like_any_other(
    bench: Bench, model: Path, machine: SshMachine, address: str
) -> None:
    bench.cli("targets", "add", "board", address)
    (health,) = bench.json("targets", "check")
    assert (health["address"], health["health"]) == (address, "serving")
    document = bench.json("run", model, "--engine", "fake", "--target", "board", *QUICK)
    assert [m["status"] for m in document["measurements"]] == ["ok"]
    await until(lambda: not machine.sessions())


async def test_a_tunnel_that_breaks_is_opened_again_while_it_is_needed(machine: SshMachine, address: str) -> None:
    async with AgentClient("board", address) as client:
        before = await client.host()
        for session in machine.sessions():
            os.kill(session, signal.SIGKILL)
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await client.host() == before
                    break
                except UnreachableError:
                    await asyncio.sleep(0.1)
    await until(lambda: not machine.sessions())


async def test_who_asks_whether_a_target_answers_stays_logged_in_no_longer(machine: SshMachine, address: str) -> None:
    (answer,) = await asyncio.to_thread(ask_health, [new_target("board", address)], 20)
    assert answer.health is Health.SERVING
    await until(lambda: not machine.sessions())


async def test_a_login_may_print_what_it_likes(machine: SshMachine) -> None:
    (machine.home / ".bashrc").write_text("printf 'hello\\nsay: '\n")
    async with reachable(machine.address, 5):
        pass


async def test_what_the_user_forwards_besides_may_be_taken_already(machine: SshMachine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, (machine.folder / "ssh_config").open("a") as configuration:
        print(f"LocalForward 127.0.0.1:{taken.getsockname()[1]} 127.0.0.1:8888", file=configuration, flush=True)
        async with reachable(machine.address) as near_end:
            assert Path(near_end.removeprefix("unix:")).is_socket()


async def test_a_tunnel_that_has_no_near_end_is_not_taken_for_open(machine: SshMachine, tmp_path: Path) -> None:
    with pytest.raises(SshError, match="Could not request local forwarding"):
        await _open(SshPlace.parse(machine.address), tmp_path / "no such folder" / "agent", 20)
    await until(lambda: not machine.sessions())


async def test_a_controller_that_is_killed_leaves_no_tunnel(machine: SshMachine, address: str) -> None:
    holding = (
        "import asyncio\nfrom enginebench_controller.targets.channels import _open, reachable\n"
        f"async def hold():\n    async with reachable({address!r}):\n        print('open', flush=True)\n"
        "        await asyncio.Event().wait()\nasyncio.run(hold())"
    )
    controller = subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE)
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"open\n"
    assert machine.sessions()
    controller.kill()
    controller.wait()
    await until(lambda: not machine.sessions())


def refusal(bench: Bench, address: str) -> str:
    """The one sentence about a target that ssh does not get to."""
    done = bench.cli("devices", "--target", address, expect=3)
    told = [line for line in done.stderr.splitlines() if not line.startswith("waiting for ")]
    assert len(told) == 1
    return told[0]


def test_a_machine_with_another_host_key_is_not_spoken_to(bench: Bench, machine: SshMachine, address: str) -> None:
    machine.trust_host(machine.folder / "user_key.pub")
    assert "Host key verification failed" in refusal(bench, address)


def test_a_machine_that_does_not_know_us_is_told_apart(bench: Bench, machine: SshMachine, address: str) -> None:
    (machine.folder / "authorized_keys").write_text("")
    assert "Permission denied" in refusal(bench, address)


def test_a_port_without_ssh_is_told(bench: Bench, machine: SshMachine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert "Connection refused" in refusal(bench, f"ssh://127.0.0.1:{free}")


def test_an_agent_that_is_not_up_is_told_apart_from_ssh_that_fails(bench: Bench, machine: SshMachine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert "enginebench-agent serve" in refusal(bench, f"{machine.address}/{free}")
