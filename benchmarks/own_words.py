"""Whether a refusal is the engine's own: what its own tool says of the same file, without anything of ours.

OpenVINO has `benchmark_app` and `ovc`, and both must refuse. ONNX Runtime's wheel has no tool, and that of DeepSparse
breaks over inputs that it cannot make up, so a bare session and a bare `Engine` stand for what people write, with the
inputs of the trial; DeepSparse's gets the file in an IR version that it reads. PyTorch has no tool: every refusal there
is ours.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from benchmarks.peers import QUIET
from benchmarks.real_files import UNREADABLE, RealModel, write_samples
from enginebench_plugins.toolkit.onnx_model import graph_inputs

TIMEOUT_S = 300
DEEPSPARSE_IR_VERSION = 8
_INPUTS = "import sys, numpy; inputs = dict(numpy.load(sys.argv[2])); "
BARE = {
    "onnxruntime": _INPUTS + "import onnxruntime; "
    "onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider']).run(None, inputs)",
    "deepsparse": _INPUTS + "import deepsparse; "
    "deepsparse.Engine(sys.argv[1], None).run([inputs[name] for name in sys.argv[3:]], val_inp=False)",
}
BENCHMARK_APP = "import sys; from openvino.tools.benchmark.main import main; sys.exit(main())"
PLACE = re.compile(r"Traceback|\d+# ")
TELLING = re.compile("error|assert|exception|refuse|fail|unsupported|not supported", re.IGNORECASE)


def own_words(engine: str, model: RealModel, deepsparse_python: Path | None) -> str:
    """What the engine's own tool says where that refuses the file too; empty where it does not."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            words = [_words(command) for command in _commands(engine, model, Path(folder), deepsparse_python)]
        except UNREADABLE as error:
            return f"no ONNX file: {error}"
    return words[-1] if words and all(words) else ""


def _commands(engine: str, model: RealModel, folder: Path, deepsparse_python: Path | None) -> list[list[str]]:
    if engine == "openvino":
        shapes = ",".join(f"{name}[{shape.replace('x', ',')}]" for name, shape in model.shapes.items())
        app = [sys.executable, "-c", BENCHMARK_APP, "-m", str(model.path), "-niter", "1", "-api", "sync"]
        ovc = [sys.executable, "-m", "openvino.tools.ovc", str(model.path), "--output_model", str(folder / "converted")]
        return [[*app, *(["-shape", shapes] if shapes else [])], [*ovc, *(["--input", shapes] if shapes else [])]]
    python = {"onnxruntime": sys.executable, "deepsparse": deepsparse_python and str(deepsparse_python)}.get(engine)
    if not python:
        return []
    path = _restamped(model, folder) if engine == "deepsparse" else model.path
    inputs = graph_inputs(onnx.load(str(path), load_external_data=False))
    sample = write_samples(model, folder) / "0.npz"
    return [[python, "-c", BARE[engine], str(path), str(sample), *(one.name for one in inputs)]]


def _words(command: Sequence[str]) -> str:
    """The telling line of a tool that did not end well; empty for one that did."""
    variables: Mapping[str, str] = {"PATH": "/usr/bin:/bin", **QUIET}
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"it had not ended after {TIMEOUT_S} s"
    if not done.returncode:
        return ""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.search(line) and not PLACE.match(line)]
    return (telling or lines or [f"exit status {done.returncode}"])[-1]


def _restamped(model: RealModel, folder: Path) -> Path:
    """A copy with the shapes of the run, in an IR version that DeepSparse reads."""
    given = onnx.load(str(model.path))
    given.ir_version = min(given.ir_version, DEEPSPARSE_IR_VERSION)
    for value in given.graph.input:
        if shape := model.shapes.get(value.name):
            for dimension, size in zip(value.type.tensor_type.shape.dim, shape.split("x"), strict=True):
                dimension.dim_value = int(size)
    path = folder / "model.onnx"
    onnx.save(given, str(path))
    return path
