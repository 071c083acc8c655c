"""What a long measurement holds in memory: the highest resident set of agent, child and command, by number of samples.

`python -m benchmarks.flat_memory` measures the fake engine three times, the last time for ten million samples, with an
agent and a command of its own each time, and fills the table in docs/reference/reliability.md.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import fill, markdown_table
from benchmarks.soak import PAGE, Agent, started, tiny_model

SAMPLES = (100_000, 1_000_000, 10_000_000)
LATENCY_US = 5
LOOK_EVERY_S = 0.05
ROLES = ("agent", "child", "command")


@dataclass(frozen=True)
class Held:
    """The highest resident sets seen while so many samples were measured, in bytes by role, and how long it took."""

    samples: int
    peak_rss_bytes: dict[str, int]
    wall_s: float


def measure(folder: Path, samples: int) -> Held:
    """Measure at least so many samples with `enginebench run`, and watch all three meanwhile."""
    (folder / "agent").mkdir()
    model = tiny_model(folder / "tiny.onnx")
    began = time.monotonic()
    with started(folder / "agent") as agent:
        peaks, document = _watched(_command(model, agent, samples), agent, folder / "home")
    (found,) = document["measurements"]
    assert found["status"] == "ok", found
    return Held(found["latency"]["samples"], peaks, time.monotonic() - began)


def _command(model: Path, agent: Agent, samples: int) -> list[str]:
    how = (
        "--processes",
        "1",
        "--warmup",
        "100ms",
        "--duration",
        "100ms",
        "--interval",
        "0%",
        "--max-duration",
        "10m",
        "--keep-noisy",
    )
    work = ("--engine", "fake", "--option", f"fake.latency_us={LATENCY_US}", "--iterations", str(samples))
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--target", agent.address]
    return [*command, *work, *how, "--json"]


def _watched(command: Sequence[str], agent: Agent, home: Path) -> tuple[dict[str, int], Any]:
    peaks = dict.fromkeys(ROLES, 0)
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, stdout=output, env=os.environ | {"ENGINEBENCH_HOME": str(home)}) as process,
    ):
        while process.poll() is None:
            seen = {"agent": [agent.pid], "child": list(_descendants(agent.pid)), "command": [process.pid]}
            for role, pids in seen.items():
                peaks[role] = max(peaks[role], *map(_peak_rss_bytes, pids), 0)
            time.sleep(LOOK_EVERY_S)
        output.seek(0)
        return peaks, json.load(output)


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # gone meanwhile
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


def _peak_rss_bytes(pid: int) -> int:
    """The highest resident set of a process, or what it has now where it was reset; 0 where it has gone."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return 0
    return max(int(status.get(name, "0 kB").split()[0]) for name in ("VmHWM", "VmRSS")) * 1024


def table(rows: Sequence[Held]) -> str:
    """A line each number of samples."""
    columns = ("samples", *(f"{role}, peak RSS" for role in ROLES), "minutes")
    return markdown_table(columns, map(_cells, rows))


def _cells(row: Held) -> Sequence[str]:
    megabytes = (f"{row.peak_rss_bytes[role] / 1e6:.0f} MB" for role in ROLES)
    return (f"{row.samples:,}", *megabytes, f"{row.wall_s / 60:.1f}")


def main() -> None:
    """Measure, and fill the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flat_memory", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the samples, and no page")
    quick = parser.parse_args().quick
    rows = []
    for samples in SAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(Path(folder), samples // 100 if quick else samples))
        print(f"  {rows[-1]}", flush=True)
    print(table(rows))
    if not quick:
        fill(PAGE, "memory", table(rows))


if __name__ == "__main__":
    main()
