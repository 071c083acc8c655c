"""Runs of our own engines in a real child: the same inputs for each, every load, threads as observed."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from enginebench_proto.v1 import configuration_pb2 as configuration
from enginebench_proto.v1 import measurement_pb2, run_pb2
from enginebench_proto.v1.model_pb2 import ModelFile, ModelVersion

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [run_pb2.RUN_KIND_MEASURE, run_pb2.RUN_KIND_PROFILE])
@pytest.mark.parametrize(("engine", "device"), [("onnxruntime", "CPU"), ("fake", "FAKE:1")])
def test_our_engines_run_a_model(
    run_worker: Callable, make_spec: Callable, tiny_model: Path, engine: str, device: str, kind: int
) -> None:
    child = run_worker("run", str(tiny_model), spec=make_spec(engine, kind, device=device))
    result = child.result
    assert result.outcome == run_pb2.OUTCOME_OK, (result.failure, child.stderr)
    if kind == run_pb2.RUN_KIND_MEASURE:
        assert result.measurement.outputs[0] == measurement_pb2.OutputTensor(name="y", dtype="float32", shape=[2, 3])
        effective = result.measurement.effective
        assert effective.HasField("threads") == (engine == "onnxruntime"), "those that feed a device do not compute"
        assert effective.threads.value == (1 if engine == "onnxruntime" else 0)
    else:
        assert {node for layer in result.profile.layers for node in layer.source_nodes}


def test_a_program_that_takes_bfloat16_runs(run_worker: Callable, make_spec: Callable, tmp_path: Path) -> None:
    """Today's weights often are of it, and with them the inputs."""
    example = torch.zeros(2, 3, dtype=torch.bfloat16)
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2).bfloat16(), (example,)), tmp_path / "m.pt2")
    inputs = [configuration.InputTensor(name="x", dtype="bfloat16", shape=[2, 3])]
    spec = make_spec("torch", inputs=inputs)
    spec.model.CopyFrom(ModelVersion(digest="0" * 64, format="torch_export", files=[ModelFile(name="m.pt2")]))
    result = run_worker("run", str(tmp_path / "m.pt2"), spec=spec).result
    assert result.outcome == run_pb2.OUTCOME_OK, result.failure
    assert result.measurement.input_set_sha256


def test_two_engines_get_the_same_inputs(run_worker: Callable, make_spec: Callable, tiny_model: Path) -> None:
    specs = [make_spec("onnxruntime"), make_spec("fake", device="FAKE:0")]
    results = [run_worker("run", str(tiny_model), spec=spec).result for spec in specs]
    first, second = (result.measurement.input_set_sha256 for result in results)
    assert first == second != ""


@pytest.mark.parametrize("requests", [1, 3])
def test_onnxruntime_runs_asynchronously(
    run_worker: Callable, make_spec: Callable, tiny_model: Path, requests: int
) -> None:
    spec = make_spec("onnxruntime", load=configuration.LOAD_ASYNC, requests=requests, batch=4)
    child = run_worker("run", str(tiny_model), spec=spec)
    assert child.result.outcome == run_pb2.OUTCOME_OK, child.result.failure
    assert len(child.latencies_ns) == child.result.measurement.iterations


def test_garbage_on_standard_output_does_not_touch_the_channel(
    run_worker: Callable, make_spec: Callable, tiny_model: Path
) -> None:
    spec = make_spec("fake", device="FAKE:0", options={"fault": "garbage_stdout"})
    child = run_worker("run", str(tiny_model), spec=spec)
    assert child.result.outcome == run_pb2.OUTCOME_OK
    assert "not a message" in child.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_observed_threads_follow_the_cores(run_worker: Callable, make_spec: Callable, tmp_path: Path) -> None:
    """Two cores on a matrix product large enough to be split."""
    weights = numpy_helper.from_array(np.ones((1024, 1024), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [256, 1024])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [256, 1024])],
        [weights],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    inputs = [configuration.InputTensor(name="x", dtype="float32", shape=[256, 1024])]
    stop = configuration.StopRule(min_duration_ns=200_000_000)
    for cores in (1, 2):
        spec = make_spec("onnxruntime", batch=256, cores=cores, inputs=inputs, stop=stop)
        measurement = run_worker("run", str(path), spec=spec).result.measurement
        assert measurement.effective.threads.value == cores
        assert len(measurement.effective.affinity) == cores
