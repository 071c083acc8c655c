"""The wheel that goes to another machine: the enginebench that is installed here, or one given."""

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.running.ssh import last_words


@dataclass(frozen=True)
class Wheel:
    """A wheel of enginebench, in memory: a few megabytes."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The digest of its bytes, in hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


def given_wheel(path: Path) -> Wheel:
    """Read a wheel of enginebench. Raises `InputError` for anything else."""
    if not (path.name.startswith("enginebench-") and path.suffix == ".whl"):
        raise InputError(f"{path} is no wheel of enginebench: make one with `enginebench-agent wheel FOLDER`")
    try:
        return Wheel(path.name, path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def own_wheel(folder: Path) -> Wheel:
    """Pack the enginebench that is installed here into a wheel below `folder`. Raises `EnginebenchError`."""
    command = [sys.executable, "-m", "enginebench_agent", "wheel", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnginebenchError(last_words(done.stderr).removeprefix("enginebench-agent: "))
    return given_wheel(Path(done.stdout.strip()))
