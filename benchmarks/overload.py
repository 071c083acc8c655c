"""(e) Latency under arrivals that do not wait: our open loop against LoadGen's Server scenario.

ONNX Runtime on one core serves Poisson arrivals at 80 % and at 110 % of what it can do. Both sides time an inference
from the instant it was due. Timed from the instant it was sent, as a closed loop does, the same run hides its queue:
that figure is shown beside.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ours, peers
from benchmarks.markdown import markdown_table
from benchmarks.ratio import paired_ratio
from benchmarks.setting import MODELS, Setting

MODEL = MODELS[0]
ENGINE = "onnxruntime"
SHARES = (0.8, 1.1)
SECONDS_PER_SECOND = 3
"""Tails need longer runs than medians: this many times the setting's seconds."""
LOADGEN = Path(__file__).parent / "loadgen_server.py"
ARRIVALS_TIMEOUT_S = 300

Row = Mapping[str, Any]


def measure(setting: Setting) -> list[Row]:
    """One row for each share of the capacity, with the percentiles of every round in nanoseconds."""
    single = replace(setting, cpus=setting.cpus[:1], seconds=SECONDS_PER_SECOND * setting.seconds)
    rounds: dict[float, list[Mapping[str, float]]] = {share: [] for share in SHARES}
    for number in range(setting.rounds):
        for share in setting.random.sample(SHARES, len(SHARES)):
            rounds[share].append(_round(single, share, seed=number + 1))
            print(f"  {share:.0%}: {rounds[share][-1]}", flush=True)
    return [{"share": share, **_columns(rounds[share])} for share in SHARES]


def _round(setting: Setting, share: float, seed: int) -> Mapping[str, float]:
    """Both sides at the same rate, in random order; what the core can do is measured anew."""
    calm = replace(setting, seconds=1.0)
    rate = share * 1e9 / peers.bare_loop(ENGINE).run(calm, setting.models[MODEL]).median_ns
    found: dict[str, float] = {"rate_per_s": rate}
    for side in setting.random.sample((_ours, _loadgen), 2):
        found |= side(setting, rate, seed)
    return found


def _ours(setting: Setting, rate: float, seed: int) -> Mapping[str, float]:
    duration = f"{setting.seconds}s"
    plan = {"models": [str(setting.models[MODEL])], "engines": [ENGINE], "cores": [1], "processes": 1, "seed": seed}
    load = {"load": ["open-loop"], "rate": [rate], "requests": [1]}
    limits = {"duration": duration, "max_duration": f"{2 * setting.seconds}s", "interval": "0%"}
    measured = ours.run(setting, {**plan, **load, **limits})
    blocks = measured.samples(setting)
    instants = ("scheduled_ns", "sent_ns", "completed_ns")
    due, sent, completed = (np.concatenate([getattr(block, name) for block in blocks]) for name in instants)
    return {"ours_ns": _p99(completed - due), "hidden_ns": _p99(completed - sent)}


def _p99(latencies_ns: np.ndarray) -> float:
    """As LoadGen takes it: the sample at 99 % of the sorted ones."""
    return float(np.sort(latencies_ns)[int(0.99 * len(latencies_ns))])


def _loadgen(setting: Setting, rate: float, seed: int) -> Mapping[str, float]:
    command = [sys.executable, str(LOADGEN), str(setting.models[MODEL]), "--cores", str(setting.cores)]
    command += ["--rate", str(rate), "--seconds", str(setting.seconds), "--seed", str(seed)]
    done = subprocess.run(
        setting.pinned(command), capture_output=True, text=True, timeout=ARRIVALS_TIMEOUT_S, check=True
    )
    return {"loadgen_ns": json.loads(done.stdout.splitlines()[-1])["p99_ns"]}


def _columns(rounds: Sequence[Mapping[str, float]]) -> Mapping[str, Sequence[float]]:
    return {name: [each[name] for each in rounds] for name in rounds[0]}


def table(rows: Sequence[Row]) -> str:
    """99th percentiles over the rounds, and the ratio of ours to LoadGen's with its interval."""
    columns = ("load", "rounds", "LoadGen p99", "our p99", "ratio [95 %]", "timed from the sending (ours)")
    return markdown_table(columns, map(_cells, rows))


def _cells(row: Row) -> Sequence[str]:
    loadgen, own, hidden = (
        f"{statistics.median(row[name]) / 1e6:.1f} ms" for name in ("loadgen_ns", "ours_ns", "hidden_ns")
    )
    ratio = str(paired_ratio(row["ours_ns"], row["loadgen_ns"]))
    return f"{row['share']:.0%} of capacity", str(len(row["ours_ns"])), loadgen, own, ratio, hidden
