"""Environments of the agent of this machine that commands make and remove."""

from pathlib import Path

import pytest

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.runs.environments import begun_environments, uninstall

pytestmark = pytest.mark.slow


async def test_an_environment_that_stays_says_nothing_about_the_version_in_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.agent_data / "environments" / "no name").mkdir(parents=True)
    with pytest.raises(EnginebenchError, match="cannot be removed: there is no environment 'no name'") as caught:
        await uninstall(home, "no name")
    assert not isinstance(caught.value, InputError), "for which a bisect would skip the version for good"
    assert begun_environments(home) == ("no name",)


async def test_an_environment_that_is_not_there_needs_no_removal(tmp_path: Path) -> None:
    await uninstall(Home(tmp_path), "none")
