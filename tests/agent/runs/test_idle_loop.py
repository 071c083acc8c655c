"""The agent's loop tells what it waited from what kept it."""

import asyncio
import time
from pathlib import Path

import pytest

from enginebench_agent import server
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.runs.idle_loop import IdleLoop, idle_ns
from enginebench_agent.server import ServeOptions, serve

MS = 1_000_000


def test_waiting_counts_and_being_kept_does_not() -> None:
    async def found() -> tuple[int, int]:
        begin_ns = idle_ns() or 0
        await asyncio.sleep(0.1)
        waited_ns = idle_ns() or 0
        time.sleep(0.3)
        await asyncio.sleep(0)
        return waited_ns - begin_ns, (idle_ns() or 0) - waited_ns

    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        waited_ns, kept_ns = runner.run(found())
    assert waited_ns >= 90 * MS
    assert kept_ns < 200 * MS


def test_another_loop_does_not_know_and_neither_does_none() -> None:
    async def found() -> int | None:
        return idle_ns()

    assert asyncio.run(found()) is None
    assert idle_ns() is None


def test_an_agent_runs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []

    async def look(*_: object) -> None:
        seen.append(idle_ns())

    monkeypatch.setattr(server, "_serve", look)
    serve(ServeOptions("127.0.0.1", 0, DataFolder(tmp_path / "data")))
    (found,) = seen
    assert found is not None
