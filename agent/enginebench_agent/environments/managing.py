"""`environment add, list, remove, upgrade`: with which Python one is made, whole or not, and what becomes of it."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.config import ENVIRONMENT_FILE, EnvironmentConfig, load_config, write_environment
from enginebench_agent.data_folder import DataFolder, take_lock
from enginebench_agent.environments.discovery import SCRATCH_PREFIX, WorkerAnswerError, ask_worker
from enginebench_agent.environments.installing import (
    DISTRIBUTION,
    EngineRequirement,
    install,
    make_venv,
    own_engines,
    reinstall,
    tell,
)
from enginebench_agent.errors import SetupError
from enginebench_agent.names import is_environment_name
from enginebench_proto.agreed.durable import is_at
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT
from enginebench_proto.v1.engine_pb2 import Engine

Version = tuple[int, int]

VENV = "venv"
"""The folder of the virtual environment, in that of the environment."""

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


ANSWER_SECONDS = 120.0


@dataclass(frozen=True)
class WantedEnvironment:
    """What the command line asks for: one of our engines (with a version if wanted), packages, an interpreter.

    `testing` brings what the contract tests need, too.
    """

    name: str
    engine: str | None
    packages: tuple[str, ...] = ()
    python: Path | None = None
    testing: bool = False


def add_environment(wish: WantedEnvironment, folder: DataFolder) -> None:
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
    with _alone_at(place):
        _make_place(place)
        try:
            environment = _fill(place, python, wish, engine)
            # The record comes last: without it the agent does not see the folder.
            write_environment(place, environment)
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, OSError):
                raise SetupError(
                    f"cannot make the environment in {place} ({error.strerror or error}): make room there, or make it "
                    "writable"
                ) from error
            raise
    tell(f"environment {wish.name!r} is ready; restart an agent that is serving, and it lists it, too")
    _show(environment, place)


def engines_of(listed: Sequence[Engine], engine: str | None, packages: Sequence[str]) -> tuple[str, ...] | None:
    """Which entry points the environment is for: the engine asked for, and all that is not enginebench's own.

    With packages alone that bring no plugin, an engine of ours that a package is named after; None, for all, when
    nothing can be told.
    """
    foreign = [each.name for each in listed if _brought_by_others(each)]
    chosen = [engine, *foreign] if engine else foreign
    if not chosen:
        chosen = [name for name in own_engines() if any(_names(package, name) for package in packages)]
    return tuple(dict.fromkeys(chosen)) or None


def _brought_by_others(engine: Engine) -> bool:
    """Whether a distribution other than ours brings an engine of that name, be it one of ours as well."""
    return any(named.split(" ")[0] != DISTRIBUTION for named in engine.distribution.split(", "))


def _names(requirement: str, engine: str) -> bool:
    rest = requirement.removeprefix(engine)
    return rest != requirement and (not rest or rest[0] in "=<>!~[ ;@")


def _check_name(name: str, folder: DataFolder) -> None:
    if not is_environment_name(name):
        raise SetupError(f"{name!r} cannot name an environment: use letters, digits, '.', '-' and '_'")
    if load_config(folder).environment(name) is not None:
        raise SetupError(f"the environment {name!r} exists already: remove it first, or choose another name")


def _make_place(place: Path) -> None:
    """Make the folder, in the place of one that a killed `add` has left: nobody is at it, as its lock is ours.

    Raises `SetupError` for one in which there is anything else.
    """
    if _is_half_made(place):
        shutil.rmtree(place)
        _tell_unfinished(place.name)
    try:
        place.mkdir()
    except FileExistsError as error:
        raise SetupError(f"{place} exists, but no environment was finished there: remove it first") from error


def _is_half_made(place: Path) -> bool:
    """Whether nothing is there but what an environment has before its record, and of that the beginning."""
    if place.is_symlink() or not place.is_dir():
        return False
    names = (one.name for one in place.iterdir())
    return all(name == VENV or name.startswith((SCRATCH_PREFIX, f".{ENVIRONMENT_FILE}.")) for name in names)


def _tell_unfinished(name: str) -> None:
    tell(f"what was left of the environment {name!r}, which was never finished, is removed")


CLEARING_SECONDS = 30.0
"""How long `remove` waits for whoever makes an environment: one whose starter is gone clears it away, and ends."""


@contextlib.contextmanager
def _alone_at(place: Path, within_s: float = 0) -> Iterator[None]:
    """Keep all others from making or removing an environment there. Raises `SetupError` where one is still at it.

    The kernel drops the lock when this process and what it installs with have ended, however they end.
    """
    lock = place.with_name(f".{place.name}.lock")  # no environment is called so
    with contextlib.ExitStack() as opened:
        stream = opened.enter_context(lock.open("a"))
        while (taken := take_lock(stream, within_s)) and not is_at(lock, stream):
            stream = opened.enter_context(lock.open("a"))  # who had that one has removed it, and others lock the next
        if not taken:
            raise SetupError(
                f"the environment {place.name!r} is being made by another process: wait until that has ended, or end it"
            )
        os.set_inheritable(stream.fileno(), True)  # pip goes on in the folder where this process is killed
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _fill(place: Path, python: Path, wish: WantedEnvironment, engine: EngineRequirement | None) -> EnvironmentConfig:
    inner_python = make_venv(python, place / VENV)
    with tempfile.TemporaryDirectory(prefix="enginebench-") as scratch:
        install(inner_python, engine, wish.packages, Path(scratch), testing=wish.testing)
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


def remove_environment(name: str, folder: DataFolder) -> None:
    """Delete an environment that `environment add` made, or had begun to.

    Waits a little where somebody is still making it. Raises `SetupError` for any other, and where they go on.
    """
    place = folder.environments / name
    if name == DEFAULT_ENVIRONMENT or not is_environment_name(name) or not place.is_dir():
        raise SetupError(_why_it_stays(name, folder))
    # What the record says does not matter: one that cannot be read keeps agents from starting until it is gone.
    record = place / ENVIRONMENT_FILE
    if place.is_symlink():  # somebody's own doing, and so is what it leads to
        place.unlink()
        tell(f"the link to the environment {name!r} is removed; what it leads to stays")
        return
    with _alone_at(place, CLEARING_SECONDS):
        was_finished = record.exists()
        record.unlink(missing_ok=True)  # first, so that the agent never sees half an environment
        if place.exists():  # else whoever was making it has cleared it away
            shutil.rmtree(place)
    if was_finished:
        tell(f"environment {name!r} is removed")
    else:  # `environment add` was killed there
        _tell_unfinished(name)


def _why_it_stays(name: str, folder: DataFolder) -> str:
    if name == DEFAULT_ENVIRONMENT:
        return "the environment 'default' is the agent's own interpreter and cannot be removed"
    known = [each.name for each in load_config(folder).environments]
    if name in known:
        return f"the environment {name!r} is written in {folder.config_file}: remove it there"
    return f"there is no environment {name!r}; there are {', '.join(known)}"


def upgrade_environments(folder: DataFolder) -> None:
    """Install the agent's own enginebench into every environment that `environment add` made; engines stay as they are.

    Raises `SetupError` at the first that cannot be upgraded.
    """
    for environment in load_config(folder).environments:
        if (folder.environments / environment.name / ENVIRONMENT_FILE).exists():
            with tempfile.TemporaryDirectory(prefix="enginebench-") as scratch:
                reinstall(environment.python, environment.name, Path(scratch))
            tell(f"environment {environment.name!r} has the agent's version now")
