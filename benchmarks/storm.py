"""`python -m benchmarks.storm`: kill at random what runs – commands, agents, children, pages – and count what is lost.

Commands run all the time on two devices of one agent, with the fake engine, into one store; pages read it. At the end
`enginebench resume` collects what is left, and the store is held against all that was promised meanwhile. With
`--agents 50` each command goes to some of so many, and with `--workers 2` one lane of commands goes to a cluster.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import fill, markdown_table
from benchmarks.storm_players import (
    BATCHES,
    POLL_S,
    STARTING_S,
    Agent,
    Commands,
    Host,
    Pages,
    Scheduler,
    Worker,
    kill,
    tiny_model,
    wait_until_answering,
)
from enginebench_controller.errors import ExitCode
from enginebench_controller.home import Home
from enginebench_plugins.toolkit.engine import processor_name

DOCS = Path(__file__).parents[1] / "docs"
KINDS = ("controller", "agent", "child", "page")
ON_CLUSTER = ("worker", "task")
"""And with a cluster, its workers and the agents that they start."""
MEAN_PAUSE_S = 0.7
TARGETS_OF_A_COMMAND = 4


@dataclass(frozen=True)
class Aftermath:
    """What was killed, what went on meanwhile, and what the store lacks or has too much of."""

    seed: int
    agents: int
    workers: int
    kills: dict[str, int]
    wall_s: float
    commands: int
    benchmarks: int
    measurements: dict[str, int]
    told: int
    spooled: int
    pages_drawn: int
    page_tracebacks: int
    resumed: int
    lost: int
    spooled_lost: int
    missing_cells: int
    duplicated: int
    half_written: int
    left_behind: int
    strays: int
    problems: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        counts = (self.lost, self.spooled_lost, self.missing_cells, self.duplicated, self.half_written)
        return not (any(counts) or self.left_behind or self.strays or self.page_tracebacks or self.problems)


def storm(
    folder: Path, kills: int, seed: int, pause_s: float = MEAN_PAUSE_S, agents: int = 1, workers: int = 0
) -> Aftermath:
    """Have it all out in a folder, and look at what is left. Raises `RuntimeError` where `resume` does not succeed."""
    order = random.Random(seed)  # noqa: S311  # an order, not a secret
    home, model = Home(folder / "home"), tiny_model(folder / "tiny.onnx")
    fleet = [Agent(folder / f"agent{number}", POLL_S * agents) for number in range(agents)]
    for one in fleet:
        wait_until_answering(one, STARTING_S * agents)
    chosen = random.Random(seed)  # noqa: S311  # likewise; of its own, since lanes draw whenever they come to it

    def some() -> tuple[str, str]:
        return "--target", ",".join(one.address for one in chosen.sample(fleet, min(agents, TARGETS_OF_A_COMMAND)))

    lanes = [
        Commands(home.path, some, model, "FAKE:0", alone=True),
        Commands(home.path, some, model, "FAKE:1", resuming=True),
    ]
    cluster: list[Worker] = []
    if workers:
        scheduler = Scheduler()
        wait_until_answering(scheduler, STARTING_S)
        cluster = [Worker(folder / "cluster", scheduler) for _ in range(workers)]
        executor = ("--executor", f"dask://{scheduler.address}")
        lanes.append(Commands(home.path, lambda: executor, model, "FAKE:0"))
    pages = Pages(home.path)
    begin = time.monotonic()
    killed, strays = _rage(order, kills, pause_s, fleet, cluster, lanes, pages)
    wall_s = time.monotonic() - begin
    for player in (*lanes, pages):
        player.stop()
    resumed = _resumed(home)
    for host in (*fleet, *cluster):
        family = host.family()
        host.stop()
        strays += host.strays(family)
    if workers:
        scheduler.stop()
    return _aftermath(home, seed, killed, strays, wall_s, lanes, fleet, cluster, pages, resumed)


def _rage(
    order: random.Random,
    kills: int,
    pause_s: float,
    fleet: Sequence[Agent],
    cluster: Sequence[Worker],
    lanes: Sequence[Commands],
    pages: Pages,
) -> tuple[Counter[str], int]:
    """Kill one after the other. A kind of which nobody is there at the moment has its turn once somebody is.

    Returns how many of each were, and how many processes a host of runs has left behind, stopped or alive.
    """
    killed: Counter[str] = Counter()
    strays = 0
    while killed.total() < kills:
        _await_progress(fleet)
        time.sleep(order.expovariate(1 / pause_s))
        kind, lane = order.choice(KINDS + ON_CLUSTER * bool(cluster)), order.choice(lanes)
        agent, worker = order.choice(fleet), order.choice(cluster or [None])
        host: Host | None = {"agent": agent, "worker": worker}.get(kind)
        family = host.family() if host else []
        killed[kind] += _kill_soon(
            {
                "controller": lane.victim,
                "agent": agent.victim,
                "child": lambda: next(filter(None, (one.child() for one in order.sample(fleet, len(fleet)))), None),
                "page": pages.victim,
                "worker": worker.victim if worker else None,
                "task": worker.task if worker else None,
            }[kind]
        )
        strays += host.strays(family) if host else 0
    return killed, strays


def _await_progress(fleet: Sequence[Agent], patience_s: float = 20.0) -> None:
    """Wait until another run has come to its end, so that on a slow machine too there is something to lose."""
    before, deadline = _spooled(fleet), time.monotonic() + patience_s
    while _spooled(fleet) == before and time.monotonic() < deadline:
        time.sleep(0.005)


def _spooled(fleet: Sequence[Agent]) -> int:
    return sum(len(one.spooled) for one in fleet)


def _kill_soon(victim: Any, patience_s: float = 10.0) -> bool:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if kill(victim()):
            return True
        time.sleep(0.001)
    return False


def _resumed(home: Home) -> int:
    """How many plans were taken up in the end."""
    command = [sys.executable, "-m", "enginebench_controller", "resume", "--json"]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home.path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode not in (ExitCode.OK, ExitCode.SOME_FAILED):  # a storm makes runs fail
        raise RuntimeError(f"enginebench resume failed: {done.stderr}{done.stdout}")
    return len(json.loads(done.stdout)["plans"])


def _aftermath(
    home: Home,
    seed: int,
    killed: Counter[str],
    strays: int,
    wall_s: float,
    lanes: Sequence[Commands],
    fleet: Sequence[Agent],
    cluster: Sequence[Worker],
    pages: Pages,
    resumed: int,
) -> Aftermath:
    store = home.store
    entries = store.benchmarks()
    found = {one.id: one for entry in entries for one in store.measurements(entry.benchmark.id)}
    # On a cluster it is not the plan that says which machine each is measured on.
    targets = {entry.benchmark.id: entry.benchmark.plan["targets"] or [None] for entry in entries}
    cells = Counter(
        (one.benchmark_id, one.target if None not in targets[one.benchmark_id] else None, one.configuration.batch)
        for one in found.values()
    )
    planned = {
        (identity, target, batch) for identity, names in targets.items() for target in names for batch in BATCHES
    }
    told = set().union(*(lane.told() for lane in lanes))
    # A run's name begins with the id of its measurement. One that was removed with its benchmark cannot be: none is.
    spooled = {run_id.partition("-")[0] for one in fleet for run_id in one.spooled}
    samples = {one.id: sum(block.latency_ns.size for block in store.block_samples(one.id)) for one in found.values()}
    left = [one for agent in fleet for one in (agent.folder / "spool").iterdir()]
    return Aftermath(
        seed=seed,
        agents=len(fleet),
        workers=len(cluster),
        kills={kind: killed[kind] for kind in KINDS + ON_CLUSTER * bool(cluster)},
        wall_s=wall_s,
        commands=sum(lane.starts for lane in lanes),
        benchmarks=len(entries),
        measurements=dict(sorted(Counter(one.status.value for one in found.values()).items())),
        told=len(told),
        spooled=_spooled(fleet),
        pages_drawn=pages.drawn,
        page_tracebacks=pages.tracebacks,
        resumed=resumed,
        lost=len(told - set(found)),
        spooled_lost=len(spooled - set(found)),
        missing_cells=len(planned - set(cells)),
        duplicated=sum(count - 1 for count in cells.values()),
        half_written=sum(_is_half(one, samples[one.id]) for one in found.values()),
        left_behind=len([*left, *(home.path / "pending").glob("*")]),
        strays=strays,
        problems=store.check().problems,
    )


def _is_half(measurement: Any, samples: int) -> bool:
    """Whether parts of a measurement are missing: numbers without all of their samples, blocks or processes."""
    if measurement.latency is None:
        return samples > 0
    blocks = sum(block.iterations for block in measurement.blocks)
    processes = {block.process for block in measurement.blocks}
    return not (
        samples == blocks == measurement.iterations
        and processes == {process.index for process in measurement.processes}
    )


def table(found: Aftermath) -> str:
    """What was done, and what is wrong afterwards."""
    kills = ", ".join(f"{count} × {kind}" for kind, count in found.kills.items())
    statuses = ", ".join(f"{count:,} {status}" for status, count in found.measurements.items())
    rows = [
        *([("agents, workers of a cluster", f"{found.agents}, {found.workers}")] if found.agents > 1 else []),
        ("kills (SIGKILL)", f"{sum(found.kills.values())}: {kills}"),
        ("time, seed", f"{found.wall_s / 60:.1f} min, {found.seed}"),
        ("commands started", f"{found.commands:,}"),
        ("benchmarks begun", f"{found.benchmarks:,}"),
        ("measurements in the store", f"{sum(found.measurements.values()):,}: {statuses}"),
        ("plans that the last `resume` took up", f"{found.resumed}"),
        ("pages drawn meanwhile, tracebacks in them", f"{found.pages_drawn:,}, **{found.page_tracebacks}**"),
        ("results told to be stored, of these lost", f"{found.told:,}, **{found.lost}**"),
        ("runs seen in an agent's spool, of these without an outcome", f"{found.spooled:,}, **{found.spooled_lost}**"),
        ("cells of benchmarks without an outcome", f"**{found.missing_cells}**"),
        ("outcomes stored twice", f"**{found.duplicated}**"),
        ("outcomes half written", f"**{found.half_written}**"),
        ("runs or plans left behind", f"**{found.left_behind}**"),
        ("processes left behind by a killed agent, stopped or alive", f"**{found.strays}**"),
        ("problems that `store check` finds", f"**{len(found.problems)}**"),
    ]
    return markdown_table(("", ""), rows)


def main() -> None:
    """Rage, print what is left, and fill the table in docs/ where nothing is wrong. Exits with 1 where something is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="of a cluster of Dask on this machine")
    parser.add_argument("--no-page", action="store_true", help="leave docs/ as it is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = storm(Path(folder), arguments.kills, arguments.seed, agents=arguments.agents, workers=arguments.workers)
    print(json.dumps(asdict(found), indent=2))
    print(table(found))
    if not found.is_clean:
        sys.exit(1)
    if not arguments.no_page:
        where = f"{processor_name()}, {os.cpu_count()} processors, Python {sys.version.split()[0]}."
        alone = arguments.agents == 1
        page = DOCS / ("reference/reliability.md" if alone else "evidence/fleet.md")
        fill(page, "storm" if alone else "fleet-storm", f"{table(found)}\n\n{where}")


if __name__ == "__main__":
    main()
