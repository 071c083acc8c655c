"""What becomes of passes whose store or whose target is not there for a while."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import Configuration, EngineRef, Failure, FailureKind, HostFacts, ModelVersion
from enginebench_controller.runs.outcome import PassOrder
from enginebench_controller.runs.profiling import Passes
from enginebench_controller.runs.remote_run import Bench, Unreported
from enginebench_controller.runs.undertaking import Undertaking
from enginebench_controller.store import connection

CASE = Case(
    "edge",
    EngineRef("fake", "default", "1.0"),
    ModelVersion("a" * 64, "net", "onnx", (), 1),
    Configuration("CPU", batch=1, cores=1),
    ("fake:0",),
)
ORDER = PassOrder("p1", None, 5, {"models": ["net"]}, {"edge": HostFacts()})
FAILED = Failure(FailureKind.CRASHED, "it crashed")


def bench_of(home: Home, client: Any = None) -> Bench:
    return Bench({"edge": client}, lambda _: (), home.path, Unreported(), 10**9)


async def test_a_pass_waits_for_a_backup_that_takes_longer_than_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DEFAULT_TIMEOUT_S", 0.1)
    home = Home(tmp_path)
    passes = Passes(home, bench_of(home), ORDER)
    with FileLock(tmp_path / "results.duckdb.lock"):
        coming = asyncio.create_task(passes.take_up(Undertaking(CASE), None, FAILED))
        await asyncio.sleep(0.5)
    assert home.store.profile((await coming).id).failure == FAILED
