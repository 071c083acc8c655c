"""A plugin that hangs, or answers late, as somebody meets it who lists what there is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_controller.cli.commands import targets
from enginebench_controller.home import Home
from enginebench_controller.targets import client, session
from enginebench_controller.targets.session import completed, open_session
from integration.bench import Bench
from plugged import Environment
from plugins import planted


def install_tardy(agent: AgentProcess, folder: Path) -> None:
    """Give an agent an engine more, which takes three seconds to answer."""
    environment = Environment(folder)
    environment.add_plugin("tardy", planted.plugin("SoundEngine()", "import time\ntime.sleep(3)"))
    section = f"[environments.third]\npython = '{environment.python}'\nengines = ['tardy']\n"
    (agent.data_dir / "agent.toml").write_text(ONLY_FAKE + section)


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


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_refresh_lists_and_keeps_what_answers_later_than_a_call_may_take(
    bench: Bench,
    start_agent: Callable[..., AgentProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: tuple[str, ...],
) -> None:
    agent = start_agent()
    bench.cli("devices", "--target", agent.address)
    install_tardy(agent, tmp_path / "venv")
    monkeypatch.setattr(targets, "EARLY_SECONDS", 0.1)
    monkeypatch.setattr(session, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(client, "DISCOVERY_SECONDS", 2.0)
    assert "tardy" in bench.cli("devices", "--target", agent.address, "--refresh", *form).stdout
    assert "tardy" in {one.name for one in Home(bench.home).store.snapshots()[0].available}


async def test_a_target_is_known_by_its_last_word_until_all_have_answered_that_are_asked_anew(
    start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    home, agent = Home(tmp_path / "home"), start_agent()
    async with open_session(home, [agent.address]) as opened:
        before = opened.snapshots
    install_tardy(agent, tmp_path / "venv")
    async with open_session(home, [agent.address], refresh=True, within_s=0.1) as opened:
        (early,) = opened.snapshots
        assert early.being_asked
        assert home.store.snapshots() == before
        whole = await completed(home, opened, early)
    assert home.store.snapshots() == (whole,)
    assert [one.name for one in whole.available] == ["fake", "tardy"]
