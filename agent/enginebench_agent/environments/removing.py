"""`environment remove`."""

import shutil

from enginebench_agent.config import DEFAULT_ENVIRONMENT, ENVIRONMENT_FILE, load_config
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.environments.progress import tell
from enginebench_agent.errors import SetupError


def remove_environment(name: str, folder: DataFolder) -> None:
    """Delete an environment that `environment add` made. Raises `SetupError` for any other."""
    environments = load_config(folder).environments
    if name == DEFAULT_ENVIRONMENT:
        raise SetupError("the environment 'default' is the agent's own interpreter and cannot be removed")
    if name not in {each.name for each in environments}:
        known = ", ".join(each.name for each in environments)
        raise SetupError(f"there is no environment {name!r}; there are {known}")
    record = folder.environments / name / ENVIRONMENT_FILE
    if not record.exists():
        raise SetupError(f"the environment {name!r} is written in {folder.config_file}: remove it there")
    record.unlink()  # first, so that the agent never sees half an environment
    shutil.rmtree(record.parent)
    tell(f"environment {name!r} is removed")
