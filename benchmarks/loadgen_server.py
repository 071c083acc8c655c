"""LoadGen's Server scenario with a bare ONNX Runtime behind it: Poisson arrivals, a queue, one worker.

    python loadgen_server.py MODEL --cores N --rate R --seconds S --seed K      prints one line of JSON

LoadGen times each query from its scheduled instant. A process of its own: LoadGen keeps global state.
"""

import argparse
import itertools
import json
import queue
import re
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import mlperf_loadgen as loadgen
import numpy as np
from bare_loop import INPUTS, WARM_UP_S, Infer, onnxruntime_loop, timed

NEVER_NS = 10**15
"""A latency bound that no query breaks: it is the latencies that are asked for, not a verdict."""


class BareServer:
    """The system under test: queries wait in a queue for the one worker."""

    def __init__(self, infer: Infer, inputs: Sequence[np.ndarray]) -> None:
        self._infer = infer
        self._inputs = inputs
        self._waiting: queue.SimpleQueue[loadgen.QuerySample | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._serve)
        self._worker.start()

    def issue(self, samples: Sequence[loadgen.QuerySample]) -> None:
        """Called by LoadGen at each arrival."""
        for sample in samples:
            self._waiting.put(sample)

    def close(self) -> None:
        """End the worker."""
        self._waiting.put(None)
        self._worker.join()

    def _serve(self) -> None:
        while (sample := self._waiting.get()) is not None:
            self._infer(self._inputs[sample.index])
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample.id, 0, 0)])


def main() -> None:
    """Warm up, run the scenario and print its 99th percentile."""
    arguments = _arguments()
    infer, shape = onnxruntime_loop(arguments.model, arguments.cores)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=shape).astype(np.float32) for _ in range(INPUTS)]
    timed(infer, itertools.cycle(inputs), WARM_UP_S)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        _run(BareServer(infer, inputs), _settings(arguments), Path(folder))
        wall_s = time.perf_counter() - begin
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    print(json.dumps({"p99_ns": _figure(summary, "99.00 percentile latency"), "wall_s": wall_s}))


def _run(server: BareServer, settings: loadgen.TestSettings, folder: Path) -> None:
    sut = loadgen.ConstructSUT(server.issue, lambda: None)
    library = loadgen.ConstructQSL(INPUTS, INPUTS, lambda _: None, lambda _: None)
    logs = loadgen.LogSettings()
    logs.log_output.outdir = str(folder)
    logs.enable_trace = False
    try:
        loadgen.StartTestWithLogSettings(sut, library, settings, logs)
    finally:
        server.close()
        loadgen.DestroyQSL(library)
        loadgen.DestroySUT(sut)


def _settings(arguments: argparse.Namespace) -> loadgen.TestSettings:
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.Server
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.server_target_qps = arguments.rate
    settings.server_target_latency_ns = NEVER_NS
    settings.min_duration_ms = settings.max_duration_ms = round(1000 * arguments.seconds)
    settings.min_query_count = settings.max_query_count = round(arguments.rate * arguments.seconds)
    settings.schedule_rng_seed = settings.sample_index_rng_seed = settings.qsl_rng_seed = arguments.seed
    return settings


def _figure(summary: str, name: str) -> int:
    found = re.search(rf"^{re.escape(name)} \(ns\)\s*:\s*(\d+)", summary, re.MULTILINE)
    if found is None:
        raise ValueError(f"LoadGen's summary has no {name}:\n{summary}")
    return int(found[1])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="queries a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
