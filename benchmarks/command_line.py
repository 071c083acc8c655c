"""`enginebench` as a user starts it, whose every answer is a document or a sentence."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from enginebench_controller.errors import INTERRUPTED
from enginebench_controller.home import Home
from enginebench_controller.targets.local_agent import local_agent

TIMEOUT_S = 1800

Found = TypeVar("Found")


@dataclass(frozen=True)
class CommandLine:
    """Commands with the home folder `home`; `target` is the address of the agent they are to use."""

    home: Path
    target: str

    def json(self, *arguments: object) -> Any:
        """The document that a command prints. Raises `RuntimeError` with its own words where it prints none."""
        found = self.try_json(*arguments)
        if not isinstance(found, str):
            return found
        raise RuntimeError(f"enginebench {' '.join(map(str, arguments))}: {found}")

    def try_json(self, *arguments: object) -> Any:
        """The document, or the last sentence of a command that prints none.

        Raises `RuntimeError` for a traceback, as a refusal is a sentence, and for a command that somebody ended.
        """
        command = [sys.executable, "-m", "enginebench_controller", *map(str, arguments), "--json"]
        variables = os.environ | {"ENGINEBENCH_HOME": str(self.home)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if "Traceback" in done.stderr:
            raise RuntimeError(f"enginebench {' '.join(map(str, arguments))} broke: {done.stderr[-1000:]}")
        if done.returncode < 0 or done.returncode == INTERRUPTED:
            raise RuntimeError(f"enginebench {' '.join(map(str, arguments))} was ended: {done.stderr[-200:]}")
        return json.loads(done.stdout) if done.stdout.strip() else (done.stderr.strip().splitlines() or [""])[-1]


async def agent_apart(home: Path, environments: Path, work: Callable[[CommandLine], Found]) -> Found:
    """Do work with one agent for all its commands, so that its engines are discovered once.

    Its home is one of its own, with the user's `environments`: the user's store and library stay as they are.
    """
    (home / "agent").mkdir(parents=True, exist_ok=True)
    link = home / "agent" / "environments"
    if not link.exists():
        link.symlink_to(environments.resolve(), target_is_directory=True)
    async with local_agent(Home(home)) as target:
        return await asyncio.to_thread(work, CommandLine(home, target.address))
