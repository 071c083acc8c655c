"""The other side: tools that measure once and print, and the bare loop, live or once."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.bare_loop import INPUTS
from benchmarks.setting import DEEPSPARSE, Setting

BARE_LOOP = Path(__file__).parent / "bare_loop.py"
QUIET = {"NM_DISABLE_ANALYTICS": "1"}
DEEPSPARSE_WARM_UP_S = 1
SHOT_TIMEOUT_S = 300


@dataclass(frozen=True)
class Shot:
    """What one run brought: the median latency and the rate by wall clock that a tool shows, with batch 1."""

    median_ns: float
    items_per_s: float


@dataclass(frozen=True)
class Tool:
    """A tool that is started, measures for the given seconds and leaves.

    `command` takes setting, model, seconds and a folder for reports; `read` reads that folder and the tool's standard
    output. `default_s` is how long the tool takes when nobody says otherwise, warm-up included. `inputs` is
    how many it infers in turn.
    """

    name: str
    engine: str
    command: Callable[[Setting, Path, float, Path], list[str]]
    read: Callable[[Path, str], Shot]
    default_s: float | None = None
    inputs: int = 1

    def run(self, setting: Setting, model: Path) -> Shot:
        """Run it once, pinned. Raises `RuntimeError` with its last words when it fails."""
        with tempfile.TemporaryDirectory() as folder:
            reports = Path(folder)
            command = setting.pinned(self.command(setting, model, setting.seconds, reports))
            return self.read(reports, _output(command))


def _benchmark_app(setting: Setting, model: Path, seconds: float, reports: Path) -> list[str]:
    # It counts whole seconds, takes threads only from the affinity when there is a hint, and has the model read images
    # as bytes unless told.
    app = [str(Path(sys.executable).parent / "benchmark_app"), "-m", str(model), "-t", str(round(seconds))]
    mode = ["-infer_precision", "f32", "-ip", "f32", "-hint", "latency", "-api", "sync"]
    return [*app, *mode, "-json_stats", "-report_type", "no_counters", "-report_folder", str(reports)]


def _benchmark_app_shot(reports: Path, _output: str) -> Shot:
    report = json.loads((reports / "benchmark_report.json").read_text(encoding="utf-8"))
    results = report["execution_results"]
    return Shot(float(results["latency (ms)"]) * 1e6, float(results["throughput"]))


def _deepsparse_benchmark(setting: Setting, model: Path, seconds: float, reports: Path) -> list[str]:
    tool = [str(_deepsparse_python(setting).parent / "deepsparse.benchmark"), str(model), "--quiet"]
    mode = ["--batch_size", "1", "--scenario", "sync", "--num_cores", str(setting.cores)]
    times = ["--time", str(round(seconds)), "--warmup_time", str(DEEPSPARSE_WARM_UP_S)]
    return [*tool, *mode, *times, "--export_path", str(reports / "report.json")]


def _deepsparse_benchmark_shot(reports: Path, _output: str) -> Shot:
    report = json.loads((reports / "report.json").read_text(encoding="utf-8"))
    results = report["benchmark_result"]
    return Shot(float(results["median"]) * 1e6, float(results["items_per_sec"]))


def _bare_shot(_reports: Path, output: str) -> Shot:
    shown = json.loads(output.splitlines()[-1])
    return Shot(float(shown["median_ns"]), float(shown["items_per_s"]))


BENCHMARK_APP = Tool("benchmark_app", "openvino", _benchmark_app, _benchmark_app_shot, default_s=60)
DEEPSPARSE_BENCHMARK = Tool(
    "deepsparse.benchmark", DEEPSPARSE, _deepsparse_benchmark, _deepsparse_benchmark_shot, default_s=12
)


def bare_loop(engine: str) -> Tool:
    """The bare loop of an engine as a tool that measures once."""

    def command(setting: Setting, model: Path, seconds: float, _reports: Path) -> list[str]:
        return [*bare_command(setting, engine, model), "--seconds", str(seconds)]

    return Tool("bare loop", engine, command, _bare_shot, inputs=INPUTS)


def bare_command(setting: Setting, engine: str, model: Path) -> list[str]:
    """The command that starts a bare loop, not yet pinned."""
    python = _deepsparse_python(setting) if engine == DEEPSPARSE else Path(sys.executable)
    return [str(python), str(BARE_LOOP), engine, str(model), "--cores", str(setting.cores)]


def engines(setting: Setting) -> list[str]:
    """The engines that can be compared here."""
    names = ["onnxruntime", "openvino", "torch"]
    return [*names, DEEPSPARSE] if setting.deepsparse_python else names


class LiveLoop:
    """A bare loop that is alive and measures when it is its turn."""

    def __init__(self, setting: Setting, engine: str, model: Path) -> None:
        self._block_s = setting.block_s
        self._process = subprocess.Popen(
            setting.pinned(bare_command(setting, engine, model)),
            env=os.environ | QUIET,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait_until_warm(self) -> None:
        """Return when the loop waits for its first turn."""
        self._read("warm")

    def turn(self) -> float:
        """Measure for one block; returns its median in nanoseconds."""
        assert self._process.stdin is not None
        print(self._block_s, file=self._process.stdin, flush=True)
        return float(json.loads(self._read("{"))["median_ns"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # its loop over the lines ends
        self._process.wait(30)

    def _read(self, start: str) -> str:
        """The next line that begins so; engines print greetings."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(start):
                return line
        raise RuntimeError(f"the bare loop ended with status {self._process.wait()}")


def _deepsparse_python(setting: Setting) -> Path:
    if setting.deepsparse_python is None:
        raise RuntimeError("DeepSparse has no environment here: make setup")
    return setting.deepsparse_python


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command, env=os.environ | QUIET, capture_output=True, text=True, timeout=SHOT_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[3:5])} failed: {(done.stderr or done.stdout)[-500:]}")
    return done.stdout
