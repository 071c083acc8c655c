"""`environment upgrade`: after enginebench itself was upgraded, its workers in the environments follow."""

import tempfile
from pathlib import Path

from enginebench_agent.config import ENVIRONMENT_FILE, load_config
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.environments.installing import reinstall
from enginebench_agent.environments.progress import tell


def upgrade_environments(folder: DataFolder) -> None:
    """Install the agent's own enginebench into every environment that `environment add` made; engines stay as they are.

    Raises `SetupError` at the first that cannot be upgraded.
    """
    for environment in load_config(folder).environments:
        if (folder.environments / environment.name / ENVIRONMENT_FILE).exists():
            with tempfile.TemporaryDirectory(prefix="enginebench-") as scratch:
                reinstall(environment.python, environment.name, Path(scratch))
            tell(f"environment {environment.name!r} has the agent's version now")
