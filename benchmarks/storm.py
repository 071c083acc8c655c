"""`python -m benchmarks.storm`: kill at random what runs – commands, agent, children, pages – and count what is lost.

Commands run all the time on two devices of one agent, with the fake engine, into one store; pages read it. At the end
`enginebench resume` collects what is left, and the store is held against all that was promised meanwhile.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import fill, markdown_table
from benchmarks.storm_players import (
    BATCHES,
    Agent,
    Commands,
    Pages,
    kill,
    tiny_model,
    wait_until_answering,
)
from enginebench_controller.errors import ExitCode
from enginebench_controller.home import Home
from enginebench_plugins.toolkit.engine import processor_name

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "reliability.md"
KINDS = ("controller", "agent", "child", "page")
MEAN_PAUSE_S = 0.7


@dataclass(frozen=True)
class Aftermath:
    """What was killed, what went on meanwhile, and what the store lacks or has too much of."""

    seed: int
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


def storm(folder: Path, kills: int, seed: int, pause_s: float = MEAN_PAUSE_S) -> Aftermath:
    """Have it all out in a folder, and look at what is left. Raises `RuntimeError` where `resume` does not succeed."""
    home, model = Home(folder / "home"), tiny_model(folder / "tiny.onnx")
    agent = Agent(folder / "agent")
    wait_until_answering(agent)
    lanes = (
        Commands(home.path, agent, model, "FAKE:0", alone=True),
        Commands(home.path, agent, model, "FAKE:1", resuming=True),
    )
    pages = Pages(home.path)
    begin = time.monotonic()
    killed, strays = _rage(random.Random(seed), kills, pause_s, agent, lanes, pages)  # noqa: S311  # an order
    wall_s = time.monotonic() - begin
    for player in (*lanes, pages):
        player.stop()
    resumed = _resumed(home)
    family = agent.family()
    agent.stop()
    strays += agent.strays(family)
    return _aftermath(home, seed, killed, strays, wall_s, lanes, agent, pages, resumed)


def _rage(
    order: random.Random, kills: int, pause_s: float, agent: Agent, lanes: tuple[Commands, ...], pages: Pages
) -> tuple[Counter[str], int]:
    """Kill one after the other. A kind of which nobody is there at the moment has its turn once somebody is.

    Returns how many of each were, and how many processes an agent has left behind, stopped or alive.
    """
    killed: Counter[str] = Counter()
    strays = 0
    while killed.total() < kills:
        _await_progress(agent)
        time.sleep(order.expovariate(1 / pause_s))
        kind, lane = order.choice(KINDS), order.choice(lanes)
        victims = {"controller": lane.victim, "agent": agent.victim, "child": agent.child, "page": pages.victim}
        family = agent.family() if kind == "agent" else []
        killed[kind] += _kill_soon(victims[kind])
        strays += agent.strays(family)
    return killed, strays


def _await_progress(agent: Agent, patience_s: float = 20.0) -> None:
    """Wait until another run has come to its end, so that on a slow machine too there is something to lose."""
    before, deadline = len(agent.spooled), time.monotonic() + patience_s
    while len(agent.spooled) == before and time.monotonic() < deadline:
        time.sleep(0.005)


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
    lanes: tuple[Commands, ...],
    agent: Agent,
    pages: Pages,
    resumed: int,
) -> Aftermath:
    store = home.store
    entries = store.benchmarks()
    found = {one.id: one for entry in entries for one in store.measurements(entry.benchmark.id)}
    cells = Counter((one.benchmark_id, one.configuration.batch) for one in found.values())
    planned = {(entry.benchmark.id, batch) for entry in entries for batch in BATCHES}
    told = set().union(*(lane.told() for lane in lanes))
    # A run's name begins with the id of its measurement. One that was removed with its benchmark cannot be: none is.
    spooled = {run_id.partition("-")[0] for run_id in agent.spooled}
    samples = {one.id: sum(block.latency_ns.size for block in store.block_samples(one.id)) for one in found.values()}
    return Aftermath(
        seed=seed,
        kills={kind: killed[kind] for kind in KINDS},
        wall_s=wall_s,
        commands=sum(lane.starts for lane in lanes),
        benchmarks=len(entries),
        measurements=dict(sorted(Counter(one.status.value for one in found.values()).items())),
        told=len(told),
        spooled=len(agent.spooled),
        pages_drawn=pages.drawn,
        page_tracebacks=pages.tracebacks,
        resumed=resumed,
        lost=len(told - set(found)),
        spooled_lost=len(spooled - set(found)),
        missing_cells=len(planned - set(cells)),
        duplicated=sum(count - 1 for count in cells.values()),
        half_written=sum(_is_half(one, samples[one.id]) for one in found.values()),
        left_behind=len([*(agent.folder / "spool").iterdir(), *(home.path / "pending").glob("*")]),
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
        ("kills (SIGKILL)", f"{sum(found.kills.values())}: {kills}"),
        ("time, seed", f"{found.wall_s / 60:.1f} min, {found.seed}"),
        ("commands started", f"{found.commands:,}"),
        ("benchmarks begun", f"{found.benchmarks:,}"),
        ("measurements in the store", f"{sum(found.measurements.values()):,}: {statuses}"),
        ("plans that the last `resume` took up", f"{found.resumed}"),
        ("pages drawn meanwhile, tracebacks in them", f"{found.pages_drawn:,}, **{found.page_tracebacks}**"),
        ("results told to be stored, of these lost", f"{found.told:,}, **{found.lost}**"),
        ("runs seen in the agent's spool, of these without an outcome", f"{found.spooled:,}, **{found.spooled_lost}**"),
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
    parser.add_argument("--no-page", action="store_true", help="leave docs/ as it is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = storm(Path(folder), arguments.kills, arguments.seed)
    print(json.dumps(asdict(found), indent=2))
    print(table(found))
    if not found.is_clean:
        sys.exit(1)
    if not arguments.no_page:
        where = f"{processor_name()}, {os.cpu_count()} processors, Python {sys.version.split()[0]}."
        fill(PAGE, "storm", f"{table(found)}\n\n{where}")


if __name__ == "__main__":
    main()
