"""A plugin that hangs, as somebody meets it who lists what there is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_server import AgentProcess
from integration.bench import Bench
from plugged import Environment
from plugins import planted


@pytest.mark.fault(18)
def test_the_others_are_listed_at_once_and_the_one_that_hangs_when_its_time_is_up(
    bench: Bench, start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "venv")
    for name, engine in {"hangs": "Hanging()", "many": "MillionDevices()", "good": "SoundEngine()"}.items():
        environment.add_plugin(name, planted.plugin(engine))
    section = f"[environments.third]\npython = '{environment.python}'\nengines = ['good', 'hangs', 'many']\n"
    agent = start_agent(config=f"discovery_seconds = 12\n[environments.default]\nengines = ['fake']\n{section}")
    done = bench.cli("devices", "--target", agent.address)
    early, late = done.stdout.split("did not answer within 12 s")
    assert "good" in early and "good" not in late
    assert "CPU.7" in done.stdout and "CPU.8" not in done.stdout and "and 999,992 more" in done.stdout
    assert "still being asked: " in done.stderr and f"hangs ({agent.address})" in done.stderr
