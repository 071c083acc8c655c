"""A command that waits for another one, for its turn on this machine or for the results, can be interrupted."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from agent_server import AgentProcess
from enginebench_controller.home import Home
from integration.bench import QUICK, Bench, wait_until
from integration.test_resume import is_run

SETTLING_SECONDS = 2.0
"""What a command has, at least, to come so far as to wait, or to heed a signal."""


@pytest.mark.fault(15)
def test_ctrl_c_ends_a_command_that_waits_for_another(bench: Bench, model: Path) -> None:
    with FileLock(bench.home / "local-agent.lock"):
        command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--engine", "fake"]
        waiting = subprocess.Popen(command, env=bench.variables, stderr=subprocess.PIPE, text=True)
        try:
            assert waiting.stderr is not None
            assert "waiting for it to finish" in waiting.stderr.readline()
            waiting.send_signal(signal.SIGINT)
            _, remarks = waiting.communicate(timeout=10)
        finally:
            waiting.kill()
    assert waiting.returncode == 130
    assert remarks == "error: interrupted; what was finished is stored\n"


def test_ctrl_c_ends_a_question_to_a_silent_target_at_once_and_nothing_is_called_stored(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bench.cli("targets", "add", "mute", f"127.0.0.1:{server.getsockname()[1]}")
        command = [sys.executable, "-m", "enginebench_controller", "targets", "check"]
        asking = subprocess.Popen(command, env=bench.variables, stderr=subprocess.PIPE, text=True)
        try:
            assert asking.stderr is not None
            assert asking.stderr.readline() == "waiting for mute (up to 15 s)\n"
            asking.send_signal(signal.SIGINT)
            _, remarks = asking.communicate(timeout=30)
        finally:
            asking.kill()
    assert (asking.returncode, remarks) == (130, "error: interrupted\n")


def test_a_second_ctrl_c_leaves_a_result_that_waits_for_the_store_to_be_resumed(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    where = ("--engine", "fake", "--target", agent.address)
    bench.cli("devices", "--target", agent.address)
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), *where, *QUICK, "--duration", "1s"]
    slow = ("--option", "fake.wait=sleep", "--option", "fake.latency_us=50000")
    running = subprocess.Popen([*command, *slow], env=bench.variables, stderr=subprocess.PIPE, text=True)
    spool = agent.data_dir / "spool"
    try:
        wait_until(lambda: any(map(is_run, agent.children())))
        with FileLock(bench.home / "results.duckdb.lock"):
            wait_until(lambda: any(path.suffix == "" for path in spool.iterdir()))
            time.sleep(SETTLING_SECONDS)
            for _ in range(2):
                running.send_signal(signal.SIGINT)
                time.sleep(SETTLING_SECONDS)
        _, remarks = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, remarks
    bench.cli("resume")
    store = Home(bench.home).store
    (entry,) = store.benchmarks()
    assert [one.status.value for one in store.measurements(entry.benchmark.id)] == ["ok"]
    assert list(spool.iterdir()) == list((bench.home / "pending").iterdir()) == []
    assert "pending!" not in remarks, "no task of it was forgotten"
