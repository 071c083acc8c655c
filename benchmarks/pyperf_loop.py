"""The bare loop of ONNX Runtime under pyperf. ENGINEBENCH_LOOP holds the number of cores and the model's path."""

import itertools
import os
from pathlib import Path

import numpy as np
import pyperf
from bare_loop import INPUTS, onnxruntime_loop

runner = pyperf.Runner()
cores, model = os.environ["ENGINEBENCH_LOOP"].split(" ", 1)
infer, shape = onnxruntime_loop(Path(model), int(cores))
random = np.random.default_rng(0)
inputs = itertools.cycle([random.normal(size=shape).astype(np.float32) for _ in range(INPUTS)])
runner.bench_func("infer", lambda: infer(next(inputs)))
