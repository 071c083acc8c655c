"""Which Python an environment is made with."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from enginebench_agent.errors import SetupError

Version = tuple[int, int]

OLDEST: Version = (3, 11)
"""The oldest Python enginebench itself runs on."""

TOO_NEW: dict[str, Version] = {"deepsparse": (3, 12)}
"""The first Python an engine has no wheels for. DeepSparse is retired, and its last release supports 3.8 to 3.11."""


def choose_python(
    engine: str | None,
    wanted: Path | None,
    version_of: Callable[[Path], Version | None] | None = None,
    find: Callable[[str], str | None] = shutil.which,
) -> Path:
    """The interpreter for an engine: the one wanted, else the agent's own, else one found on PATH that fits.

    Raises `SetupError` when none fits. `version_of` and `find` ask the machine; tests bring their own.
    """
    version_of = version_of or ask_version
    too_new = TOO_NEW.get(engine or "", (4, 0))
    if wanted is not None:
        return _checked(wanted, version_of(wanted), too_new, engine)
    candidates = [Path(sys.executable), *_on_path(too_new, find)]
    for candidate in candidates:
        version = version_of(candidate)
        if version is not None and OLDEST <= version < too_new:
            return candidate
    raise SetupError(
        f"{engine} needs a Python from {_shown(OLDEST)} on and below {_shown(too_new)}, and none is on PATH: "
        "install one, or name it with --python"
    )


def ask_version(python: Path) -> Version | None:
    """The version of an interpreter; None when it cannot be started."""
    command = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.split()
        return int(answer[0]), int(answer[1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _checked(python: Path, version: Version | None, too_new: Version, engine: str | None) -> Path:
    if version is None:
        raise SetupError(f"{python} is not a Python interpreter that can be started")
    if version < OLDEST:
        raise SetupError(f"{python} is Python {_shown(version)}, and enginebench needs {_shown(OLDEST)} or newer")
    if version >= too_new:
        raise SetupError(
            f"{python} is Python {_shown(version)}, and {engine} exists only for Pythons below {_shown(too_new)}"
        )
    return python


def _on_path(too_new: Version, find: Callable[[str], str | None]) -> list[Path]:
    major, first_minor = OLDEST
    last_minor = too_new[1] if too_new[0] == major else first_minor
    names = [f"python{major}.{minor}" for minor in range(last_minor - 1, first_minor - 1, -1)]
    return [Path(found) for name in names if (found := find(name))]


def _shown(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
