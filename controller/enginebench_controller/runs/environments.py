"""Environments of the agent of this machine that a command makes for itself, and removes or keeps."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.gate import NeededEnvironment
from enginebench_controller.records import LOCAL_TARGET
from enginebench_controller.targets.session import means_own_agent

_PIP_SAID = re.compile(r"ERROR: (.+)")
_VERSIONS = re.compile(r"from versions: ([^)]+)\)")
_SHOWN_VERSIONS = 5


async def install(
    home: Home,
    wanted: NeededEnvironment,
    targets: Sequence[str],
    tell: Callable[[str], None],
    *,
    kept: bool = True,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Make an environment for the agent of this machine. Raises `InputError` with pip's reason in a line.

    On another target nothing is made: its owner is told how. pip is given the `variables`.
    """
    if not means_own_agent(home, targets):
        where = targets[0] if targets else LOCAL_TARGET
        raise InputError(
            f"target {where!r} has no environment for {wanted.what}, and gates make them on this machine only; there, "
            f"run: {wanted.command}"
        )
    tell(f"installing {wanted.what} into an environment of its own ({wanted.name}){', which is kept' if kept else ''}")
    words = ("add", wanted.name, *wanted.arguments, "--exit-with-stdin")
    code, said = await _environment(home, words, variables)
    if code != 0:
        raise InputError(f"{wanted.what} cannot be installed: {_reason(said)}")


async def uninstall(home: Home, name: str) -> None:
    """Remove an environment of the agent of this machine, also one that was never finished; none is fine.

    Raises `EnginebenchError` where it stays.
    """
    code, said = await _environment(home, ("remove", name))
    if code != 0 and name in begun_environments(home):
        raise EnginebenchError(f"the environment {name} cannot be removed: {_reason(said)}")


def begun_environments(home: Home, prefix: str = "") -> tuple[str, ...]:
    """The environments of the agent of this machine with such names, also those that were never finished."""
    return tuple(sorted(one.name for one in (home.agent_data / "environments").glob(f"{prefix}*") if one.is_dir()))


async def added_environments(home: Home) -> Mapping[str, Path]:
    """The environments of the agent of this machine: the interpreter by name."""
    code, said = await _environment(home, ("list", "--json"))
    return {one["name"]: Path(one["python"]) for one in json.loads(said)["environments"]} if code == 0 else {}


async def _environment(
    home: Home, words: Sequence[str], variables: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """What `enginebench-agent environment` leaves with, and says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "enginebench_agent", "environment", *words),
        *("--data-dir", str(home.agent_data)),
        stdin=asyncio.subprocess.PIPE,  # which closes when this process ends, however it ends
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(variables or {})},
        start_new_session=True,  # so that pip ends with it, and writes no longer
    )
    assert process.stdout is not None  # noqa: S101  # asked for a pipe above
    try:
        said = await process.stdout.read()  # `communicate` closes standard input, from Python 3.12 on
        await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C would: it clears away what it has begun
        await process.wait()
        raise
    return process.returncode, said.decode(errors="replace")


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
