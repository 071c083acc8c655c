"""Measures the process pairs that `benchmarks.verdicts` replays, through the command line as a user would.

Each visit measures some rounds of one model on one engine, quiet or with a neighbour, and is written when it is whole.
Whoever has the fewest rounds is visited next: an interrupted recording goes on where it was.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import onnx

from benchmarks.command_line import CommandLine, agent_apart
from benchmarks.setting import RESULTS
from benchmarks.verdict_models import slowed, write_with_fixed_batch
from benchmarks.verdict_recordings import EQUAL, RecordedSide, Round, append, read
from enginebench_controller.home import Home, default_home
from enginebench_controller.models.zoo import build_bytes, zoo_model
from enginebench_controller.plan.plan import make_plan, plan_toml
from enginebench_controller.records import Measurement

WORK = RESULTS / "verdicts"
ROUNDS_A_VISIT = 6
PROCESS_MS, WARMUP_MS, BLOCK_MS = 600, 200, 50
"""As the gate's processes."""
ITERATIONS = 6
PLANTED = {"planted 3 %": 0.03, "planted 5 %": 0.05}
"""By how much more each multiplies; how much longer it takes is what all rounds say."""

OPTION = "planted option"
OPTIONS = {"onnxruntime": "onnxruntime.cpu_mem_arena", "openvino": "openvino.shared_memory"}
"""Switched off, each costs something in every inference: memory is asked for anew, or tensors are copied."""

SETS = (
    *(("squeezenet", engine) for engine in ("onnxruntime", "openvino", "torch", "deepsparse")),
    *(("mobilenet_v2", engine) for engine in ("onnxruntime", "openvino", "torch", "deepsparse")),
    *(("resnet50", engine) for engine in ("onnxruntime", "openvino")),
)
QUIET, NOISY = "quiet", "noisy"

GATE_SIDES = 3
"""Of those that are measured together a gate has three, and is charged that share of the time."""

NEIGHBOUR = """
import os, random, time
os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
while True:
    until = time.monotonic() + random.expovariate(1 / 1.5)
    while time.monotonic() < until:
        pass
    time.sleep(random.expovariate(1 / 3))
"""
"""Works on one core in spells of 1.5 s, with pauses of 3 s, on average."""


@dataclass(frozen=True)
class Visit:
    """What is measured together."""

    condition: str
    model: str
    engine: str

    @property
    def cases(self) -> Sequence[str]:
        """What head can be."""
        return (EQUAL, *PLANTED, *([OPTION] if self.engine in OPTIONS else []))

    @property
    def charged(self) -> float:
        """The share of the time that one gate is charged."""
        return GATE_SIDES / (GATE_SIDES - 1 + len(self.cases))


def record(folder: Path, minutes: float) -> None:
    """Measure until all rounds of the folder have taken so long together; engines that are not there are left out."""
    asyncio.run(
        agent_apart(WORK / "home", default_home().agent_data / "environments", partial(_record, folder, minutes))
    )


def _record(folder: Path, minutes: float, cli: CommandLine) -> None:
    engines = there(cli)
    visits = [Visit(condition, *one) for condition in (QUIET, NOISY) for one in SETS if one[1] in engines]
    while visits and (visit := next_visit(folder, visits, minutes)) is not None:
        begin = time.monotonic()
        try:
            found = list(_rounds(cli, visit, model_files(visit.model)))
        except RuntimeError as error:
            print(f"{visit.condition} {visit.model} {visit.engine} is left out: {error}", flush=True)
            visits.remove(visit)
            continue
        append(folder, found)
        took_s = time.monotonic() - begin
        print(f"{visit.condition} {visit.model} {visit.engine}: {len(found)} rounds, {took_s:.0f} s", flush=True)


def next_visit(folder: Path, visits: Sequence[Visit], minutes: float) -> Visit | None:
    """Whoever has the fewest rounds, in an order drawn anew; None when the time is spent."""
    rounds = read(folder) if folder.exists() else []
    equal = [(one, Visit(one.condition, one.model, one.engine)) for one in rounds if one.case == EQUAL]
    if sum(one.wall_ns / visit.charged for one, visit in equal) >= minutes * 60e9:
        return None
    counts = Counter(visit for _, visit in equal)
    return min(random.sample(visits, len(visits)), key=lambda one: counts[one])


def there(cli: CommandLine) -> set[str]:
    """The engines that the agent has."""
    found = cli.json("devices", "--target", cli.target)
    return {one["name"] for target in found["targets"] for one in target["engines"] if one["available"]}


def model_files(name: str) -> Mapping[str, Path]:
    """The files of base, its equals, and what is planted."""
    folder = WORK / "models" / name
    paths = {
        side: folder / f"{side.replace(' ', '-').replace('-%', '')}.onnx"
        for side in ("base", "control", EQUAL, *PLANTED)
    }
    if not all(path.exists() for path in paths.values()):
        built = build_bytes(zoo_model(name))
        for side in ("base", "control", EQUAL):
            write_with_fixed_batch(onnx.load_from_string(built), paths[side], note=side)
        for side, share in PLANTED.items():
            write_with_fixed_batch(slowed(onnx.load(str(paths["base"])), share), paths[side], note=side)
    return paths


def _rounds(cli: CommandLine, visit: Visit, models: Mapping[str, Path]) -> Iterator[Round]:
    """The rounds of one command, as a series for each that head can be."""
    with neighbour(present=visit.condition == NOISY):
        document = cli.json("run", _write_plan(cli, visit, models))
    found = Home(cli.home).store.measurements(document["benchmark"]["id"])
    side_of = {path.stem: side for side, path in models.items()}
    by_side = {OPTION if one.configuration.options else side_of[one.model_name]: one for one in found}
    if len({one.interleaving_group for one in found}) != 1 or not {*visit.cases} <= {*by_side}:
        raise RuntimeError(f"{visit} took no turns: {document['benchmark']['id']}")
    sides = {side: sides_of(one, Home(cli.home)) for side, one in by_side.items()}
    walls = walls_ns(list(by_side.values()))
    starts = [one.started_at_unix_ns or 0 for one in by_side["base"].processes]
    for case in visit.cases:
        for place, wall_ns in enumerate(walls):
            three = tuple(sides[side][place] for side in ("base", "control", case))
            charged_ns = int(wall_ns * visit.charged)
            yield Round(visit.condition, visit.model, visit.engine, case, place, starts[place], charged_ns, three)


def _write_plan(cli: CommandLine, visit: Visit, models: Mapping[str, Path]) -> Path:
    """All sides in turns, with processes like a gate's; the option is switched off for base once more."""
    rungs = [{"models": [str(path)]} for path in models.values()]
    if visit.engine in OPTIONS:
        rungs.append({"models": [str(models["base"])], "options": {OPTIONS[visit.engine]: "false"}})
    fields = {
        "models": [str(models["base"])],
        "engines": [visit.engine],
        "targets": [cli.target],
        "interleave": "device",
        "processes": ROUNDS_A_VISIT,
        "duration": f"{ROUNDS_A_VISIT * PROCESS_MS}ms",
        "iterations": ROUNDS_A_VISIT * ITERATIONS,
        "interval": "0%",
        "warmup": f"{WARMUP_MS}ms",
        "block": f"{BLOCK_MS}ms",
        "inputs": 2,
        "wait_quiet": "0s",
        "retry_noisy": False,
        "rungs": [
            {"name": f"side {place}", "title": f"side {place}", "fields": rung} for place, rung in enumerate(rungs)
        ],
    }
    path = WORK / "plan.toml"
    path.write_text(plan_toml(make_plan(fields, "recorder")), encoding="utf-8")
    return path


def sides_of(measurement: Measurement, home: Home) -> Sequence[RecordedSide]:
    """The blocks of each process. Raises `RuntimeError` where there are none."""
    medians = {
        (one.process, one.block): float(np.median(one.latency_ns)) for one in home.store.block_samples(measurement.id)
    }
    if measurement.failure is not None or not medians:
        raise RuntimeError(f"{measurement.model_name} was not measured: {measurement.failure}")
    sides = []
    for process in measurement.processes:
        own = [
            one for one in measurement.blocks if one.process == process.index and (one.process, one.index) in medians
        ]
        sides.append(
            RecordedSide(
                tuple(round(medians[one.process, one.index]) for one in own),
                tuple(int(bool(one.disturbances)) for one in own),
                tuple(one.duration_ns for one in own),
            )
        )
    return sides


def walls_ns(members: Sequence[Measurement]) -> Sequence[int]:
    """From the start of each round to that of the next; the last took as long as usual."""
    starts = [
        min(one.started_at_unix_ns or 0 for one in row) for row in zip(*(one.processes for one in members), strict=True)
    ]
    steps = [later - earlier for earlier, later in pairwise(starts)]
    return [*steps, int(median(steps))]


@contextmanager
def neighbour(*, present: bool) -> Iterator[None]:
    """Somebody works on one core in random spells within, where one is to be present."""
    if not present:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], env=dict(os.environ))
    try:
        yield
    finally:
        process.kill()
        process.wait()
