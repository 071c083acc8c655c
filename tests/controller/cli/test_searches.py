"""A search is one thing in lists, and is removed with all that it has left."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import invented_bisects
from enginebench_agent.config import EnvironmentConfig, write_environment
from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands import bisect
from enginebench_controller.errors import ChangedTargetError
from enginebench_controller.home import Home
from enginebench_controller.records import Search
from enginebench_controller.runs.searches.holding import FOLDER


@pytest.mark.slow
def test_an_interrupted_bisect_is_removed_with_its_environments_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    home = Home(tmp_path)
    home.store.add_search(invented_bisects.search(None))
    (own, _) = invented_bisects.ORDER.environments(invented_bisects.ID, 0)
    for name in (own, "mine"):
        place = home.agent_data / "environments" / name
        place.mkdir(parents=True)
        write_environment(place, EnvironmentConfig(name, place / "python", ("onnxruntime",)))
    done = CliRunner().invoke(make_app(), ["remove", invented_bisects.ID, "--yes"], catch_exceptions=False)
    assert done.exit_code == 0
    assert [one.name for one in (home.agent_data / "environments").iterdir()] == ["mine"]
    assert home.store.searches() == ()


def test_a_search_that_cannot_go_on_now_keeps_no_other_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    home, gone_on = Home(tmp_path), []
    for id_ in ("5ea4c0000001", "5ea4c0000002"):
        home.store.add_search(replace(invented_bisects.search(None), id=id_))
    (home.path / FOLDER).mkdir()
    (home.path / FOLDER / "any.lock").touch()

    def carry_on(_: Home, one: Search, **__: object) -> int:
        gone_on.append(one.id)
        if len(gone_on) == 1:
            raise ChangedTargetError("another machine")
        return 0

    monkeypatch.setattr(bisect, "carry_on", carry_on)
    done = CliRunner().invoke(make_app(), ["resume"], catch_exceptions=False, standalone_mode=False)
    assert sorted(gone_on) == ["5ea4c0000001", "5ea4c0000002"]
    assert (done.return_value, "error: another machine" in done.stderr) == (3, True)
