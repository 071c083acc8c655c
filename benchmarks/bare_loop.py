"""The loop that a careful engineer writes when there is no harness, in a process of its own.

    python bare_loop.py ENGINE MODEL --cores N                 prints a line when warm, then serves: a line with seconds
                                                               in, a line of JSON out
    python bare_loop.py ENGINE MODEL --cores N --seconds S     measures once

Run by the engine's own interpreter; the caller pins it. Thread counts and precision are what enginebench asks for.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

INPUTS = 8
"""As many as enginebench rotates through by default."""
WARM_UP_S = 1.0

Infer = Callable[[np.ndarray], Any]


def onnxruntime_loop(model: Path, cores: int) -> tuple[Infer, tuple[int, ...]]:
    """A session, fed by name."""
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = cores, 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    return lambda array: session.run(None, {given.name: array}), tuple(given.shape)


def openvino_loop(model: Path, cores: int) -> tuple[Infer, tuple[int, ...]]:
    """A request of a network compiled for latency, memory shared."""
    import openvino  # noqa: PLC0415

    properties = {"INFERENCE_NUM_THREADS": cores, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    network = openvino.Core().compile_model(str(model), "CPU", properties)
    request = network.create_infer_request()
    return lambda array: request.infer({0: array}, share_inputs=True, share_outputs=True), tuple(network.input(0).shape)


def torch_loop(model: Path, cores: int) -> tuple[Infer, tuple[int, ...]]:
    """The module that the plugin makes, in inference mode."""
    import torch  # noqa: PLC0415

    from enginebench_plugins import spec  # noqa: PLC0415
    from enginebench_plugins.engines.torch.plugin import enginebench_engine  # noqa: PLC0415

    torch.set_num_threads(cores)
    engine, source = enginebench_engine(), spec.ModelSource(model, spec.ModelFormat.ONNX)
    network = engine.convert(engine.read(source), source)
    module = network.module.eval()

    def infer(array: np.ndarray) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(array))[0].numpy()

    return infer, network.inputs[0].shape


def deepsparse_loop(model: Path, cores: int) -> tuple[Infer, tuple[int, ...]]:
    """An engine with one stream."""
    import deepsparse  # noqa: PLC0415

    engine = deepsparse.Engine(str(model), batch_size=1, num_cores=cores, scheduler="single_stream")
    return lambda array: engine.run([array], val_inp=False), tuple(engine.input_shapes[0])


LOOPS = {
    "deepsparse": deepsparse_loop,
    "onnxruntime": onnxruntime_loop,
    "openvino": openvino_loop,
    "torch": torch_loop,
}


@dataclass(frozen=True)
class Timed:
    """Nanoseconds of each inference, and of the whole loop."""

    samples_ns: list[int]
    wall_ns: int


def timed(infer: Infer, inputs: Iterator[np.ndarray], seconds: float) -> Timed:
    """Infer one input after the other for so long."""
    clock, samples = time.perf_counter_ns, []
    start = now = clock()
    end = start + int(seconds * 1e9)
    while now < end:
        array = next(inputs)
        begin = clock()
        infer(array)
        now = clock()
        samples.append(now - begin)
    return Timed(samples, now - start)


def main() -> None:
    """Warm up; then measure once, or serve turns until the input ends."""
    arguments = _arguments()
    infer, shape = LOOPS[arguments.engine](arguments.model, arguments.cores)
    random = np.random.default_rng(0)
    inputs = itertools.cycle([random.normal(size=shape).astype(np.float32) for _ in range(INPUTS)])
    timed(infer, inputs, WARM_UP_S)
    if arguments.seconds is not None:
        _print(timed(infer, inputs, arguments.seconds))
        return
    print("warm", flush=True)
    for line in sys.stdin:
        infer(next(inputs))  # ours settles before its clock starts, too: whoever had the last turn spins for a while
        _print(timed(infer, inputs, float(line)))


def _print(found: Timed) -> None:
    count = len(found.samples_ns)
    shown = {"median_ns": statistics.median(found.samples_ns), "items_per_s": count / found.wall_ns * 1e9}
    print(json.dumps({**shown, "iterations": count}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=sorted(LOOPS))
    parser.add_argument("model", type=Path)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--seconds", type=float)
    return parser.parse_args()


if __name__ == "__main__":
    main()
