"""What `enginebench --verbose` logs: joined with the lines of the agent it starts, by the ids of runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from integration.bench import QUICK, Bench

AS_JSON = ("--verbose", "--log-format", "json")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.of_engines(tmp_path / "home", "fake")


def _lines(stderr: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]


def test_the_lines_of_controller_and_agent_tell_of_a_run_under_one_id(bench: Bench, model: Path) -> None:
    lines = _lines(bench.cli(*AS_JSON, "run", model, "--engine", "fake", *QUICK, started=True).stderr)
    of_runs: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        if "run" in line:
            room = line["logger"].partition(".")[0]
            of_runs.setdefault(line["run"], {}).setdefault(room, []).append(line["event"])
    assert list(of_runs.values()) == [
        {
            "enginebench_controller": ["run started", "run ended", "result acknowledged"],
            "enginebench_agent": ["run accepted", "run began", "run ended", "result acknowledged"],
        }
    ]
    (stored,) = [line for line in lines if line["event"] == "measurement stored"]
    assert (stored["status"], stored["failure"]) == ("ok", "none")


def test_a_command_that_fails_logs_the_code_of_its_error(bench: Bench) -> None:
    done = bench.cli(*AS_JSON, "devices", "--target", "127.0.0.1:1", expect=3, started=True)
    (line,) = [line for line in _lines(done.stderr) if line["event"] == "command failed"]
    assert line["code"] == "unreachable"
    assert "127.0.0.1:1" in line["reason"]
    assert "error: target" in done.stderr


def test_the_variables_do_as_the_options(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_VERBOSE", "1")
    monkeypatch.setenv("ENGINEBENCH_LOG_FORMAT", "json")
    done = bench.cli("devices", "--target", "127.0.0.1:1", expect=3, started=True)
    assert [line["event"] for line in _lines(done.stderr)] == ["command failed"]


def test_without_verbose_a_command_only_complains(bench: Bench) -> None:
    done = bench.cli("devices", "--target", "127.0.0.1:1", expect=3, started=True)
    told = [line for line in done.stderr.splitlines() if not line.startswith("waiting for ")]
    assert len(told) == 1 and told[0].startswith("error: ")
