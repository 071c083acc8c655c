"""`environment add`: a new environment, whole or not at all."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.config import EnvironmentConfig, load_config, write_environment
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.discovery import WorkerAnswerError, ask_worker
from enginebench_agent.environments.installing import (
    DISTRIBUTION,
    EngineRequirement,
    install,
    make_venv,
    own_engines,
)
from enginebench_agent.environments.interpreter import choose_python
from enginebench_agent.environments.progress import tell
from enginebench_agent.errors import SetupError
from enginebench_agent.names import is_environment_name
from enginebench_proto.v1.engine_pb2 import Engine

ANSWER_SECONDS = 120.0


@dataclass(frozen=True)
class Wish:
    """What the command line asks for: one of our engines (with a version if wanted), packages, an interpreter."""

    name: str
    engine: str | None
    packages: tuple[str, ...] = ()
    python: Path | None = None


def add_environment(wish: Wish, folder: DataFolder) -> None:
    """Make the environment, install into it, ask its engines for themselves, and print what they say.

    Raises `SetupError` when any step before the last fails; nothing is left then. An engine that was installed but
    cannot be used here stays, listed with its reason.
    """
    engine = EngineRequirement.parse(wish.engine) if wish.engine else None
    if engine is None and not wish.packages:
        raise SetupError("name what the environment is for: --engine ENGINE, --package REQUIREMENT, or both")
    folder.prepare()
    _check_name(wish.name, folder)
    python = choose_python(engine.name if engine else None, wish.python)
    place = folder.environments / wish.name
    _make_place(place)
    try:
        environment = _fill(place, python, wish, engine)
        # The record comes last: without it the agent does not see the folder.
        write_environment(place, environment)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    tell(f"environment {wish.name!r} is ready; a running agent lists it after a restart or a refresh")
    _show(environment, place)


def engines_of(listed: Sequence[Engine], engine: str | None, packages: Sequence[str]) -> tuple[str, ...] | None:
    """Which entry points the environment is for: the engine asked for, and all that is not enginebench's own.

    With packages alone that bring no plugin, an engine of ours that a package is named after; None, for all, when
    nothing can be told.
    """
    foreign = [each.name for each in listed if each.distribution.split(" ")[0] != DISTRIBUTION]
    chosen = [engine, *foreign] if engine else foreign
    if not chosen:
        chosen = [name for name in own_engines() if any(_names(package, name) for package in packages)]
    return tuple(dict.fromkeys(chosen)) or None


def _names(requirement: str, engine: str) -> bool:
    rest = requirement.removeprefix(engine)
    return rest != requirement and (not rest or rest[0] in "=<>!~[ ;@")


def _check_name(name: str, folder: DataFolder) -> None:
    if not is_environment_name(name):
        raise SetupError(f"{name!r} cannot name an environment: use letters, digits, '.', '-' and '_'")
    if load_config(folder).environment(name) is not None:
        raise SetupError(f"the environment {name!r} exists already: remove it first, or choose another name")


def _make_place(place: Path) -> None:
    try:
        place.mkdir()
    except FileExistsError as error:
        raise SetupError(
            f"{place} exists, but no environment was finished there: if nobody is making one now, delete that folder"
        ) from error


def _fill(place: Path, python: Path, wish: Wish, engine: EngineRequirement | None) -> EnvironmentConfig:
    inner_python = make_venv(python, place / "venv")
    with tempfile.TemporaryDirectory(prefix="enginebench-") as scratch:
        install(inner_python, engine, wish.packages, Path(scratch))
    listed = _ask(inner_python, ["list"], place)
    return EnvironmentConfig(
        wish.name, inner_python, engines_of(listed, engine.name if engine else None, wish.packages)
    )


def _ask(python: Path, arguments: list[str], scratch: Path) -> list[Engine]:
    try:
        return asyncio.run(ask_worker(python, arguments, scratch, ANSWER_SECONDS))
    except WorkerAnswerError as error:
        raise SetupError(f"the new environment {error}\n{error.detail}".rstrip()) from error


def _show(environment: EnvironmentConfig, scratch: Path) -> None:
    for name in environment.engines or own_engines():
        for engine in _ask(environment.python, ["describe", name], scratch):
            print(_described(engine))  # the command's data


def _described(engine: Engine) -> str:
    if engine.HasField("available"):
        devices = ", ".join(f"{device.name} ({device.full_name})" for device in engine.available.devices)
        return f"{engine.name} {engine.available.version}: {devices}"
    return f"{engine.name} is not usable: {engine.unavailable.reason}"
