"""This side: the real worker loop taking turns, and `enginebench run` as a user starts it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx

from benchmarks.setting import DEEPSPARSE, Setting
from enginebench_agent.worker.pipe import read_frame
from enginebench_controller.records import Block, BlockSamples
from enginebench_proto.v1.configuration_pb2 import HINT_NONE, LOAD_SYNC, Configuration, InputSet, InputTensor, StopRule
from enginebench_proto.v1.model_pb2 import ModelFile, ModelVersion
from enginebench_proto.v1.run_pb2 import RUN_KIND_MEASURE, RunSpec
from enginebench_proto.v1.worker_pb2 import WorkerMessage

INPUTS = 8
WARM_UP_NS = 1_000_000_000
RUN_TIMEOUT_S = 900


class LiveWorker:
    """An agent's child that is alive and measures one block when it is given its turn."""

    def __init__(self, setting: Setting, engine: str, model: Path) -> None:
        python = setting.deepsparse_python if engine == DEEPSPARSE else sys.executable
        turns, self._turns = os.pipe()
        command = [str(python), "-m", "enginebench_agent.worker", "run", str(model), "--turns", str(turns)]
        self._process = subprocess.Popen(
            setting.pinned(command),
            pass_fds=(turns,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        os.close(turns)
        assert self._process.stdin is not None
        self._process.stdin.write(_spec(setting, engine, model).SerializeToString())
        self._process.stdin.close()

    def wait_until_warm(self) -> None:
        """Return when the child waits for its first turn."""
        self._until_turn_wanted()

    def turn(self) -> float:
        """Measure for one block; returns its median in nanoseconds."""
        os.write(self._turns, b"g")
        return float(np.median(self._until_turn_wanted()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.write(self._turns, b"s")
        os.close(self._turns)
        assert self._process.stdout is not None
        self._process.stdout.read()  # its result, which says nothing new
        self._process.wait(30)

    def _until_turn_wanted(self) -> list[int]:
        """Samples that come before the child wants its next turn."""
        samples_ns: list[int] = []
        while True:
            message = self._read()
            if message.HasField("turn_wanted"):
                return samples_ns
            if message.part.HasField("result"):
                raise RuntimeError(f"the worker ended early: {message.part.result.failure.message}")
            samples_ns.extend(message.part.samples.latency_ns)

    def _read(self) -> WorkerMessage:
        assert self._process.stdout is not None
        message = read_frame(self._process.stdout)
        if message is None:
            raise RuntimeError(f"the worker ended with status {self._process.wait()}")
        return message


def _spec(setting: Setting, engine: str, model: Path) -> RunSpec:
    """A measurement like the default one, whose blocks are as long as the peer's and never enough."""
    graph = onnx.load(str(model), load_external_data=False).graph
    (given,) = graph.input
    shape = [dimension.dim_value for dimension in given.type.tensor_type.shape.dim]
    stop = StopRule(min_iterations=10**9, warmup_ns=WARM_UP_NS, block_ns=round(setting.block_s * 1e9))
    configuration = Configuration(
        device="CPU",
        batch=1,
        cores=setting.cores,
        streams=1,
        precision="f32",
        hint=HINT_NONE,
        load=LOAD_SYNC,
        requests=1,
        inputs=[InputTensor(name=given.name, dtype="float32", shape=shape)],
        input_set=InputSet(seed=0, count=INPUTS, name="random"),
        stop=stop,
    )
    files = [ModelFile(name=model.name, size_bytes=model.stat().st_size)]
    version = ModelVersion(format="onnx", files=files)
    return RunSpec(run_id="loops", kind=RUN_KIND_MEASURE, engine=engine, model=version, configuration=configuration)


@dataclass(frozen=True)
class Measured:
    """The document of one measurement, and how long one waited for it."""

    document: Mapping[str, Any]
    benchmark: str
    wall_s: float

    @property
    def median_ns(self) -> float:
        """The median shown."""
        return float(self.document["latency"]["median_ns"])

    @property
    def items_per_s(self) -> float:
        """The throughput shown."""
        return float(self.document["throughput_items_per_s"])

    def blocks(self, setting: Setting) -> Sequence[Block]:
        """The blocks of all its processes, from the store."""
        (measurement,) = setting.home.store.measurements(self.benchmark)
        return measurement.blocks

    def samples(self, setting: Setting) -> Sequence[BlockSamples]:
        """The raw samples, from the store."""
        return setting.home.store.block_samples(self.document["id"])


def run(setting: Setting, plan: Mapping[str, Any]) -> Measured:
    """`enginebench run` of a plan with a single cell. Raises `RuntimeError` with its last words when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(_toml({"schema_version": 1, **plan}), encoding="utf-8")
        command = [sys.executable, "-m", "enginebench_controller", "run", str(path), "--json"]
        begin = time.perf_counter()
        done = subprocess.run(
            command,
            env=os.environ | {"ENGINEBENCH_HOME": str(setting.home.path)},
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        wall_s = time.perf_counter() - begin
    # An inconclusive measurement has an exit status of its own, and a document all the same.
    document = json.loads(done.stdout or "{}")
    measurements: Sequence[Mapping[str, Any]] = document.get("measurements", ())
    if len(measurements) != 1 or measurements[0].get("latency") is None:
        raise RuntimeError(f"enginebench run failed: {(done.stderr or done.stdout)[-500:]}")
    return Measured(measurements[0], document["benchmark"]["id"], wall_s)


def _toml(values: Mapping[str, Any]) -> str:
    """Flat values, lists and one level of tables; JSON's literals are TOML's."""
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if key not in tables]
    for key, table in tables.items():
        lines += [f"[{key}]", *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"
