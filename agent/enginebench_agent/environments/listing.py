"""`environment list`."""

import json
import sys

from enginebench_agent.config import EnvironmentConfig, load_config
from enginebench_agent.data_folder import DataFolder

SCHEMA_VERSION = 1


def print_environments(folder: DataFolder, *, as_json: bool) -> None:
    """Print every environment: a line each, or one JSON document. Raises `SetupError` for a broken configuration."""
    environments = load_config(folder).environments
    if as_json:
        rows = [_row(each) for each in environments]
        json.dump({"schema_version": SCHEMA_VERSION, "environments": rows}, sys.stdout, indent=2)
        print()  # the command's data
        return
    for each in environments:
        print(f"{each.name}\t{each.python}\t{', '.join(each.engines or ('all engines',))}")  # data


def _row(environment: EnvironmentConfig) -> dict[str, object]:
    engines = None if environment.engines is None else list(environment.engines)
    return {"name": environment.name, "python": str(environment.python), "engines": engines}
