"""What people use instead of a gate, on the same models: benchmark_app twice, pytest-benchmark, hyperfine.

Base is measured, then head, with each tool's own defaults but for the time. Worse is what a person would read off: a
median, or a mean beyond its own ±, more than 1 % above base's. Trials are kept as they end, and go on where they were.
"""

import importlib.util
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.markdown import markdown_table
from benchmarks.peers import BENCHMARK_APP
from benchmarks.setting import Setting, make_setting
from benchmarks.verdict_recorder import model_files
from benchmarks.verdict_recordings import EQUAL, add_line, kept_lines
from benchmarks.verdict_replay import Share

FILE = "rivals.jsonl"
MODEL = "squeezenet"
CASES = (EQUAL, "planted 5 %")
TOLERATED = 0.01
SECONDS = 5.0
RUNS, INFERENCES = 10, 300
"""Of hyperfine: how often a process is timed, from its start to its end, and what it does."""

_INFER = """
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession({model!r}, providers=["CPUExecutionProvider"])
(given,) = session.get_inputs()
feed = {{given.name: np.random.default_rng(1).normal(size=given.shape).astype(np.float32)}}
"""
_TEST = (
    _INFER
    + """
def test_inference(benchmark):
    benchmark(lambda: session.run(None, feed))
"""
)
_LOOP = (
    _INFER
    + f"""
for _ in range({INFERENCES}):
    session.run(None, feed)
"""
)


@dataclass(frozen=True)
class Trial:
    """Head ÷ base as a tool has it, and whether a person would call head worse."""

    rival: str
    case: str
    ratio: float
    worse: bool


def _benchmark_app(setting: Setting, base: Path, head: Path, _folder: Path) -> tuple[float, bool]:
    times = [BENCHMARK_APP.run(setting, model).median_ns for model in (base, head)]
    return _by_medians(times)


def _pytest_benchmark(setting: Setting, base: Path, head: Path, folder: Path) -> tuple[float, bool]:
    times = []
    for place, model in enumerate((base, head)):
        test, report = folder / f"test_{place}.py", folder / f"{place}.json"
        test.write_text(_TEST.format(model=str(model)), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(test)]
        _run(setting.pinned([*command, f"--benchmark-json={report}", f"--benchmark-max-time={SECONDS}"]))
        (found,) = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
        times.append(float(found["stats"]["median"]))
    return _by_medians(times)


def _hyperfine(setting: Setting, base: Path, head: Path, folder: Path) -> tuple[float, bool]:
    commands = []
    for place, model in enumerate((base, head)):
        script = folder / f"{place}.py"
        script.write_text(_LOOP.format(model=str(model)), encoding="utf-8")
        commands.append(f"{sys.executable} {script}")
    report = folder / "report.json"
    _run(setting.pinned(["hyperfine", "-N", "-w", "1", "-r", str(RUNS), "--export-json", str(report), *commands]))
    first, second = json.loads(report.read_text(encoding="utf-8"))["results"]
    ratio = second["mean"] / first["mean"]
    # As it prints "x ± y times faster": the relative deviations of both, added as squares.
    error = ratio * ((first["stddev"] / first["mean"]) ** 2 + (second["stddev"] / second["mean"]) ** 2) ** 0.5
    return ratio, ratio > 1 + TOLERATED and ratio - error > 1


def _by_medians(times: Sequence[float]) -> tuple[float, bool]:
    ratio = times[1] / times[0]
    return ratio, ratio > 1 + TOLERATED


RIVALS: Mapping[str, Callable[[Setting, Path, Path, Path], tuple[float, bool]]] = {
    "benchmark_app twice": _benchmark_app,
    "pytest-benchmark": _pytest_benchmark,
    "hyperfine": _hyperfine,
}
IS_HERE: Mapping[str, Callable[[], bool]] = {
    "pytest-benchmark": lambda: importlib.util.find_spec("pytest_benchmark") is not None,
    "hyperfine": lambda: shutil.which("hyperfine") is not None,
}
"""The rivals that an environment of ours has not by itself."""


def measure(folder: Path, count: int) -> None:
    """Try each rival so often on each case; what is not installed is left out."""
    setting = make_setting(rounds=1, seconds=SECONDS, block_s=1)
    files = model_files(MODEL)
    missing = {name for name, is_here in IS_HERE.items() if not is_here()}
    if missing:
        print(f"Not installed and left out: {', '.join(sorted(missing))}.", flush=True)
    there = [name for name in RIVALS if name not in missing]
    wanted = [(rival, case) for rival in there for case in CASES]
    while due := _due(kept(folder), wanted, count):
        rival, case = random.choice(due)  # noqa: S311  # an order, not a secret
        with tempfile.TemporaryDirectory() as work:
            ratio, worse = RIVALS[rival](setting, files["base"], files[case], Path(work))
        add_line(folder / FILE, Trial(rival, case, round(ratio, 4), worse))
        print(f"{rival}, {case}: {ratio:.3f}{', worse' if worse else ''}", flush=True)


def _due(done: Sequence[Trial], wanted: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    counts = Counter((one.rival, one.case) for one in done)
    fewest = min((counts[each] for each in wanted), default=count)
    return [each for each in wanted if counts[each] == fewest] if fewest < count else []


def kept(folder: Path) -> Sequence[Trial]:
    """All trials of a folder, in their order."""
    return [Trial(**line) for line in kept_lines(folder / FILE)]


def rivals_live_table(found: Sequence[Trial]) -> str:
    """How often each called head worse, and what ratios it had."""
    rows = []
    for rival, case in dict.fromkeys((one.rival, one.case) for one in found):
        trials = [one for one in found if (one.rival, one.case) == (rival, case)]
        ratios = sorted(one.ratio for one in trials)
        rows.append(
            (
                f"{rival}, {case}",
                str(len(trials)),
                str(Share(sum(one.worse for one in trials), len(trials))),
                f"{median(ratios):.3f}",
                f"{ratios[0]:.3f} to {ratios[-1]:.3f}",
            )
        )
    return markdown_table(("(b) live", "trials", "called worse", "median of head ÷ base", "from, to"), rows)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:6])} failed: {(done.stderr or done.stdout)[-500:]}")
