"""(f) How often equal things seem to differ: ONNX Runtime against itself, with real inferences, interleaved.

    python -m benchmarks.aa_comparisons [--comparisons 200]

Each run holds several pairs of equal configurations, which take turns block by block. What was found is kept after each
run, and a series that was interrupted goes on from there. The last one fills the table of docs/evidence/benchmarks.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy import stats

from benchmarks.markdown import PAGE, fill, markdown_table
from benchmarks.setting import RESULTS
from enginebench_controller.home import Home
from enginebench_controller.records import BlockSamples
from enginebench_controller.stats.comparison import Comparison, Side, Verdict, compare

COMPARISONS = 200
PAIRS_A_RUN = 4
PROCESSES = 3
LEVEL = 0.05
KEPT = RESULTS / "aa_comparisons.json"

TESTS = {
    "processes": "interleaved, three processes: t over process pairs",
    "welch": "not paired, three processes: Welch's t over processes",
    "blocks": "interleaved, one process each: Wilcoxon over blocks",
    "raw": "for contrast, one process each: Mann-Whitney over single samples",
}

Row = Mapping[str, Any]


def main() -> None:
    """Compare until there are enough comparisons."""
    wanted = _arguments().comparisons
    rows: list[Row] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    while len({row["comparison"] for row in rows}) < wanted:
        begin = time.perf_counter()
        done = len({row["comparison"] for row in rows})
        rows += _run(done, min(PAIRS_A_RUN, wanted - done))
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        print(f"{min(done + PAIRS_A_RUN, wanted)} of {wanted} ({time.perf_counter() - begin:.0f} s)", flush=True)
    print(table(rows))
    if wanted >= COMPARISONS:
        fill(PAGE, "aa_comparisons", table(rows))


def table(rows: Sequence[Row]) -> str:
    """How many of the comparisons each test calls different, and how many chance allows it."""
    columns = ("test of equal things", "comparisons", "p < 5 %", "called faster or slower", "allowed at 5 %")
    return markdown_table(columns, [_cells(rows, test) for test in TESTS if any(row["test"] == test for row in rows)])


def _cells(rows: Sequence[Row], test: str) -> Sequence[str]:
    found = [row for row in rows if row["test"] == test]
    different = [row["verdict"] in (Verdict.FASTER, Verdict.SLOWER) for row in found if row["verdict"] is not None]
    allowed = stats.binom.ppf(0.95, len(found), LEVEL) / len(found)
    return (
        TESTS[test],
        str(len(found)),
        f"{np.mean([row['p_value'] < LEVEL for row in found]):.1%}",
        f"{np.mean(different):.1%}" if different else "–",
        f"≤ {allowed:.1%}",
    )


def _run(first: int, pairs: int) -> list[Row]:
    """The rows of one run of `enginebench`, whose comparisons are numbered from `first`."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        benchmark = _measure(home, _small_network(Path(folder) / "small.onnx"), 2 * pairs)
        ids = sorted(one.id for one in home.store.measurements(benchmark))
        sides = [home.store.block_samples(id_) for id_ in ids]
    return [
        {"comparison": first + number, **row}
        for number, (a, b) in enumerate(zip(sides[::2], sides[1::2], strict=True))
        for row in _rows(a, b)
    ]


def _rows(a: Sequence[BlockSamples], b: Sequence[BlockSamples]) -> Iterator[Row]:
    yield _row("processes", compare(Side.of(a), Side.of(b), paired=True))
    yield _row("welch", compare(Side.of(a), Side.of(b), paired=False))
    for process in range(PROCESSES):
        own = [[one for one in side if one.process == process] for side in (a, b)]
        yield _row("blocks", compare(*map(Side.of, own), paired=True))
        raw = [np.concatenate([one.latency_ns for one in side]) for side in own]
        yield {"test": "raw", "p_value": float(stats.mannwhitneyu(*raw).pvalue), "ratio": None, "verdict": None}


def _row(test: str, found: Comparison) -> Row:
    if found.p_value is None:
        raise RuntimeError(f"nothing to compare: {found.note}")
    return {"test": test, "p_value": found.p_value, "ratio": found.ratio, "verdict": found.verdict}


def _measure(home: Home, model: Path, count: int) -> str:
    """The id of a benchmark of `count` equal configurations, interleaved: an axis lists the same value so often."""
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--engine", "onnxruntime", "--json"]
    command += ["--cores", ",".join(["1"] * count), "--interleave", "--processes", str(PROCESSES)]
    command += ["--duration", "900ms", "--block", "30ms", "--warmup", "100ms", "--interval", "0%", "--inputs", "2"]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home.path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=600)
    document = json.loads(done.stdout or "{}")
    measured = document.get("measurements", [])
    if len(measured) != count or any(one["latency"] is None for one in measured):
        raise RuntimeError(f"enginebench run failed: {(done.stderr or done.stdout)[-1000:]}")
    return str(document["benchmark"]["id"])


def _small_network(path: Path) -> Path:
    """Three convolutions of 32 channels on 32 × 32, about a millisecond on one core."""
    generator = np.random.default_rng(0)
    weights = [generator.normal(0, 0.1, (32, 32, 3, 3)).astype(np.float32) for _ in range(3)]
    nodes = [
        helper.make_node("Conv", [f"x{place}", f"w{place}"], [f"x{place + 1}"], f"conv{place}", pads=[1, 1, 1, 1])
        for place in range(len(weights))
    ]
    shape = [1, 32, 32, 32]
    given, answer = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x0", "x3"))
    constants = [numpy_helper.from_array(weight, f"w{place}") for place, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "small", [given], [answer], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aa_comparisons", description=__doc__)
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help=f"how many, in all ({COMPARISONS})")
    return parser.parse_args()


if __name__ == "__main__":
    main()
