"""Whether a refusal is the engine's own: what its own tool says of the same file, without anything of ours.

OpenVINO has `benchmark_app` and `ovc`, and both must refuse. DeepSparse has `deepsparse.benchmark`, which gets the file
with an IR version that it reads, for it knows the operators of newer files. ONNX Runtime's wheel has no tool, so a bare
session stands for what people write. PyTorch has none: every refusal there is ours.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from benchmarks.peers import QUIET
from benchmarks.real_files import RealModel

TIMEOUT_S = 300
DEEPSPARSE_IR_VERSION = 8
BARE_SESSION = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


def own_words(engine: str, model: RealModel, deepsparse_python: Path | None) -> str:
    """The last line of the engine's own tool where that refuses the file too; empty where it does not."""
    with tempfile.TemporaryDirectory() as folder:
        words = [_words(command) for command in _commands(engine, model, Path(folder), deepsparse_python)]
    return words[-1] if words and all(words) else ""


def _commands(engine: str, model: RealModel, folder: Path, deepsparse_python: Path | None) -> list[list[str]]:
    if engine == "onnxruntime":
        return [[sys.executable, "-c", BARE_SESSION, str(model.path)]]
    if engine == "openvino":
        shapes = [f"{name}[{shape.replace('x', ',')}]" for name, shape in model.shapes.items()]
        app = [
            sys.executable,
            "-m",
            "openvino.tools.benchmark.main",
            "-m",
            str(model.path),
            "-niter",
            "1",
            "-api",
            "sync",
            "-hint",
            "none",
        ]
        ovc = [sys.executable, "-m", "openvino.tools.ovc", str(model.path), "--output_model", str(folder / "converted")]
        with_shapes = (["-shape", ",".join(shapes)], ["--input", ",".join(shapes)]) if shapes else ([], [])
        return [[*app, *with_shapes[0]], [*ovc, *with_shapes[1]]]
    if engine == "deepsparse" and deepsparse_python:
        path = _restamped(model, folder)
        tool = [str(deepsparse_python), "-m", "deepsparse.benchmark.benchmark_model", str(path), "--quiet"]
        return [[*tool, "--batch_size", "-1", "--scenario", "sync", "--time", "1", "--warmup_time", "0"]]
    return []


def _words(command: Sequence[str]) -> str:
    """The last line of a tool that ended otherwise than well; empty for one that did."""
    variables: Mapping[str, str] = {"PATH": "/usr/bin:/bin", **QUIET}
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"it had not ended after {TIMEOUT_S} s"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return (lines or [f"exit status {done.returncode}"])[-1] if done.returncode else ""


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
