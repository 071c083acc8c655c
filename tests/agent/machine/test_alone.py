"""Agents that have their machine alone: real processes with data folders of their own."""

import subprocess
import time
from pathlib import Path

import pytest

from agent_server import READY, AgentProcess, serve_command

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dask")]  # with others that wait for the machine


@pytest.fixture
def waiting(tmp_path: Path):
    """The agent that is there, and one that waits for it."""
    first = AgentProcess(tmp_path / "first", "--alone")
    command = [*serve_command(tmp_path / "second", "--port", "0", "--alone", "--exit-with-stdin", "--verbose")]
    second = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "alone: waiting" in second.stderr.readline()
    yield first, second
    first.stop()
    second.kill()
    second.wait()


def test_the_next_agent_begins_when_the_one_before_was_killed(waiting) -> None:
    first, second = waiting
    time.sleep(0.5)
    assert second.poll() is None
    began = time.time()
    first.kill()
    assert second.stdout.readline().startswith(READY)
    assert time.time() - began < 20


def test_an_agent_that_waits_ends_with_its_starter(waiting) -> None:
    first, second = waiting
    second.stdin.close()
    assert second.wait(timeout=10) == 2
    assert "whoever started this agent is gone" in second.stderr.read()
    assert first.process.poll() is None
