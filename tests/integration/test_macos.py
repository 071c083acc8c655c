"""A desk with macOS: targets elsewhere are measured from it, an agent of its own is refused in a sentence."""

import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.errors import EnginebenchError
from enginebench_controller.targets.local_agent import started_agent
from integration.bench import tiny_model

SENTENCE = "agents run on Linux, and this is macOS: measure a target elsewhere, with --target"


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is one, and what starts a process is a defect."""

    def start(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it starts a process")

    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)


@pytest.mark.slow
@pytest.mark.usefixtures("macos")
@pytest.mark.parametrize("words", [["devices"], ["run", "tiny.onnx", "--engine", "onnxruntime"], ["demo"]])
def test_what_would_start_an_agent_names_the_way_around(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    tiny_model(tmp_path / "tiny.onnx")
    done = CliRunner().invoke(make_app(words), words)
    assert isinstance(done.exception, EnginebenchError) and str(done.exception) == SENTENCE
    assert done.exception.exit_code == 2


@pytest.mark.usefixtures("macos")
async def test_a_worker_of_a_cluster_says_the_same(tmp_path: Path) -> None:
    with pytest.raises(EnginebenchError, match="agents run on Linux, and this is macOS"):
        async with started_agent(tmp_path):
            pass


HOMES = """
import sys
sys.platform = "darwin"
from enginebench_agent.data_folder import default_root
from enginebench_controller.home import default_home
print(default_home().agent_data)
print(default_root())
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "home/.local/share/enginebench/agent"),
        ({"XDG_DATA_HOME": "{}/data"}, "data/enginebench/agent"),
        ({"XDG_DATA_HOME": "{}/data", "ENGINEBENCH_HOME": "~/bench"}, "home/bench/agent"),
    ],
)
def test_controller_and_agent_find_the_same_environments_on_every_system(
    variables: dict[str, str], expected: str, tmp_path: Path
) -> None:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("ENGINEBENCH_", "XDG_"))}
    set_here = {name: value.format(tmp_path) for name, value in variables.items()} | {"HOME": str(tmp_path / "home")}
    found = subprocess.check_output([sys.executable, "-c", HOMES], env=others | set_here, text=True)
    assert found.split() == [str(tmp_path / expected)] * 2
