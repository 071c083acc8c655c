"""`python -m benchmarks.rest`: what resting between turns brings, and what becomes of a measurement that stands still.

Two equal members take turns; beside them, one process alone, in random order. SD is that of the log ratios of
neighbouring blocks: of the two members, and of two blocks of the one that is alone. Then a child, the agent, or a child
with its keeper is stopped in the middle of its turn; the other member is the twin that was not. For an idle machine.
Each trial is kept as soon as it has ended, so that one that was cut short goes on where it was.
"""

import argparse
import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown import fill, markdown_table
from benchmarks.ours import _toml
from benchmarks.ratio import paired_ratio
from benchmarks.setting import DEEPSPARSE, make_setting
from benchmarks.storm_players import children_of
from benchmarks.verdict_recordings import add_line, kept_lines
from enginebench_controller.home import Home, default_home
from enginebench_controller.records import Measurement
from enginebench_plugins.toolkit.engine import processor_name

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "rest.md"
FOLDER = Path(__file__).parent / "recordings" / "rest"
ROUNDS, STOPS = FOLDER / "rounds.jsonl", FOLDER / "stops.jsonl"
ENGINES = ("onnxruntime", "openvino", "torch", DEEPSPARSE)
BLOCKS_A_PROCESS = 40
BLOCK_MS = 50
CLOCK = "wall clock"
VICTIMS = ("child", "agent", "child and keeper", CLOCK)
"""Who is stopped; the wall clock is set forward instead, and back when all has ended, where this account may."""
RUN_TIMEOUT_S = 900.0
NORMAL_PER_MAD = 1.4826
"""The standard deviation of normal values, in median absolute deviations."""

Blocks = Sequence[float]
"""The medians of the blocks of one process, in nanoseconds."""


@dataclass(frozen=True)
class Round:
    """Two members that took turns, and one alone: medians of their blocks, and the share of time that was disturbed."""

    engine: str
    model: str
    turns: tuple[Blocks, Blocks]
    alone: Blocks
    turns_disturbed: float
    alone_disturbed: float
    machine: str


@dataclass(frozen=True)
class Stop:
    """Who was stopped for how long, whether that was told, and the median of the stopped member ÷ that of its twin."""

    victim: str
    seconds: float
    told: bool
    ratio: float
    machine: str


class Bench:
    """A home and an agent of its own, whose processes can be found."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        data = folder / "agent"
        data.mkdir()
        (data / "agent.toml").write_text(_environments(), encoding="utf-8")
        command = [sys.executable, "-m", "enginebench_agent", "serve", "--port", "0", "--data-dir", str(data)]
        self.agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.agent.stdout is not None
        self._address = self.agent.stdout.readline().split()[-1]
        self._plan = folder / "plan.toml"

    def begin(self, engine: str, model: Path, cores: int, members: int, seconds: float) -> "subprocess.Popen[str]":
        """Start a measurement of equal members: an axis lists the same value so often."""
        duration = f"{seconds:g}s"
        plan = {
            "schema_version": 1,
            "models": [str(model)],
            "engines": [engine],
            "targets": [self._address],
            "cores": [cores] * members,
            "interleave": members > 1,
            "processes": 1,
            "duration": duration,
            "max_duration": f"{3 * seconds:g}s",
            "block": f"{BLOCK_MS}ms",
            "interval": "0%",
            "retry_noisy": False,
        }
        self._plan.write_text(_toml(plan), encoding="utf-8")
        command = [sys.executable, "-m", "enginebench_controller", "run", str(self._plan), "--json"]
        environment = os.environ | {"ENGINEBENCH_HOME": str(self.home.path)}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def end(self, run: "subprocess.Popen[str]") -> Sequence[Measurement]:
        """Wait for what came of it. Raises `RuntimeError` for a measurement without numbers."""
        told, said = run.communicate(timeout=RUN_TIMEOUT_S)
        document = json.loads(told or "{}")
        found = self.home.store.measurements(document["benchmark"]["id"]) if "benchmark" in document else ()
        if not found or any(one.latency is None for one in found):
            raise RuntimeError(f"enginebench run failed: {(said or told)[-500:]}")
        return found

    def blocks(self, one: Measurement) -> Blocks:
        """The medians of the blocks that stood nowhere still."""
        still = {block.index for block in one.blocks if block.paused_ns}
        samples = self.home.store.block_samples(one.id)
        return [float(statistics.median(each.latency_ns.tolist())) for each in samples if each.block not in still]

    def whoever_has_a_turn(self, changes: int = 0, patience_s: float = 60.0) -> tuple[int, int]:
        """A keeper and its engine's process, once one of two members runs and the other one rests.

        With `changes` after so many changes of turns; before the first, members are still being warmed up.
        """
        deadline, last = time.monotonic() + patience_s, None
        while time.monotonic() < deadline:
            pairs = [(keeper, pid) for keeper in children_of(self.agent.pid) for pid in children_of(keeper)]
            running = [pair for pair in pairs if _state(pair[1]) not in ("T", "")]
            if len(pairs) == 2 and len(running) == 1:
                changes -= last not in (None, running[0])
                last = running[0]
                if changes <= 0:
                    return running[0]
            time.sleep(0.001)
        raise RuntimeError("no member had a turn while the other one rested")

    def close(self) -> None:
        """End the agent."""
        self.agent.terminate()
        self.agent.wait(30)


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """A bench in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        opened = Bench(Path(folder))
        try:
            yield opened
        finally:
            opened.close()


def spread(place: Bench, engine: str, name: str, model: Path, cores: int, order: random.Random) -> Round:
    """One round of an engine and a model."""
    seconds = BLOCKS_A_PROCESS * BLOCK_MS / 1000
    found: dict[int, Sequence[Measurement]] = {}
    for members in order.sample((1, 2), 2):
        # The one that is alone runs twice as many blocks, so that it has as many pairs of neighbours.
        found[members] = place.end(place.begin(engine, model, cores, members, seconds * (3 - members)))
    first, second = (place.blocks(one) for one in found[2])
    (alone,) = found[1]
    disturbed = _disturbed(found[2]), _disturbed(found[1])
    return Round(engine, name, (first, second), place.blocks(alone), *disturbed, machine())


def stop(place: Bench, victim: str, engine: str, model: Path, cores: int, seconds: float, order: random.Random) -> Stop:
    """Stop somebody in the middle of a turn, for so long, and hold the two members against each other."""
    run = place.begin(engine, model, cores, 2, BLOCKS_A_PROCESS * BLOCK_MS / 1000)
    place.whoever_has_a_turn(changes=4)
    time.sleep(order.uniform(0.0, 0.5))
    keeper, child = place.whoever_has_a_turn()
    if victim == CLOCK:
        with _clock_ahead(seconds):
            found = place.end(run)
    else:
        stopped = {"child": (child,), "agent": (place.agent.pid,), "child and keeper": (keeper, child)}[victim]
        try:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in stopped:
                    os.kill(pid, number)
                time.sleep(seconds if number is signal.SIGSTOP else 0)
        except ProcessLookupError:  # its last turn had ended in the moment between
            place.end(run)
            raise
        found = place.end(run)
    paused = [any(block.paused_ns for block in one.blocks) for one in found]
    told = {
        "agent": any(one.processes[0].agent_paused_ns for one in found),
        CLOCK: any(one.processes[0].clock_jump_ns for one in found),
    }.get(victim, any(paused))
    which = paused.index(True) if any(paused) else 0
    medians = [statistics.median(place.blocks(one)) for one in found]
    return Stop(victim, seconds, told, medians[which] / medians[1 - which], machine())


@contextlib.contextmanager
def _clock_ahead(seconds: float) -> Iterator[None]:
    """The machine's wall clock is ahead within, and right again afterwards. Raises `PermissionError`."""
    _advance(seconds)
    try:
        yield
    finally:
        _advance(-seconds)


def _advance(seconds: float) -> None:
    time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) + round(seconds * 1e9))


def _may_set_clock() -> bool:
    try:
        _advance(0.0)
    except PermissionError:
        return False
    return True


def log_ratios(first: Blocks, second: Blocks) -> list[float]:
    """Those of neighbouring blocks."""
    return [math.log(b / a) for a, b in zip(first, second, strict=False)]


def pooled_sd(series: Sequence[Sequence[float]]) -> float:
    """The standard deviation within series, each around its own mean: what processes differ by is no matter here."""
    squares = sum((value - statistics.fmean(each)) ** 2 for each in series for value in each)
    return math.sqrt(squares / sum(len(each) - 1 for each in series))


def robust_sd(series: Sequence[Sequence[float]]) -> float:
    """The same by the median absolute deviation, which the few blocks beside a spell of the host do not move."""
    apart = [abs(value - statistics.median(each)) for each in series for value in each]
    return NORMAL_PER_MAD * statistics.median(apart)


def spread_table(rounds: Sequence[Round]) -> str:
    """For each engine and model: SD in turns and alone, how much was disturbed, and the medians against each other."""
    columns = (
        "engine, model",
        "pairs",
        "SD in turns",
        "SD alone",
        "ratio",
        "by MAD in turns",
        "alone",
        "ratio",
        "disturbed in turns",
        "alone",
        "median in turns ÷ alone [95 %]",
    )
    cells = dict.fromkeys((each.engine, each.model) for each in rounds)
    return markdown_table(columns, [_spread_row([r for r in rounds if (r.engine, r.model) == cell]) for cell in cells])


def _spread_row(rounds: Sequence[Round]) -> Sequence[str]:
    turns = [log_ratios(*each.turns) for each in rounds]
    alone = [log_ratios(each.alone[::2], each.alone[1::2]) for each in rounds]
    sds = pooled_sd(turns), pooled_sd(alone)
    robust = robust_sd(turns), robust_sd(alone)
    medians = [statistics.median([*each.turns[0], *each.turns[1]]) for each in rounds]
    return (
        f"{rounds[0].engine}, {rounds[0].model}",
        str(sum(map(len, turns))),
        *(f"{sd:.3f}" for sd in sds),
        f"{sds[0] / sds[1]:.2f}",
        *(f"{sd:.3f}" for sd in robust),
        f"{robust[0] / robust[1]:.2f}",
        f"{statistics.fmean(each.turns_disturbed for each in rounds):.1%}",
        f"{statistics.fmean(each.alone_disturbed for each in rounds):.1%}",
        str(paired_ratio(medians, [statistics.median(each.alone) for each in rounds])),
    )


def stop_table(stops: Sequence[Stop]) -> str:
    """For each kind of victim: how often it was told, and how often the median is within 5 % of the twin's."""
    columns = ("stopped", "for", "trials", "told", "median within 5 % of the twin's", "farthest")
    rows = []
    for victim in dict.fromkeys(each.victim for each in stops):
        found = [each for each in stops if each.victim == victim]
        apart = [abs(each.ratio - 1) for each in found]
        rows.append(
            (
                victim,
                f"{found[0].seconds:g} s",
                str(len(found)),
                str(sum(each.told for each in found)),
                str(sum(each <= 0.05 for each in apart)),
                f"{max(apart):.1%}",
            )
        )
    return markdown_table(columns, rows)


def _environments() -> str:
    """The environments of the agent: this interpreter, and DeepSparse's where it was set up."""
    deepsparse = default_home().agent_data / "environments" / DEEPSPARSE / "venv" / "bin" / "python"
    more = f'[environments.{DEEPSPARSE}]\npython = "{deepsparse}"\n' if deepsparse.exists() else ""
    return f'[environments.default]\npython = "{sys.executable}"\n{more}'


def _disturbed(found: Sequence[Measurement]) -> float:
    blocks = [block for one in found for block in one.blocks]
    return sum(block.duration_ns for block in blocks if block.disturbances) / sum(block.duration_ns for block in blocks)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def main() -> None:
    """Measure what is missing, print the tables of all that is kept, and fill the page where that is asked for."""
    arguments = _arguments()
    order = random.Random(arguments.seed)  # noqa: S311  # an order, not a secret
    setting = make_setting(rounds=1, seconds=1, block_s=BLOCK_MS / 1000)
    models: Mapping[str, Path] = {name: path for name, path in setting.models.items() if name in arguments.models}
    engines = [engine for engine in arguments.engines if engine != DEEPSPARSE or setting.deepsparse_python]
    wanted = math.ceil(arguments.pairs / BLOCKS_A_PROCESS)
    with bench() as place:
        for name, path in models.items():
            while engine := _due(engines, [each.engine for each in rounds() if each.model == name], wanted, order):
                add_line(ROUNDS, spread(place, engine, name, path, setting.cores, order))
                print(f"{engine}, {name}: {_spread_row(rounds()[-1:])[2:]}", flush=True)
        path, seconds = next(iter(models.values())), arguments.stop_seconds
        victims = [victim for victim in VICTIMS if victim != CLOCK or _may_set_clock()]
        while victim := _due(
            victims, [each.victim for each in stops() if each.seconds == seconds], arguments.stops, order
        ):
            try:
                add_line(STOPS, stop(place, victim, engines[0], path, setting.cores, seconds, order))
                print(stops()[-1], flush=True)
            except ProcessLookupError:
                print(f"{victim} had ended before it could be stopped: once more", flush=True)
    tables = {"spread": spread_table(rounds()) if rounds() else "", "stops": stop_table(stops()) if stops() else ""}
    print("\n\n".join(filter(None, tables.values())))
    if arguments.page:
        for part, text in tables.items():
            fill(PAGE, part, f"{text}\n\n{machine()}.")


def machine() -> str:
    """What trials are of: those of another machine are no part of what is measured on this one."""
    return f"{processor_name()}, {os.cpu_count()} processors, Python {sys.version.split()[0]}"


def rounds(path: Path = ROUNDS) -> Sequence[Round]:
    """All that are kept of this machine, in their order."""
    return [one for one in (Round(**line) for line in kept_lines(path)) if one.machine == machine()]


def stops(path: Path = STOPS) -> Sequence[Stop]:
    """All that are kept of this machine, in their order."""
    return [one for one in (Stop(**line) for line in kept_lines(path)) if one.machine == machine()]


def _due(among: Sequence[str], done: Sequence[str], wanted: int, order: random.Random) -> str:
    """Whoever had it least often, of those who have not had it so often as is wanted; "" once all have."""
    counts = Counter(done)
    return min(
        (one for one in order.sample(among, len(among)) if counts[one] < wanted),
        key=lambda one: counts[one],
        default="",
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of blocks for each engine and model (200)")
    parser.add_argument(
        "--stops", type=int, default=20, help="how often each of the victims is stopped, or the wall clock set (20)"
    )
    parser.add_argument("--stop-seconds", type=float, default=20.0, help="for how long (20)")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--models", type=lambda text: text.split(","), default=["squeezenet", "resnet50"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write the tables into docs/evidence/rest.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
