"""A command that waits for another one's turn on this machine can be interrupted."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from integration.bench import Bench


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
