"""A search is one thing in lists, and is removed with all that it has left."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import invented_bisects
from enginebench_agent.config import EnvironmentConfig, write_environment
from enginebench_controller.cli import make_app
from enginebench_controller.home import Home


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
