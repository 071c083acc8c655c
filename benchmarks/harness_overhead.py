"""What the timing loop adds to an inference: the fake engine spins for a known time, the harness says what it saw.

Usage: python benchmarks/harness_overhead.py [--json]. Starts a local agent in a temporary folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

LATENCIES_US = (10, 100, 1000)
LOADS = (("sync", 1), ("async", 2))


def identity_model(path: Path) -> Path:
    """The smallest model there is: y = x for one float."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "identity", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def measure(home: Path, model: Path, latency_us: int, load: str, requests: int) -> dict[str, Any]:
    """One measurement of the fake engine at this latency, as the row to print."""
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--engine", "fake", "--json"]
    axes = ["--cores", "1", "--load", load, "--duration", "1s", "--warmup", "200ms"]
    axes += ["--requests", str(requests)] if load == "async" else []
    option = ["--option", f"fake.latency_us={latency_us}"]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home)}
    done = subprocess.run([*command, *axes, *option], env=variables, capture_output=True, check=True)
    (measured,) = json.loads(done.stdout)["measurements"]
    per_iteration_ns = 1e9 / measured["throughput_items_per_s"]
    return {
        "load": load,
        "requests": requests,
        "engine_ns": latency_us * 1000,
        "median_latency_ns": measured["latency"]["median_ns"],
        "wall_per_iteration_ns": per_iteration_ns,
    }


def main() -> None:
    """Measure all cases and print them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="print JSON")
    as_json = arguments.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        model = identity_model(home / "identity.onnx")
        rows = [measure(home, model, latency, *load) for load in LOADS for latency in LATENCIES_US]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print("load   requests  engine ns  median latency ns  wall per iteration ns")
    for row in rows:
        times = f"{row['median_latency_ns']:18.0f} {row['wall_per_iteration_ns']:22.0f}"
        print(f"{row['load']:6} {row['requests']:8} {row['engine_ns']:10} {times}")


if __name__ == "__main__":
    main()
