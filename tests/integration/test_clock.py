"""Wall clocks that are wrong: a controller's that is set back again and again, a board's that lives in 1970."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.clock_going_back import executable
from agent_server import AgentProcess
from enginebench_agent.runs.spool import Spool
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.v1.run_pb2 import OUTCOME_FAILED, RunResult
from integration.bench import QUICK, Bench


@pytest.mark.fault(20)
def test_a_controller_whose_clock_goes_back_waits_follows_and_stores_as_ever(
    bench: Bench, model: Path, shared_agent: AgentProcess, tmp_path: Path
) -> None:
    marker = tmp_path / "clock"
    order = ("run", str(model), "--engine", "fake", "--target", shared_agent.address, *QUICK, "--json")
    command = [executable(tmp_path, marker), "-m", "enginebench_controller", *order]
    done = subprocess.run(command, capture_output=True, text=True, env=bench.variables, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    (measurement,) = json.loads(done.stdout)["measurements"]
    assert measurement["status"] == "ok"
    (stored,) = bench.measurements(json.loads(done.stdout))
    assert stored.steady_state_ns is not None and stored.steady_state_ns >= 100_000_000
    assert all(phase.duration_ns < 120_000_000_000 for phase in stored.phases)


BOARD = """
import runpy, sys, time
from pathlib import Path
behind, true_ns = Path(sys.argv[1]), time.time_ns
time.time_ns = lambda: true_ns() - int(behind.read_text() or 0)
sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""An agent on a board without a battery: its clock is behind by what a file says."""
IN_1970_NS = 1_790_000_000_000_000_000


@pytest.mark.parametrize("is_set_meanwhile", [False, True], ids=["it stays in 1970", "it is set while a run goes on"])
def test_a_board_that_wakes_up_in_1970_measures_in_the_time_of_the_desk(
    is_set_meanwhile: bool, bench: Bench, model: Path, tmp_path: Path
) -> None:
    behind, script, python = tmp_path / "behind", tmp_path / "board.py", tmp_path / "python"
    behind.write_text(str(IN_1970_NS))
    script.write_text(BOARD)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{script}" "{behind}" "$@"\n')
    python.chmod(0o755)
    agent = AgentProcess(tmp_path / "board", python=str(python))
    began_ns = time.time_ns()
    order = ("run", model, "--engine", "fake", "--target", agent.address, *QUICK, "--duration", "2s")
    try:
        setting = threading.Timer(2.5, behind.write_text, ["0"])
        if is_set_meanwhile:
            setting.start()
        done = bench.cli(*order, "--json")
        setting.cancel()
    finally:
        agent.stop()
    (one,) = json.loads(done.stdout)["measurements"]
    assert began_ns < one["started_at_unix_ns"] < time.time_ns()
    assert " behind: what is measured there gets the time of this machine" in done.stderr


async def test_a_result_of_another_age_has_no_time(start_agent: Callable[..., AgentProcess]) -> None:
    """It was left in 1970, and the clock was set before anybody asked: when that was nobody knows."""
    agent = start_agent()
    agent.stop()
    left = RunResult(run_id="left", outcome=OUTCOME_FAILED, started_at_unix_ns=5)
    left.spec.run_id = "left"
    with Spool(agent.data_dir / "spool").begin("left") as writer:
        writer.commit(left)
    agent.restart()
    async with AgentClient("board", agent.address) as client:
        (part,) = [part async for part in client.result("left")]
    assert part.result.started_at_unix_ns == 0
