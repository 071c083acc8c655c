"""A controller whose wall clock is set back by an hour, again and again, measures and stores as ever."""

import json
import subprocess
from pathlib import Path

import pytest

from agent.clock_going_back import executable
from agent_server import AgentProcess
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
