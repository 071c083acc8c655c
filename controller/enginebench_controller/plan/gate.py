"""What a person writes for base and head of a gate, and the plan with its three rungs that comes of it."""

import asyncio
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.configurations import Engine, select_engines
from enginebench_controller.records import LOCAL_TARGET, TargetSnapshot

PLUGIN = "plugin:"
FORMS = "E==VERSION, E@ENVIRONMENT, E:OPTION=VALUE or plugin:FOLDER"

_ENGINE = re.compile(
    r"(?P<engine>[A-Za-z0-9][A-Za-z0-9_-]*)?"
    r"(?:==(?P<version>[^@:=\s]+)|@(?P<environment>[^@:=\s]+))?"
    r"(?::(?P<options>[^:=\s]+=.*))?"
)
_OPTION_STARTS = re.compile(r",(?=[^,=]+=)")
_ZEROS = re.compile(r"(\.0)+$")
_NOT_THE_PROJECT = frozenset({"__pycache__", "build", "dist", "node_modules", "venv"})
_PIP_SAID = re.compile(r"ERROR: (.+)")
_VERSIONS = re.compile(r"from versions: ([^)]+)\)")
_SHOWN_VERSIONS = 5


@dataclass(frozen=True)
class GateSide:
    """Base or head as it was written: a model, or an engine with what is special about it."""

    text: str
    model: str | None = None
    engine: str | None = None
    version: str | None = None
    environment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    plugin: Path | None = None


def parse_sides(model: str | None, base: str, head: str, engine: str | None) -> tuple[GateSide, GateSide]:
    """Read both sides; `engine` is what both have in common. Raises `InputError`.

    Without a `model` the sides are models, all on that engine; else they say what to run the model on.
    """
    if model is not None:
        first, second = (_engine_side(name, text, engine) for name, text in (("--base", base), ("--head", head)))
        return first, second
    common = GateSide("", None) if engine is None else _engine_side("--engine", engine, None)
    for name, text in (("--base", base), ("--head", head)):
        if _reads_as_engine(text):
            raise InputError(
                f"{name} {text} says what to run a model on, and no model was named: enginebench gate MODEL "
                f"--base {base} --head {head}"
            )
    first, second = (
        GateSide(text, text, common.engine, common.version, common.environment, common.options, common.plugin)
        for text in (base, head)
    )
    return first, second


def _reads_as_engine(text: str) -> bool:
    return (text.startswith(PLUGIN) or (bool(_ENGINE.fullmatch(text)) and any(c in text for c in "=@"))) and not Path(
        text
    ).exists()


def _engine_side(name: str, text: str, engine: str | None) -> GateSide:
    if text.startswith(PLUGIN):
        return GateSide(text, engine=engine, plugin=_project(name, text))
    found = _ENGINE.fullmatch(text)
    if found is None or not text:
        raise InputError(f"{name} {text!r} is not of the form {FORMS}; two models are compared without MODEL")
    if (named := found["engine"] or engine) is None:
        raise InputError(f"{name} {text!r} names no engine: write E{text}, or add --engine E")
    return GateSide(text, None, named, found["version"], found["environment"], _options(found["options"]))


def _options(text: str | None) -> dict[str, str]:
    """Of `a=1,b=x,y`, b is `x,y`: a comma only separates where the name of an option follows."""
    return {} if text is None else dict(part.split("=", 1) for part in _OPTION_STARTS.split(text))


def _project(name: str, text: str) -> Path:
    folder = Path(text.removeprefix(PLUGIN)).expanduser().absolute()
    if not folder.is_dir():
        raise InputError(f"{name} {text}: there is no folder {folder}")
    if not any((folder / file).is_file() for file in ("pyproject.toml", "setup.py")):
        raise InputError(f"{name} {text}: {folder} is no plugin project, as it has no pyproject.toml")
    return folder


@dataclass(frozen=True)
class NeededEnvironment:
    """An environment that a side needs and that is not there: its name, and what `environment add` is given for it."""

    name: str
    arguments: tuple[str, ...]
    what: str

    @property
    def command(self) -> str:
        """What a person types on the machine of a target."""
        return " ".join(("enginebench-agent environment add", self.name, *self.arguments))


def needed(side: GateSide, snapshot: TargetSnapshot) -> NeededEnvironment | None:
    """What must be installed for a side on a target; None where all of it is there."""
    if side.plugin is not None:
        name = f"{_safe(side.plugin.name)}-{_digest(side.plugin)[:10]}"
        wanted = NeededEnvironment(name, ("--package", str(side.plugin)), f"the plugin project {side.plugin}")
        return None if any(one["environment"] == name for one in snapshot.engines) else wanted
    if side.version is None or side.engine is None or _with_version(side, snapshot.engines):
        return None
    name = _safe(f"{side.engine}-{side.version}")
    requirement = f"{side.engine}=={side.version}"
    return NeededEnvironment(name, ("--engine", requirement), f"{side.engine} {side.version}")


def chosen_engine(side: GateSide, snapshot: TargetSnapshot) -> str | None:
    """The engine of a side as a plan names it, once all is installed; None where nobody said any.

    Raises `InputError`.
    """
    if side.plugin is not None:
        return _of_plugin(side, snapshot)
    if side.engine is None:
        return None
    if side.version is not None:
        found = _with_version(side, snapshot.engines)
        if not found:
            there = needed(side, snapshot)
            raise InputError(_unusable(there.name if there else "", f"{side.engine} {side.version}", snapshot))
        return f"{side.engine}@{found[0]['environment']}"
    name = f"{side.engine}@{side.environment}" if side.environment else side.engine
    _, problems = select_engines([name], snapshot.engines, snapshot.target)
    if problems:
        raise InputError("\n".join(problems))
    return name


def _with_version(side: GateSide, engines: Sequence[Engine]) -> list[Engine]:
    """The usable engines of that very version, whatever build of it, that of the default environment first."""
    usable = [one for one in engines if one["name"] == side.engine and one["available"]]
    found = [one for one in usable if _is_version(one["available"]["version"], str(side.version))]
    return sorted(found, key=lambda one: one["environment"] != "default")


def _is_version(there: str, asked: str) -> bool:
    """Whether pip installs `there` for `==asked`: 1.20.0 is 1.20, 1.20.1 is a 1.20.*, and any build is of a version."""
    public = there if "+" in asked else there.partition("+")[0]
    if asked.endswith(".*"):
        return f"{public}.".startswith(asked.removesuffix("*"))
    return _ZEROS.sub("", public) == _ZEROS.sub("", asked)


def _of_plugin(side: GateSide, snapshot: TargetSnapshot) -> str:
    assert side.plugin is not None  # noqa: S101  # asked by who calls
    name = f"{_safe(side.plugin.name)}-{_digest(side.plugin)[:10]}"
    usable = [one for one in snapshot.engines if one["environment"] == name and one["available"]]
    if side.engine is not None:
        usable = [one for one in usable if one["name"] == side.engine]
    if not usable:
        raise InputError(_unusable(name, f"the plugin project {side.plugin}", snapshot))
    if len(usable) > 1:
        names = ", ".join(sorted(one["name"] for one in usable))
        raise InputError(f"{side.text} brings several engines ({names}): name one with --engine")
    return f"{usable[0]['name']}@{name}"


def _unusable(environment: str, what: str, snapshot: TargetSnapshot) -> str:
    """Why what was installed cannot be used; no engine at all is a reason, too."""
    reasons = [
        one["unavailable"]["reason"].splitlines()[0]
        for one in snapshot.engines
        if one["environment"] == environment and one["unavailable"]
    ]
    why = reasons[0] if reasons else "its environment lists no such engine"
    return f"{what} was installed on {snapshot.target} and cannot be used: {why}"


async def install(home: Home, wanted: NeededEnvironment, targets: Sequence[str], tell: Callable[[str], None]) -> None:
    """Make an environment for the agent of this machine. Raises `InputError` with pip's reason in a line.

    On another target nothing is made: its owner is told how.
    """
    if set(targets) - {LOCAL_TARGET} or any(one.name == LOCAL_TARGET for one in home.store.targets()):
        where = targets[0] if targets else LOCAL_TARGET
        raise InputError(
            f"target {where!r} has no environment for {wanted.what}, and gates make them on this machine only; there, "
            f"run: {wanted.command}"
        )
    tell(f"installing {wanted.what} into an environment of its own ({wanted.name}), which is kept")
    command = (sys.executable, "-m", "enginebench_agent", "environment", "add", wanted.name, *wanted.arguments)
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--data-dir", str(home.agent_data)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode != 0:
        raise InputError(f"{wanted.what} cannot be installed: {_reason(said.decode(errors='replace'))}")


def _reason(said: str) -> str:
    """pip's own reason in one line, with the newest versions where there are some; else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if "exists, but no environment was finished there" in said or not lines:
        return lines[-1].removeprefix("enginebench-agent: ") if lines else "it said nothing"
    errors = [match[1] for match in map(_PIP_SAID.search, lines) if match]
    if not errors:
        told = [line.removeprefix("enginebench-agent: ") for line in lines if line.startswith("enginebench-agent: ")]
        return (told or lines)[-1]
    versions = next((match[1].split(", ") for match in map(_VERSIONS.search, lines) if match), [])
    newest = [one for one in versions if one and one != "none"][-_SHOWN_VERSIONS:]
    return errors[-1].rstrip(".") + (f"; the newest are {', '.join(newest)}" if newest else "")


def _digest(folder: Path) -> str:
    """Of all files that make the project, so that another state of it is another environment."""
    told = hashlib.sha256()
    for path in sorted(_files(folder)):
        told.update(f"{path.relative_to(folder)}\0".encode())
        told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        is_part = not path.name.startswith(".") and not path.name.endswith(".egg-info")
        if path.name in _NOT_THE_PROJECT or not is_part or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def rung_fields(side: GateSide, engine: str | None) -> dict[str, Any]:
    """The fields of the plan in which this side differs from the other."""
    fields: dict[str, Any] = {} if side.model is None else {"models": [side.model]}
    if engine is not None:
        fields["engines"] = [engine]
        fields["options"] = {f"{engine.partition('@')[0]}.{name}": value for name, value in side.options.items()}
    return fields
