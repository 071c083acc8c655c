"""What the agent's owner decided: `agent.toml`, and the environments made by `environment add`."""

import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import SetupError
from enginebench_agent.machine.cgroup import memory_bytes
from enginebench_agent.names import is_environment_name
from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits, find_sandbox
from enginebench_agent.sizes import parse_size
from enginebench_proto.agreed.durable import write_whole
from enginebench_proto.agreed.typed import typed_text
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT

T = TypeVar("T", bool, int, str)

"""Name of the agent's own interpreter."""

ENVIRONMENT_FILE = "environment.toml"
DEFAULT_MEMORY_SHARE = 0.9
"""Of the memory installed, or granted by the control group: the rest is the agent's and the system's."""
OWN_BYTES = 64 * 1024**2
"""What the agent itself may come to: of a board's 256 MiB more than a tenth. It idles below 45 MB."""
DEFAULT_FILE_BYTES = 16 * 1024**3
DEFAULT_STREAMS = 64
DEFAULT_QUEUED_RUNS = 256
DEFAULT_DRAIN_SECONDS = 10
DEFAULT_RESERVATION_SECONDS = 24 * 3_600
_CHILD_KEYS = frozenset({"max_memory_bytes", "max_file_bytes", "max_cpu_seconds", "allow_network", "sandbox"})
_BOUND_KEYS = frozenset(
    {"max_cache_bytes", "max_streams", "max_queued_runs", "max_reservation_seconds", "drain_seconds"}
)
_AGENT_KEYS = frozenset({"allow_executable_formats", "max_run_seconds", "discovery_seconds", "environments"})
_ENVIRONMENT_KEYS = frozenset({"python", "engines"})


@dataclass(frozen=True)
class EnvironmentConfig:
    """A Python interpreter engines live in. `engines` limits which of its entry points count; None takes all."""

    name: str
    python: Path
    engines: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AgentConfig:
    """The settings of one agent.

    `allow_executable_formats`: whether models may come in formats that can execute code when loaded.
    `trusted_models`: digests of those that may all the same, as the command line that starts the agent names them.
    `max_run_seconds`: longest life of a run's child. `discovery_seconds`: how long one plugin may take to answer.
    `child_limits`: what one child may take of the machine. `max_cache_bytes`: what model files may take of the disk,
    None for `quota.DEFAULT_SHARE` of it. `max_streams`: events, results and uploads under way at once.
    `drain_seconds`: how long runs may go on after SIGTERM. `max_reservation_seconds`: for how long somebody may reserve
    the target at once.
    """

    environments: tuple[EnvironmentConfig, ...]
    allow_executable_formats: bool = False
    max_run_seconds: int = 3_600
    discovery_seconds: int = 60
    trusted_models: frozenset[str] = frozenset()
    child_limits: ChildLimits = NO_LIMITS
    max_cache_bytes: int | None = None
    max_streams: int = DEFAULT_STREAMS
    max_queued_runs: int = DEFAULT_QUEUED_RUNS
    drain_seconds: int = DEFAULT_DRAIN_SECONDS
    max_reservation_seconds: int = DEFAULT_RESERVATION_SECONDS

    def environment(self, name: str) -> EnvironmentConfig | None:
        """The environment of that name, None where there is none."""
        return next((each for each in self.environments if each.name == name), None)


def load_config(folder: DataFolder) -> AgentConfig:
    """Read `agent.toml` and every environment's file. Raises `SetupError` that names the file and the entry."""
    table = _read_toml(folder.config_file, is_optional=True)
    _refuse_unknown(table, _AGENT_KEYS | _CHILD_KEYS | _BOUND_KEYS, folder.config_file)
    return AgentConfig(
        environments=_environments(folder, table),
        allow_executable_formats=_get(table, "allow_executable_formats", False, folder.config_file),
        max_run_seconds=_positive(table, "max_run_seconds", 3_600, folder.config_file),
        discovery_seconds=_positive(table, "discovery_seconds", 60, folder.config_file),
        child_limits=_child_limits(table, folder),
        max_cache_bytes=_size(table, "max_cache_bytes", None, folder.config_file),
        max_streams=_positive(table, "max_streams", DEFAULT_STREAMS, folder.config_file),
        max_queued_runs=_positive(table, "max_queued_runs", DEFAULT_QUEUED_RUNS, folder.config_file),
        drain_seconds=_positive(table, "drain_seconds", DEFAULT_DRAIN_SECONDS, folder.config_file),
        max_reservation_seconds=_positive(
            table, "max_reservation_seconds", DEFAULT_RESERVATION_SECONDS, folder.config_file
        ),
    )


def write_environment(folder: Path, environment: EnvironmentConfig) -> None:
    """Record a finished environment in its folder; until then the agent does not see it. Raises `OSError`."""
    lines = [f"python = {_quoted(str(environment.python))}"]
    if environment.engines is not None:
        lines.append(f"engines = [{', '.join(_quoted(name) for name in environment.engines)}]")
    # Whole: half a record, as a power failure leaves one, would keep every agent on this folder from starting.
    write_whole(folder / ENVIRONMENT_FILE, ("\n".join(lines) + "\n").encode())


def _child_limits(table: Mapping[str, Any], folder: DataFolder) -> ChildLimits:
    file = folder.config_file
    machine_bytes = memory_bytes(Path("/"))
    share_bytes = None if machine_bytes is None else _left_for_a_child(machine_bytes)
    has_bound = "max_cpu_seconds" in table
    return ChildLimits(
        memory_bytes=_size(table, "max_memory_bytes", share_bytes, file),
        file_bytes=_size(table, "max_file_bytes", DEFAULT_FILE_BYTES, file),
        cpu_seconds=_positive(table, "max_cpu_seconds", 1, file) if has_bound else None,
        network=_get(table, "allow_network", False, file),
        sandbox=find_sandbox(folder) if _get(table, "sandbox", True, file) else None,
    )


def _left_for_a_child(machine_bytes: int) -> int:
    return max(machine_bytes // 2, min(int(DEFAULT_MEMORY_SHARE * machine_bytes), machine_bytes - OWN_BYTES))


def _environments(folder: DataFolder, table: Mapping[str, Any]) -> tuple[EnvironmentConfig, ...]:
    # The owner may write about the agent's own interpreter too, to leave out engines that are slow to import.
    written = {DEFAULT_ENVIRONMENT: {}} | _get_table(table, "environments", folder.config_file)
    configured = [
        _environment(name, _get_table(written, name, folder.config_file), folder.config_file) for name in written
    ]
    added = [
        _environment(path.parent.name, _read_toml(path), path)
        for path in sorted(folder.environments.glob(f"*/{ENVIRONMENT_FILE}"))
    ]
    by_name: dict[str, EnvironmentConfig] = {}
    for environment in [*configured, *added]:
        if environment.name in by_name:
            raise SetupError(f"{folder.config_file}: the environment {environment.name!r} exists twice")
        by_name[environment.name] = environment
    return tuple(by_name.values())


def _environment(name: str, table: Mapping[str, Any], file: Path) -> EnvironmentConfig:
    _refuse_unknown(table, _ENVIRONMENT_KEYS, file)
    python = Path(_get(table, "python", sys.executable if name == DEFAULT_ENVIRONMENT else "", file))
    with suppress(RuntimeError):  # of the home of an account that is none: as it stands it is no whole path
        python = python.expanduser()
    if not python.is_absolute() or not is_environment_name(name):
        raise SetupError(f'{file}: the environment {name!r} needs a plain name and python = "/path/to/python"')
    engines = table.get("engines")
    if engines is not None and not (isinstance(engines, list) and all(isinstance(engine, str) for engine in engines)):
        raise SetupError(f"{file}: engines of the environment {name!r} must be a list of names")
    return EnvironmentConfig(name, python, None if engines is None else tuple(engines))


def _read_toml(path: Path, *, is_optional: bool = False) -> dict[str, Any]:
    try:
        return tomllib.loads(typed_text(path))
    except OSError as error:
        if is_optional and isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        raise SetupError(
            f"cannot read {path} ({error.strerror}): let this user read it, or choose another data folder with "
            "--data-dir"
        ) from error
    except ValueError as error:
        raise SetupError(f"cannot read {path}: {error}") from error


def _refuse_unknown(table: Mapping[str, Any], known: frozenset[str], file: Path) -> None:
    if unknown := sorted(set(table) - known):
        raise SetupError(f"{file}: unknown entry {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _get(table: Mapping[str, Any], key: str, default: T, file: Path) -> T:
    value = table.get(key, default)
    if type(value) is not type(default):
        raise SetupError(f"{file}: {key} must be of type {type(default).__name__}, not {value!r}")
    return value


def _positive(table: Mapping[str, Any], key: str, default: int, file: Path) -> int:
    value = _get(table, key, default, file)
    if value <= 0:
        raise SetupError(f"{file}: {key} must be above zero, not {value}")
    return value


def _size(table: Mapping[str, Any], key: str, default: int | None, file: Path) -> int | None:
    try:
        return parse_size(table[key]) if key in table else default
    except ValueError as error:
        raise SetupError(f"{file}: {key}: {error}") from error


def _get_table(table: Mapping[str, Any], key: str, file: Path) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise SetupError(f"{file}: {key} must be a table")
    return value


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
