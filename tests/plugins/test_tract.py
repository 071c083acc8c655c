"""tract under the engine contract, and what is particular to it."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebench_plugins import spec
from enginebench_plugins.engines.tract.compiled import layers_of
from enginebench_plugins.engines.tract.plugin import import_tract
from enginebench_plugins.testing import EngineContract
from enginebench_plugins.testing.contract_models import ContractModel
from enginebench_plugins.testing.workbench import batches
from enginebench_plugins.toolkit.onnx_model import source_names

HIDDEN = 8


class TestTract(EngineContract):
    plugin = "enginebench_plugins.engines.tract.plugin"

    def test_a_name_of_a_size_that_further_tensors_share_is_one_size(self, engine: spec.Engine, tmp_path: Path) -> None:
        model = self.classifier(tmp_path)
        onnx.save(onnx.shape_inference.infer_shapes(onnx.load(str(model.path))), str(model.path))
        inputs = model.inputs_for(3, seed=1)
        (outputs,) = self.infer(engine, model, 3, inputs)
        self.assert_same(outputs, model.reference(inputs))

    def test_a_size_without_a_name_and_one_name_of_two_sizes_are_given_as_they_are(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        model = _file(
            tmp_path,
            [helper.make_node("MatMul", ["x", "y"], ["z"])],
            inputs={"x": ("n", None), "y": (None, "n")},
            outputs={"z": (None, None)},
        )
        shapes = {"x": (2, 3), "y": (3, 4)}
        given = tuple(replace(tensor, shape=shapes[tensor.name]) for tensor in model.inputs)
        arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
        source = spec.ModelSource(model.path, model.format, given)
        with self.compiled(engine, source, self.settings()) as compiled:
            outputs = compiled.create_request().infer(arrays)
        np.testing.assert_array_equal(outputs["z"], np.full((2, 4), 3.0))

    def test_a_loop_begins_anew_with_each_inference(self, engine: spec.Engine, tmp_path: Path) -> None:
        random = np.random.default_rng(1)
        weights = {
            name: random.normal(size=(1, 4 * HIDDEN, size)).astype(np.float32)
            for name, size in {"w": 3, "r": HIDDEN}.items()
        }
        node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], "lstm", hidden_size=HIDDEN)
        model = _file(tmp_path, [node], {"x": (5, 1, 3)}, {"h": (1, 1, HIDDEN)}, weights)
        inputs = model.inputs_for(1, seed=1)
        once, again = self.infer(engine, model, 1, inputs, inputs)
        self.assert_same(once, model.reference(inputs))
        np.testing.assert_array_equal(once["h"], again["h"])

    def test_cores_are_for_requests_in_flight(self, engine: spec.Engine, tmp_path: Path) -> None:
        source = self.classifier(tmp_path).source(1)
        with self.compiled(engine, source, self.settings(cores=2, load=spec.Load.ASYNC, requests=2)) as compiled:
            assert compiled.effective().threads is None, "it tells none, so they are observed"
        self.assert_refused(engine, tmp_path, cores=3, load=spec.Load.ASYNC, requests=2)

    def test_a_profile_has_means_of_many_inferences_of_what_runs(self, engine: spec.Engine, tmp_path: Path) -> None:
        profile, _ = self.profile(engine, tmp_path, iterations=2)
        assert profile.inferences is not None and profile.inferences > 2
        assert profile.latency_ns == ()
        found = {layer.name: layer for layer in profile.layers}
        gemm = found["gemm"]
        assert (gemm.type, gemm.precision, gemm.source_nodes) == ("OptMatMul", "f32", ("gemm",))
        assert gemm.parameters["FMA(F32)"] == str(max(batches(engine)) * 10 * 32)
        assert found["relu1.low"].source_nodes == ("relu1",)
        assert not any(layer.type == "Const" for layer in profile.layers)


def _file(
    folder: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int | str | None, ...]],
    outputs: dict[str, tuple[int | str | None, ...]],
    weights: dict[str, np.ndarray] | None = None,
) -> ContractModel:
    def values(shapes: dict[str, tuple[int | str | None, ...]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    stored = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "own", values(inputs), values(outputs), stored)
    path = folder / "own.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    specs = tuple(spec.TensorSpec(name, "float32", shape) for name, shape in inputs.items())
    return ContractModel(path, spec.ModelFormat.ONNX, specs, tuple(outputs))


RESIDUAL = """
<ir_version: 8, opset_import: ["" : 13]>
agraph (float[n, c] x, float[c, c] w) => (float[n, c] y, float[n, c] z) {
    [first] a = MatMul(x, w)
    [second] b = MatMul(x, w)
    [add] s = Add(a, b)
    [relu] y = Relu(s)
    [other] z = Relu(b)
}
"""


def _sources(*layers: tuple[str, str]) -> dict[str, tuple[str, ...]]:
    names = source_names(onnx.parser.parse_model(RESIDUAL), ".-")
    nodes = [
        {"qualified_id": [[], place], "op_name": kind, "node_name": name, "secs_per_iter": 1e-6}
        for place, (name, kind) in enumerate(layers)
    ]
    return {layer.name: layer.source_nodes for layer in layers_of(nodes, names, 1)}


def test_a_product_that_is_named_after_what_was_fused_into_it_is_the_one_without_a_layer() -> None:
    found = _sources(("first", "OptMatMul"), ("second.pack_b", "OptMatMulPack"), ("relu.low.prefused", "OptMatMul"))
    assert found["first"] == ("first",)
    assert found["relu.low.prefused"] == ("relu", "second")


def test_a_part_of_a_product_is_that_product() -> None:
    found = _sources(("second.concat-einsum-I.0..64", "OptMatMul"), ("other.low.prefused", "OptMatMul"))
    assert found == {"second.concat-einsum-I.0..64": ("second",), "other.low.prefused": ("other", "second")}


def test_what_is_fused_into_a_product_does_not_reach_beyond_another_layer() -> None:
    assert _sources(("add", "OptBinAdd"), ("relu", "OptMatMul"))["relu"] == ("relu",)


def test_weights_and_what_runs_within_a_loop_are_no_layers_and_the_order_is_that_of_execution() -> None:
    names = source_names(onnx.parser.parse_model(RESIDUAL), ".-")
    nodes = [
        {"qualified_id": [[], 2], "op_name": "OptMaxByScalar", "node_name": "relu.low", "secs_per_iter": 2e-6},
        {"qualified_id": [[], 0], "op_name": "Const", "node_name": "relu.low.cst"},
        {"qualified_id": [[], 1], "op_name": "Scan", "node_name": "loop", "secs_per_iter": 5e-6},
        {"qualified_id": [[[1, "loop"]], 0], "op_name": "OptMatMul", "node_name": "loop.inner"},
        {"qualified_id": [[], 3], "op_name": "Cast", "node_name": "untold"},
    ]
    found = list(layers_of(nodes, names, 2))
    assert [(one.name, one.order, one.time_ns) for one in found] == [
        ("loop", 0, (5000, 5000)),
        ("relu.low", 1, (2000, 2000)),
        ("untold", 2, ()),
    ]
    assert found[2].state is spec.LayerState.NOT_EXECUTED


def test_an_absent_package_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tract", None)
    with pytest.raises(spec.EngineUnavailableError, match="environment add tract --engine tract") as caught:
        import_tract()
    assert not caught.value.installed
