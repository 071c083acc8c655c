"""The folder of enginebench on this machine, in which a controller and its agent find the same environments."""

import os
from pathlib import Path

HOME_VARIABLE = "ENGINEBENCH_HOME"


def home_folder() -> Path:
    """The folder that `ENGINEBENCH_HOME` names, else that of the user's data as XDG has it: on every system.

    Raises `RuntimeError` where it is in a home that is not known.
    """
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).expanduser()  # which no shell has done in a unit or a file of variables
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "enginebench"
