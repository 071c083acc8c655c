"""A ladder with invented numbers, for tests of what keeps and shows it. Nothing here was measured."""

from dataclasses import replace

import invented
from enginebench_controller.records import Benchmark, Hint, Interval, IntervalMethod, Load, Phase

NO_GPU = "openvino on target 'nuc' has no device 'GPU'; it has CPU, AUTO"
RUNGS = {
    "pytorch": ("PyTorch", {"engines": ["torch"], "load": ["sync"], "hint": ["none"], "devices": ["CPU"]}),
    "batch-4": ("+ batch 4", {"engines": ["openvino"], "batch": [4], "devices": ["CPU"]}),
    "throughput": ("THROUGHPUT hint", {"engines": ["openvino"], "load": ["async"], "hint": ["throughput"]}),
    "gpu": ("THROUGHPUT on GPU", None),
}
FPS = {"pytorch": 47.67, "batch-4": 131.86, "throughput": 249.34}


def benchmark(identity="b000000a", kind="throughput", created_at_unix_ns=invented.CREATED_NS, **fields):
    """A ladder of four rungs, one of which the target does not have."""
    plan = {
        "schema_version": 1,
        "name": f"{kind} ladder of invented",
        "models": ["ab" * 32],
        "ladder": kind,
        "rungs": [_rung(name, title, own) for name, (title, own) in RUNGS.items()],
    }
    return Benchmark(identity, plan["name"], created_at_unix_ns, plan, **fields)


def measurements(benchmark_id="b000000a", fps=FPS, target="nuc"):
    """What was measured on the rungs of these images a second; None for one that failed."""
    return tuple(_measured(f"{benchmark_id}-{name}", benchmark_id, name, value, target) for name, value in fps.items())


def _rung(name, title, own):
    if own is None:
        return {"name": name, "title": title, "unavailable": NO_GPU}
    common = {"models": ["ab" * 32], "batch": [1], "cores": [2], "load": ["sync"], "hint": ["none"]}
    return {"name": name, "title": title, "fields": common | {"devices": ["CPU"], "options": {}} | own}


def _measured(identity, benchmark_id, name, fps, target):
    own = RUNGS[name][1]
    configuration = replace(
        invented.CONFIGURATION,
        batch=own.get("batch", [1])[0],
        load=Load(own.get("load", ["sync"])[0]),
        hint=Hint(own.get("hint", ["none"])[0]),
        options={},
    )
    common = {"engine": own["engines"][0], "configuration": configuration, "target": target}
    if fps is None:
        return invented.failed(identity, benchmark_id, **common)
    one = invented.measured(identity, benchmark_id, **common)
    return replace(
        one,
        throughput_items_per_s=fps,
        throughput_interval=Interval(0.97 * fps, 1.03 * fps, 0.95, IntervalMethod.PROCESSES_T),
        latency=replace(one.latency, median_ns=1e9 / fps, median_interval=None),
        phases=(Phase("compile", 250_000_000), Phase("first_inference", 29_200_000)),
    )
