"""A home with some of everything in it, invented, and the command lines that print each document of it."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import invented
import invented_bisects
import invented_ladders
import invented_profiles
import invented_recommendations
import invented_sweeps
from enginebench_controller.cli import gates, make_app
from enginebench_controller.cli.commands import (
    bisect,
    calibration,
    gate,
    plugin,
    profiles,
    recommend,
    reserving,
    running,
    targets,
)
from enginebench_controller.home import Home
from enginebench_controller.jobs.folder import JobFolder, JobOrder, identify
from enginebench_controller.jobs.record import Cell, CellState, JobProgress, Made, MadeKind
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.plan import ROLES, GateMetric, GateTerms
from enginebench_controller.plan.recommend import RecommendOrder
from enginebench_controller.records import (
    Benchmark,
    EngineRef,
    Failure,
    FailureKind,
    HostFacts,
    Measurement,
    Reservation,
    Target,
)
from enginebench_controller.runs.calibrating import EngineCalibration
from enginebench_controller.runs.plugin.check import BrokenPromise, CheckPart, LookedAt, PluginCheck
from enginebench_controller.runs.resuming import TakenUp, Waiting
from enginebench_controller.store.store import Store
from enginebench_controller.targets import finding
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_controller.verdicts.gate.stored import gate_of
from histories import Change, keep_history
from integration.bench import tiny_model
from printed import check_command

NUC = Target("nuc", "127.0.0.1:1", invented.CREATED_NS)
RESERVATION = Reservation("ann", 7_200_000_000_000, "new firmware")
ANSWERS = [
    HealthAnswer(NUC, Health.SERVING, 0.1, reservation=RESERVATION),
    HealthAnswer(NUC, Health.UNREACHABLE, 0.1, "nobody listens"),
]
CASE = Case("local", EngineRef("fake", "default", "1.0"), invented.model(), invented.CONFIGURATION, ("cpu",))
LINES = (
    "show duel --json --blocks",
    "show gated --json",
    "list --json",
    "export duel open",
    "compare duel --fail-if slower>3% --json",
    "compare p0000001 p0000003 --fail-if slower>3% --json",
    "gate tiny.onnx --base fake --head fake --json",
    "recommend tiny.onnx --json",
    "recommend tiny.onnx --target nuc,board --json",
    "rerun gated --json",
    "trend --alerts --json",
    "trend --json",
    "ladder show b000000a --json",
    "profiles show p0000001 --json",
    "profiles show p0000002 --json",
    "profiles export p0000001",
    "profile tiny.onnx --json",
    "profiles list --json",
    "prospects show sweep --json",
    "advise p0000001 --against p0000003 --json",
    "models add tiny.onnx --json",
    "models list --json",
    "flops tiny.onnx --json",
    "query SELECT\u00a01 --json",
    "store check --json",
    "store sync lake --json",
    "store compact lake --json",
    "run tiny.onnx --dry-run --json",
    "show 5ea4c0000001 --json",
    "bisect tiny.onnx --options fake.latency_us=1,2 --json",
    "resume --json",
    "resume --dry-run --json",
    "plugin check ./mine --json",
    "jobs list --json",
    "jobs show a --json",
    "devices --json",
    "targets list --json",
    "targets check --json",
    "targets find --seconds 0.1 --json",
    "targets reserve nuc --for 2h --json",
    "targets release nuc --json",
    "targets calibrate --json",
    "ca issue client me --out me --json",
    "ca list --json",
    "ca revoke me --json",
)
"""A space within a word is one that does not break."""

MODEL = "tiny.onnx"
"""Given by its whole path: what reads models is a process that other tests may have started elsewhere."""


def all_documents(folder: Path) -> dict[str, tuple[str, ...]]:
    """By name, what the command lines printed of each document."""
    found: dict[str, tuple[str, ...]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEBENCH_HOME", str(folder / "home"))
        patch.chdir(folder)
        fill(Home(folder / "home"), folder)
        pretend(patch)
        CliRunner().invoke(make_app(), ["ca", "create"], catch_exceptions=False)
        for line in LINES:
            words = [word.replace("\u00a0", " ").replace(MODEL, str(folder / MODEL)) for word in line.split(" ")]
            printed = CliRunner().invoke(make_app(), words, catch_exceptions=False).stdout
            name = check_command(words, printed)
            assert name is not None, (line, printed)
            found[name] = (*found.get(name, ()), printed)
    return found


def fill(home: Home, folder: Path) -> None:
    """Put in what the commands tell of."""
    store = home.store
    tiny_model(folder / MODEL)
    store.add_target(NUC)
    noisy = invented.measured("m1", noisy=True)
    add(store, invented.benchmark("b0000001", "duel"), noisy, invented.measured("m2", engine="other"))
    store.add_measurement(invented.failed("m3", "b0000001"))
    store.add_benchmark(invented.benchmark("b0000002", "open"))
    waiting = invented.measured("m4", "b0000002", configuration=invented.OPEN_LOOP)
    store.add_measurement(waiting, invented.samples("m4", open_loop=True))
    add(store, gated(), *(invented.measured(role, interleaving_group="g") for role in ROLES))
    add(store, invented_ladders.benchmark(), *invented_ladders.measurements())
    keep_history(store, "net", Change(factor=1.2, version="2.0"))
    keep_history(store, "short", Change(), points=3)
    slower = [replace(one, time_ns=tuple(2 * ns for ns in one.time_ns)) for one in invented_profiles.layers()]
    host = HostFacts(isa=("avx512_vnni",), physical_cores=2)
    store.add_profiles(
        [
            invented_profiles.profile(host=host),
            invented_profiles.profile_of_failure(),
            invented_profiles.profile("p0000003", layers=tuple(slower)),
            *invented_sweeps.passes(),
        ]
    )
    store.add_peaks(invented_sweeps.peaks())
    store.add_search(invented_bisects.search())
    add_job(JobFolder(home.path / "jobs" / "a1"))


def add(store: Store, benchmark: Benchmark, *measurements: Measurement) -> None:
    """Keep a benchmark with what its target said of itself, and its measurements with raw samples."""
    store.add_benchmark(benchmark, [invented.snapshot()])
    for one in measurements:
        known = replace(one, benchmark_id=benchmark.id)
        store.add_measurement(known, invented.samples(one.id) if one.interleaving_group else ())


def gated() -> Benchmark:
    """The benchmark that a gate is stored as; its members are called by their roles."""
    terms = GateTerms(budget="40s", promised={GateMetric.LATENCY: 0.02}).model_dump(mode="json")
    made = invented.benchmark("b0000003", "gated")
    return replace(made, plan={**made.plan, "gate": terms, "members": {role: role for role in ROLES}})


def add_job(folder: JobFolder) -> None:
    """One that runs, in this very process."""
    folder.path.mkdir(parents=True)
    plan = {"models": [MODEL]}
    folder.write_order(JobOrder("tiny", ("run", "plan.toml"), invented.CREATED_NS, plan, "b0000001"))
    if me := identify(os.getpid()):
        folder.write_process(me)
    cells = (Cell("tiny, batch 1", CellState.OK, batch=1, outcome_id="m1"), Cell("tiny, batch 2", CellState.RUNNING))
    made = (Made(MadeKind.BENCHMARK, "b0000001"),)
    folder.write_progress(JobProgress(cells, 2, "warming up", 9.5, ("a note",), made, invented.CREATED_NS, 2))


def pretend(patch: pytest.MonkeyPatch) -> None:
    """Have what needs an agent, or a network, come to invented results at once."""
    taken_up = TakenUp("b0000001", "duel", ("m1",), ("m3",), ("m9",), 1, ("it does not answer",), ("it came too late",))
    crash = Failure(FailureKind.CRASHED, "it crashed")
    engine = invented_sweeps.ENGINE
    calibrated = EngineCalibration(engine, "CPU", 2, tuple(invented_sweeps.peaks()))
    patch.setattr(running, "plan_only", _soon(Expansion((CASE,), ("a note",))))
    waiting = Waiting("b0000001", "duel", 3, 1, 1, ("it does not answer",), ("it came too late",))
    patch.setattr(running, "look", _soon((waiting,)))
    patch.setattr(running, "resume_all", _soon((taken_up,)))
    patch.setattr(
        profiles, "run_profiles", _soon([invented_profiles.profile(), invented_profiles.profile_of_failure()])
    )
    looked_at = (LookedAt("mine", 40, {"it runs one item at a time": 2}, "zoo:squeezenet", has_profile=True),)
    broken = BrokenPromise("mine", CheckPart.CONTRACT, "it is not so that it works", "It works.")
    patch.setattr(
        plugin, "check_plugin", lambda *_: PluginCheck("./mine", ("mine",), (broken,), ("a note",), looked_at)
    )
    patch.setattr(targets, "_snapshots", _soon([invented.snapshot()]))
    patch.setattr(targets, "ask_health", lambda *_: ANSWERS)
    patch.setattr(reserving, "reserve", _soon({"nuc": replace(RESERVATION, is_yours=True)}))
    patch.setattr(reserving, "release", _soon(None))
    patch.setattr(finding, "listen", lambda *_: [SimpleNamespace(places=[NUC])] * 2)
    patch.setattr(finding, "ask_hints", lambda *_: ANSWERS)
    patch.setattr(calibration, "calibrate", _soon((calibrated, EngineCalibration(engine, "CPU", 1, failure=crash))))
    patch.setattr(recommend, "search_for", _recommended)
    patch.setattr(gate, "run_gate", lambda home, *_: gate_of(home, home.store.benchmark("gated")))
    patch.setattr(bisect, "run_bisect", lambda home, *_: home.store.search(invented_bisects.ID))
    patch.setattr(gates, "again", _soon(lambda home: gate_of(home, home.store.benchmark("gated"))))


async def _recommended(_home: Home, asked: RecommendOrder, _watcher: object) -> object:
    order = invented_recommendations.order(targets=asked.targets)
    carry_out = invented_recommendations.for_two_targets if order.targets else invented_recommendations.carried_out
    return invented_recommendations.search(order, carry_out(order))


def _soon(result: Any) -> Callable[..., Any]:
    async def come(*arguments: Any, **_: Any) -> Any:
        return result(arguments[0]) if callable(result) else result

    return come
