"""The pytest plugin in projects of others: the one that uses its fixture, and the one that does not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration.bench import Bench

OURS = """
import sys

def pytest_unconfigure():
    print("loaded:", sorted(name for name in sys.modules if "enginebench" in name))
"""
UNUSED = "def test_nothing(): pass\n"
USED = """
import pytest

# What cannot be told comes first: later there are earlier pairs, by which too short a budget is refused.
BUDGET = dict(layers=False, cores=1)
SLOW, SLOWER = "fake:latency_us=3000,wait=sleep", "fake:latency_us=30000,wait=sleep"

@pytest.mark.parametrize("strict", [False, True])
def test_untold(enginebench, strict, monkeypatch):
    monkeypatch.setattr("enginebench_controller.plan.gate.SHORTEST_BUDGET_S", 2.5)
    monkeypatch.setattr("enginebench_controller.runs.gate.FEWEST_PAIRS", 1)
    enginebench.gate(SLOW, SLOW, {model!r}, budget=2.5, strict=strict, **BUDGET)

def test_worse(enginebench):
    enginebench.gate(SLOW, SLOWER, {model!r}, budget=30, **BUDGET)

def test_broken(enginebench):
    enginebench.gate("fake", "fake:fault=inference_error", {model!r}, budget=30, **BUDGET)
"""


def project(folder: Path, tests: str) -> Path:
    """A stranger's project with these tests."""
    folder.mkdir()
    (folder / "conftest.py").write_text(OURS)
    (folder / "test_theirs.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return folder


def their_tests(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_who_does_not_use_the_fixture_loads_one_module(bench: Bench, tmp_path: Path) -> None:
    done = their_tests(project(tmp_path / "theirs", UNUSED), **bench.variables)
    assert done.returncode == 0, done.stdout
    assert "loaded: ['pytest_enginebench']" in done.stdout


@pytest.mark.slow
def test_a_test_fails_where_head_is_worse_and_warns_where_nobody_can_tell(
    bench: Bench, model: Path, tmp_path: Path
) -> None:
    folder = project(tmp_path / "theirs", USED.format(model=str(model)))
    done = their_tests(folder, "-rA", **bench.variables)
    by_name = {name: how for how, name in re.findall(r"(?m)^([A-Z]+) test_theirs\.py::(\S+)", done.stdout)}
    wanted = {"test_worse": "FAILED", "test_broken": "FAILED"}
    assert by_name == wanted | {"test_untold[False]": "PASSED", "test_untold[True]": "FAILED"}, done.stdout
    assert done.stdout.count("the fake engine was asked to fail") < 8, "a reason stands once"
    assert "worse: head takes " in done.stdout and "UserWarning: cannot tell: " in done.stdout
    assert "pytest_enginebench.py" not in done.stdout, "a verdict is no traceback of ours"
