"""The contract tests of an engine, run by the Python that it is installed for, in a process of their own."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STEP_S = 200.0
"""So long may a compilation take, and what a statement does without one: in 180 s a statement gives up a process of its
own, and the others are looked at."""

_PYTHON_VARIABLES = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
_REPORT = "report"


def _lines(report: Path) -> list[dict[str, Any]]:
    """What the contract tests have told, the last line perhaps not to its end."""
    found = []
    for line in report.read_text(encoding="utf-8").splitlines() if report.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


async def tested_contract(python: Path, engine: str, scratch: Path) -> tuple[int | None, str, list[dict[str, Any]]]:
    """Run the contract tests: the exit code, None where a step took too long, the last line, and the report.

    A folder in `scratch` is theirs for so long.
    """
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
        ended, said = await _run(python, engine, Path(folder))
        return ended, said, _lines(Path(folder) / _REPORT)


def unfinished(ended: int | None, said: str, lines: Sequence[Mapping[str, Any]]) -> str | None:
    """A sentence for a process that has not looked at every statement; None for one that has, or that says why not."""
    begun = [one["statement"] for one in lines if "statement" in one]
    done = sum("outcome" in one for one in lines)
    count = next((one["statements"] for one in lines if "statements" in one), 0)
    if any("note" in one for one in lines) or 0 < count <= done:
        return None
    where = f"in “{begun[-1]}”" if begun else "before the first statement"
    how = f"was at one step for more than {STEP_S:g} s" if ended is None else f"ended with exit code {ended}"
    others = count - done - 1
    left = f", so that {others} other statements were not looked at" if others > 0 else ""
    return f"its process {how} {where}{left}: {said}"


async def _run(python: Path, engine: str, folder: Path) -> tuple[int | None, str]:
    report, said = folder / _REPORT, folder / "said"
    variables = {name: value for name, value in os.environ.items() if name not in _PYTHON_VARIABLES}
    with said.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-P", "-m", "enginebench_plugins.testing", engine, str(report)),
            cwd=folder,
            env=variables | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        await _while_it_tells(process, report)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    has_ended = process.returncode is not None
    code = await process.wait()
    lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return (code if has_ended else None), (lines[-1] if lines else "it said nothing")


async def _while_it_tells(process: asyncio.subprocess.Process, report: Path) -> None:
    """Until it ends, or has not touched its report for as long as a step may take."""
    told = -1
    while (now := report.stat().st_mtime_ns if report.exists() else 0) != told:
        told = now
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STEP_S)
            return
