"""A home filled by real runs of the engines: what the pages are looked at with.

python tests/browser/real_runs.py HOME [--thorough]
"""

import argparse
import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from agent_server import only
from enginebench_controller.home import Home
from enginebench_controller.jobs.control import job, log_tail, start_job
from enginebench_controller.jobs.record import JobState
from enginebench_proto.agreed.home import HOME_VARIABLE
from integration.bench import BRIEF, QUICK, UNHURRIED, UNWAITING, Bench, tiny_model

GRID, SWEEP, QUANTIZED = "Engines side by side", "Requests in flight", "Quantized"
BASELINE = "baseline"
_THOROUGH = ("--processes", "2", "--interval", "0%", "--duration", "1s", "--warmup", "300ms", *UNHURRIED)
_ENVIRONMENT = Path("agent", "environments", "deepsparse")


def fill(home: Path, *, thorough: bool = False) -> None:
    """Measure, profile, calibrate and climb; `thorough` takes minutes instead of one or two, and looks better."""
    bench, timing = Bench(home), _THOROUGH if thorough else (*QUICK, "--max-duration", "5s")
    pass_timing = UNWAITING if thorough else BRIEF
    # Where others are at work, PyTorch's threads wait for each other twenty times as long as they compute.
    cores = "2" if thorough else "1"
    passes = ("--iterations", "10", "--cores", cores, *pass_timing)
    both, model = "onnxruntime,openvino", "zoo:squeezenet"

    def cli(*arguments: object, expect: int | None = 0) -> None:
        bench.cli(*arguments, expect=expect, timeout=1200)

    few = ("--among", "batch=1,2", "--fix", "load=sync", "--fix", "cores=2", "--max-latency", "p95<100ms")
    # Real levels mostly do not differ, and each point takes six processes. The fake engine's times are told apart
    # within seconds, on a tiny network: it computes the outputs by a reference that takes ten seconds for SqueezeNet.
    levels = ("--options", "onnxruntime.graph_optimization_level=all,disabled", "--budget", "1m")
    rests = ("--option", "fake.wait=sleep")
    known = ("--options", "fake.latency_us=3000,12000", *rests, "--worse", "20%", "--budget", "30s")
    chosen = ("--engine", "fake", "--option", "fake.latency_us=3000", *rests, "--budget", "1m")
    if thorough:
        chosen, known = ("--engine", both, "--budget", "2m"), levels
    in_flight = ("--load", "async", "--requests", "1,2,4")
    with _asking(home, *both.split(","), "fake"):
        searched = model if thorough else tiny_model(home / "tiny.onnx")
        cli("recommend", searched, *chosen, *few, expect=None)
        cli("bisect", searched, *known, expect=None)
        cli("models", "quantize", model, "--samples", "2")
        quantized = next(one for one in bench.json("models", "list")["models"] if one["derivation"])["digest"][:12]
        cli("profile", quantized, "--engine", both, "--name", QUANTIZED, *passes)
        cli("targets", "calibrate", "--engine", both if thorough else "openvino", "--cores", cores)
    three = "onnxruntime,openvino,torch"
    engines = three + ",deepsparse" * _lend_deepsparse(home)
    rungs = ("--processes", "1", "--duration", "1s" if thorough else "100ms", "--iterations", "32", *pass_timing)
    with _asking(home, *(three if thorough else both).split(",")):
        cli("ladder", "throughput", model, *rungs)
    sizes = ("--batch", "1,2,4") if thorough else ("--batch", "1,2")
    cli("run", model, "--engine", engines if thorough else three, *sizes, "--cores", "1,2", "--name", GRID, *timing)
    cli("run", model, "--engine", both, "--batch", "1", *in_flight, "--name", SWEEP, *timing)
    sizes_of_job = ("--batch", "1,2", "--cores", "1,2", "--name", QUANTIZED)
    _as_a_job(Home(home), ["run", quantized, "--engine", both, *sizes_of_job, *timing])
    cli("profile", model, "--engine", engines, "--name", BASELINE, *passes)
    if "deepsparse" in engines:
        steps = () if thorough else ("--sparsity", "0,0.9", "--no-by-layer")
        cli("prospects", "pruning", model, *steps, *pass_timing)


@contextlib.contextmanager
def _asking(home: Path, *engines: str) -> Iterator[None]:
    """Let this home's agent have these engines only, where no others are needed: some take seconds to be asked."""
    file = home / "agent" / "agent.toml"
    file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    file.write_text(only(*engines))
    yield
    file.unlink()


def _as_a_job(home: Home, arguments: list[str]) -> None:
    """Run a command as the pages do."""
    begun = start_job(home, QUANTIZED, arguments)
    while not job(home, begun.id).state.has_ended:
        time.sleep(0.2)
    assert job(home, begun.id).state is JobState.DONE, log_tail(begun)


def _lend_deepsparse(home: Path) -> bool:
    """Let the agents of a home run DeepSparse in the environment that `make` made; False where it made none."""
    made = Path(os.environ.get(HOME_VARIABLE, ".enginebench")).absolute() / _ENVIRONMENT
    if not made.exists():
        return False
    lent = home / _ENVIRONMENT
    lent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not lent.exists():
        lent.symlink_to(made, target_is_directory=True)
    return True


def copy(home: Path, other: Path) -> Path:
    """A home with the same results and models, to be changed."""
    agent = other / "agent" / "environments"
    agent.mkdir(parents=True, mode=0o700)
    for environment in (home / "agent" / "environments").glob("*"):
        (agent / environment.name).symlink_to(environment.resolve(), target_is_directory=True)
    shutil.copytree(home / "models", other / "models", symlinks=True)
    shutil.copy(home / "results.duckdb", other)
    return other


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--thorough", action="store_true")
    asked = parser.parse_args()
    fill(asked.home.absolute(), thorough=asked.thorough)
