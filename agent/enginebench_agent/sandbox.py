"""What children are shut in with where bubblewrap is installed; each enters it by itself, see `worker.sandbox`."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from enginebench_agent.data_folder import DataFolder


@dataclass(frozen=True)
class Sandbox:
    """The program `bwrap`, the folders of secrets that no child may look into, and where engines keep their caches."""

    program: Path
    hidden: tuple[Path, ...]
    caches: Path

    def hiding(self, folder: Path) -> "Sandbox":
        """The same with one more folder hidden."""
        return replace(self, hidden=(*self.hidden, folder))

    def words(self) -> list[str]:
        """The same on a worker's command line."""
        hiding = [word for folder in self.hidden for word in ("--hide", str(folder.absolute()))]
        return ["--sandbox", str(self.program), "--caches", str(self.caches.absolute()), *hiding]


def find_sandbox(folder: DataFolder) -> Sandbox | None:
    """What the children of the agent in this data folder are shut in with, None without `bwrap` on PATH.

    The home of a controller is hidden where a variable names one: its keys and results may lie beside the data folder.
    """
    if (program := shutil.which("bwrap")) is None:
        return None
    home = os.environ.get("ENGINEBENCH_HOME")
    return Sandbox(Path(program), (folder.root, *([Path(home)] if home else [])), folder.caches)
