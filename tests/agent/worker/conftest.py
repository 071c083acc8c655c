"""Real children of the interpreter the tests run in, plugins installed into folders, and a tiny model."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from agent.worker.pliable import engine_with
from enginebench_agent.worker.pipe import read_frame
from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1.engine_pb2 import Engine
from enginebench_proto.v1.measurement_pb2 import Block, Samples
from enginebench_proto.v1.model_pb2 import ModelFile, ModelVersion
from enginebench_proto.v1.run_pb2 import RUN_KIND_MEASURE, ResultPart, RunResult, RunSpec
from enginebench_proto.v1.worker_pb2 import WorkerMessage

MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Child:
    """What a child sent and left behind."""

    messages: tuple[WorkerMessage, ...]
    stderr: str
    returncode: int

    @property
    def engines(self) -> dict[str, Engine]:
        return {message.engine.name: message.engine for message in self.messages if message.HasField("engine")}

    @property
    def _parts(self) -> list[ResultPart]:
        return [message.part for message in self.messages if message.HasField("part")]

    @property
    def result(self) -> RunResult:
        assert self.messages and self.messages[-1].part.HasField("result"), self.stderr
        return self._parts[-1].result

    @property
    def blocks(self) -> list[Block]:
        return [part.block for part in self._parts if part.HasField("block")]

    @property
    def sample_parts(self) -> list[Samples]:
        return [part.samples for part in self._parts if part.HasField("samples")]

    @property
    def latencies_ns(self) -> list[int]:
        return [latency for part in self.sample_parts for latency in part.latency_ns]

    @property
    def phases(self) -> list[str]:
        return [message.phase.name for message in self.messages if message.HasField("phase")]


@pytest.fixture
def run_worker() -> Callable[..., Child]:
    """Start a worker with these arguments and wait for its end."""

    def run(
        *arguments: str,
        spec: RunSpec | None = None,
        folders: Sequence[Path] = (),
        timeout_s: float = 60,
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Child:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))} | (variables or {})
        process = subprocess.run(
            [sys.executable, "-m", "enginebench_agent.worker", *arguments],
            input=b"" if spec is None else spec.SerializeToString(),
            capture_output=True,
            cwd=cwd,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
        stream = BytesIO(process.stdout)
        messages = tuple(iter(lambda: read_frame(stream), None))
        return Child(messages, process.stderr.decode(errors="replace"), process.returncode)

    return run


@pytest.fixture
def install_plugin(tmp_path: Path) -> Callable[..., Path]:
    """Lay a plugin's module and its distribution's metadata into a folder, as `pip install --target` does."""

    def install(engine: str, source: str, *, distribution: str = "", module: str = "") -> Path:
        distribution = distribution or f"{engine}-plugin"
        module = module or f"{engine}_plugin_module"
        folder = tmp_path / "site" / distribution
        metadata = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[enginebench]\n{engine} = {module}\n")
        return folder

    return install


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """y = relu(x @ w + 1) with x: float32[batch, 4]; a few hundred bytes."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [0.1 * i for i in range(12)])
    one = helper.make_tensor("one", TensorProto.FLOAT, [3], [1.0] * 3)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "one"], ["z"], name="gemm"),
            helper.make_node("Relu", ["z"], ["y"], name="relu"),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [weights, one],
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def make_spec() -> Callable[..., RunSpec]:
    """A run of the tiny model that lasts a few milliseconds; keyword arguments replace parts of its configuration."""

    def make(engine: str, kind: int = RUN_KIND_MEASURE, **changes: object) -> RunSpec:
        batch = changes.get("batch", 2)
        values: dict[str, object] = {
            "device": "CPU",
            "batch": batch,
            "cores": 1,
            "streams": 1,
            "precision": "f32",
            "hint": configuration.HINT_NONE,
            "load": configuration.LOAD_SYNC,
            "requests": 1,
            "inputs": [configuration.InputTensor(name="x", dtype="float32", shape=[batch, 4])],
            "input_set": configuration.InputSet(seed=7, count=3),
            "stop": configuration.StopRule(
                min_duration_ns=20 * MILLISECOND,
                min_iterations=10,
                max_duration_ns=5000 * MILLISECOND,
                warmup_ns=5 * MILLISECOND,
            ),
        }
        model = ModelVersion(digest="0" * 64, format="onnx", files=[ModelFile(name="tiny.onnx")])
        return RunSpec(
            run_id="r1",
            kind=kind,
            engine=engine,
            environment="default",
            model=model,
            configuration=configuration.Configuration(**values | changes),
        )

    return make


@pytest.fixture
def run_mine(
    run_worker: Callable, install_plugin: Callable, make_spec: Callable, tiny_model: Path
) -> Callable[..., Child]:
    """Run the pliable engine with statements put in."""

    def run(statements: dict[str, str] | None = None, **spec: object) -> Child:
        folder = install_plugin("mine", engine_with(**statements or {}))
        return run_worker("run", str(tiny_model), spec=make_spec("mine", **spec), folders=[folder])

    return run
