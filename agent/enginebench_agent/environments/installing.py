"""Filling a new folder with a virtual environment and what belongs into it."""

import importlib.metadata
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.environments.progress import tell
from enginebench_agent.environments.provenance import own_requirement
from enginebench_agent.errors import SetupError

SHOWN_LINES = 15
DISTRIBUTION = "enginebench"

_NOT_INSTALLED = "pip could not install it; nothing was kept"
_ENGINE = re.compile(r"([A-Za-z0-9_-]+)\s*((?:[=<>!~]=?=?\s*[^\s;\[\]@]+)?)")


@dataclass(frozen=True)
class EngineRequirement:
    """One of our engines, with a version specifier such as "==1.20.1" or ""."""

    name: str
    specifier: str

    @classmethod
    def parse(cls, text: str) -> "EngineRequirement":
        """Read "onnxruntime" or "onnxruntime==1.20.1". Raises `SetupError` for an engine that is not ours."""
        found = _ENGINE.fullmatch(text.strip())
        known = own_engines()
        if found is None or found[1] not in known:
            raise SetupError(
                f"{text!r} is not an engine of ours ({', '.join(known)}); "
                "install a plugin from elsewhere with --package"
            )
        return cls(found[1], found[2].strip())


def own_engines() -> list[str]:
    """Names of the engines enginebench itself brings."""
    points = importlib.metadata.distribution(DISTRIBUTION).entry_points
    return sorted(point.name for point in points if point.group == DISTRIBUTION)


def make_venv(python: Path, folder: Path) -> Path:
    """Make a virtual environment at `folder` and return its interpreter. Raises `SetupError`."""
    tell(f"making a virtual environment with {python}")
    _run([str(python), "-m", "venv", str(folder)], "the virtual environment cannot be made; nothing was kept")
    return folder / "bin" / "python"


def install(python: Path, engine: EngineRequirement | None, packages: tuple[str, ...], scratch: Path) -> None:
    """Install enginebench in the agent's version, the engine and the packages. Raises `SetupError`."""
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    extras = distribution.metadata.get_all("Provides-Extra") or []
    wanted = (engine.name,) if engine is not None and engine.name in extras else ()
    pinned = [engine.name + engine.specifier] if engine is not None and engine.specifier else []
    tell(f"installing {' '.join([f'{DISTRIBUTION} {distribution.version}', *wanted, *pinned, *packages])}")
    _pip(python, [*own_requirement(distribution, wanted, scratch), *pinned, *packages], _NOT_INSTALLED)


def reinstall(python: Path, name: str, scratch: Path) -> None:
    """Put enginebench in the agent's version into the environment of that name. Raises `SetupError`."""
    requirement = own_requirement(importlib.metadata.distribution(DISTRIBUTION), (), scratch)
    failure = f"pip could not upgrade the environment {name!r}: remove it and add it again, if it fails again"
    _pip(python, requirement, failure)  # for what it needs now
    # pip takes two builds of one version for the same and leaves the old one, unless it is forced.
    _pip(python, ["--force-reinstall", "--no-deps", *requirement], failure)


def _pip(python: Path, arguments: list[str], failure: str) -> None:
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments]
    _run(command, failure)


def _run(command: list[str], failure: str) -> None:
    foreign = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables, check=False
        )
    except OSError as error:
        raise SetupError(f"{failure}: {error}") from error
    if done.returncode != 0:
        end = "\n".join(done.stdout.strip().splitlines()[-SHOWN_LINES:])
        raise SetupError(f"{failure}. The end of its output:\n{end}")
