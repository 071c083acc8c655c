"""Where ONNX Runtime's layers come from, told by the graph it made and by the names within it."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.optimized_graph import OptimizedGraph, OptimizedNode, source_nodes
from enginebench_plugins.engines.onnxruntime.plugin import OnnxRuntime
from enginebench_plugins.engines.onnxruntime.profile import GRAPH, Recording, layers_of
from enginebench_plugins.testing import compiled, contract_models
from enginebench_plugins.toolkit.onnx_model import SourceNames

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"

NAMES = SourceNames(
    types={"conv": "Conv", "relu": "Relu", "Transpose": "Transpose", "quantize": "QuantizeLinear", "gelu": "Mul"},
    makers={"r0": "conv", "r1": "relu", "turned": "Transpose", "q": "quantize", "g": "gelu"},
)


def profile(source: spec.ModelSource, inputs: dict[str, Any], **settings: Any) -> tuple[spec.LayerProfile, ...]:
    session = compiled(OnnxRuntime(), source, profiling=True, **settings)
    session.create_request().infer(inputs)
    layers = session.profile([inputs], 2).layers
    session.close()
    return layers


def named_time(layers: Iterable[spec.LayerProfile]) -> float:
    """The share of the time in layers with an origin."""
    times = [(sum(layer.time_ns), bool(layer.source_nodes)) for layer in layers]
    return sum(time_ns for time_ns, named in times if named) / sum(time_ns for time_ns, _ in times)


@pytest.mark.parametrize(
    ("name", "operator", "outputs", "origin"),
    [
        ("r1_nchwc", "Conv", ["reorder_token_0"], ("relu",)),
        ("conv", "FusedConv", ["r1"], ("conv", "relu")),
        ("conv_token_7", "QLinearConv", ["conv"], ("conv",)),
        ("BiasGelu", "BiasGelu", ["g"], ("gelu",)),
        ("ReorderOutput_token_3", "ReorderOutput", ["r1"], ()),
        ("InsertedCast_r1", "Cast", ["r1"], ()),
        ("InsertedPrecisionFreeCast_r1_nchwc", "Conv", ["reorder_token_0"], ("relu",)),
        ("add", "Add", ["InsertedPrecisionFreeCast_g"], ("gelu",)),
        ("InsertedPrecisionFreeCast_r1", "Cast", ["r1"], ()),
        ("conv_cast", "Cast", ["cast"], ()),
        ("Transpose_token_4", "Transpose", ["conv_nhwc"], ()),
        ("Transpose", "Transpose", ["turned"], ("Transpose",)),
        ("quantize", "QuantizeLinear", ["q"], ("quantize",)),
        ("somebody", "Conv", ["else"], ()),
    ],
)
def test_name_and_outputs_tell_a_nodes_origin(
    name: str, operator: str, outputs: list[str], origin: tuple[str, ...]
) -> None:
    assert source_nodes(name, operator, outputs, NAMES, taken={"Transpose", "conv_other"}) == origin


def test_nodes_of_one_name_and_type_are_found_in_their_order_and_others_by_name_alone() -> None:
    first, second = (OptimizedNode("BiasGelu", "BiasGelu", outputs=(name,)) for name in "ab")
    graph = OptimizedGraph([first, second, OptimizedNode("once", "Conv", outputs=("c",))], NAMES)
    found = graph.find([("BiasGelu", "BiasGelu"), ("conv_token_1", "Conv"), ("BiasGelu", "BiasGelu")])
    assert found[0] is first
    assert found[2] is second
    assert (found[1].source_nodes, found[1].outputs) == (("conv",), ())
    assert graph.find([("BiasGelu", "BiasGelu")])[0].outputs == (), "which of the two it was cannot be told"


@pytest.mark.parametrize(("name", "share"), [("squeezenet", 0.95), ("inception_v2", 0.9)])
def test_real_networks_layers_have_disjoint_origins(name: str, share: float) -> None:
    path = LIGHT / f"light_{name}.onnx"
    model = onnx.load(str(path))
    weights = {weight.name for weight in model.graph.initializer}
    (image,) = [each for each in model.graph.input if each.name not in weights]
    source = spec.ModelSource(path, spec.ModelFormat.ONNX)
    inputs = {image.name: np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)}
    layers = profile(source, inputs)
    origins = [origin for layer in layers for origin in layer.source_nodes]
    assert len(set(origins)) == len(origins), "two layers claim one node"
    assert set(origins) <= {node.name for node in model.graph.node}
    assert named_time(layers) > share
    assert all(layer.outputs for layer in layers)
    read = {name for layer in layers for name in layer.inputs}
    assert all(set(layer.outputs) & read for layer in layers[:-1]), "a tensor that nobody reads"


def test_strides_and_groups_are_told(tmp_path: Path) -> None:
    model = contract_models.classifier(tmp_path)
    first = profile(model.source(1), model.inputs_for(1, seed=1))[0]
    assert first.parameters["pads"] == "1,1,1,1"
    assert "image" in first.inputs


def test_nodes_without_names_are_told_apart(tmp_path: Path) -> None:
    model = contract_models.classifier(tmp_path)
    proto = onnx.load(str(model.path))
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, str(model.path))
    before = model.path.read_bytes()
    layers = profile(model.source(1), model.inputs_for(1, seed=1), options={"graph_optimization_level": "disabled"})
    assert [layer.source_nodes for layer in layers] == [(node.output[0],) for node in proto.graph.node]
    assert model.path.read_bytes() == before


def test_a_copy_with_names_finds_weights_beside_the_model_as_given(tmp_path: Path) -> None:
    model = contract_models.classifier(tmp_path)
    proto = onnx.load(str(model.path))
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, str(model.path))
    external = contract_models.with_external_data(model, tmp_path / "external")
    layers = profile(external.source(1), model.inputs_for(1, seed=1))
    assert named_time(layers) > 0.5


def test_int8_layers_name_the_float_nodes_they_stand_for(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    constants = {
        "scale": np.float32(0.05),
        "zero": np.uint8(128),
        "kernel": random.integers(-50, 50, (32, 3, 3, 3)).astype(np.int8),
        "kernel_scale": np.float32(0.01),
        "kernel_zero": np.int8(0),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "scale", "zero"], ["iq"], "image_q"),
        helper.make_node("DequantizeLinear", ["iq", "scale", "zero"], ["idq"], "image_dq"),
        helper.make_node("DequantizeLinear", ["kernel", "kernel_scale", "kernel_zero"], ["w"], "kernel_dq"),
        helper.make_node("Conv", ["idq", "w"], ["c"], "conv"),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["cq"], "conv_q"),
        helper.make_node("DequantizeLinear", ["cq", "scale", "zero"], ["y"], "conv_dq"),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 22, 22])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    path = tmp_path / "quantized.onnx"
    opset = [helper.make_opsetid("", contract_models.OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=contract_models.IR_VERSION), str(path))
    source = spec.ModelSource(path, spec.ModelFormat.ONNX)
    layers = profile(source, {"image": random.normal(size=(1, 3, 24, 24)).astype(np.float32)})
    by_type = {layer.type: layer.source_nodes for layer in layers}
    assert by_type["QLinearConv"][0] == "conv"
    assert by_type["QuantizeLinear"] == ("image_q",)


def test_a_graph_that_cannot_be_saved_costs_the_tensors_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = contract_models.classifier(tmp_path)
    switch_on = Recording.switch_on

    def onto_a_folder(self: Recording, options: Any, *, graph: bool) -> None:
        (self.folder / GRAPH).mkdir(exist_ok=True)
        switch_on(self, options, graph=graph)

    monkeypatch.setattr(Recording, "switch_on", onto_a_folder)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="no tensors"):
        layers = profile(model.source(1), model.inputs_for(1, seed=1))
    assert not any(layer.inputs or layer.outputs for layer in layers)
    assert {"conv1", "conv2", "gemm"} <= {
        origin.replace("relu", "conv") for each in layers for origin in each.source_nodes
    }


def test_a_trace_that_ended_too_early_is_no_profile(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    run = {"cat": "Session", "name": "model_run", "ph": "X", "ts": 0, "dur": 5, "args": {}}
    trace.write_text(json.dumps([run]))
    with pytest.raises(RuntimeError, match="1 of 2 inferences: profile fewer"):
        layers_of(trace, 2)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_layer_of_a_gelu_is_led_back_whether_it_is_given_fused_or_dissolved(tmp_path: Path, dtype: str) -> None:
    """In f16 there is no kernel for it: the runtime widens it, and takes the operator's own definition to pieces."""
    weights = {"w": np.eye(8, dtype=dtype), **{n: np.array(v, dtype) for n, v in (("r", 2**0.5), ("1", 1), ("h", 0.5))}}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Div", ["a", "r"], ["b"], "div"),
        helper.make_node("Erf", ["b"], ["c"], "erf"),
        helper.make_node("Add", ["c", "1"], ["d"], "add"),
        helper.make_node("Mul", ["a", "d"], ["e"], "mul"),
        helper.make_node("Mul", ["e", "h"], ["f"], "fused"),
        helper.make_node("MatMul", ["f", "w"], ["g"], "second"),
        helper.make_node("Gelu", ["g"], ["y"], "given"),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, kind, [4, 8]) for name in "xy")
    stored = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(nodes, "gelu", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")
    layers = profile(spec.ModelSource(tmp_path / "m.onnx", spec.ModelFormat.ONNX), {"x": np.ones((4, 8), dtype)})
    computing = [layer for layer in layers if layer.type != "Cast"]
    assert {layer.source_nodes for layer in computing} == {("first",), ("fused",), ("second",), ("given",)}


def test_nodes_taken_out_of_branches_and_functions_are_led_back_to_the_node_whose_they_were(tmp_path: Path) -> None:
    """The conditions are constant and the functions the model's own, so that the runtime has neither If nor call."""
    inner = helper.make_node("If", ["yes"], ["deep"], "inner", **_both("Tanh", "Sigmoid", "x", "t"))
    product = helper.make_node("MatMul", ["deep", "w"], ["p"], "product")
    taken = helper.make_graph(
        [inner, product], "taken", [], [helper.make_tensor_value_info("p", TensorProto.FLOAT, None)]
    )
    choice = helper.make_node(
        "If", ["yes"], ["c"], "choice", then_branch=taken, else_branch=_both("Relu", "Relu", "x", "e")["then_branch"]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    steps = [helper.make_node("Exp", ["a"], ["b"]), helper.make_node("MatMul", ["b", "m"], ["out"])]
    function = helper.make_function("own", "Step", ["a", "m"], ["out"], steps, imports[:1])
    calls = [
        helper.make_node("Step", [given, "w"], [made], made, domain="own") for given, made in (("c", "d"), ("d", "y"))
    ]
    graph = helper.make_graph(
        [choice, *calls], "inlined",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])],
        [numpy_helper.from_array(np.array(True), "yes"), numpy_helper.from_array(np.eye(4, dtype="f"), "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    source = spec.ModelSource(tmp_path / "m.onnx", spec.ModelFormat.ONNX)
    layers = profile(source, {"x": np.ones((4, 4), "f")})
    assert [(layer.type, layer.source_nodes) for layer in layers] == [
        ("Tanh", ("choice",)),
        ("MatMul", ("choice",)),
        ("Exp", ("d",)),
        ("MatMul", ("d",)),
        ("Exp", ("y",)),
        ("MatMul", ("y",)),
    ], "nodes of functions have no names"


def _both(then: str, other: str, given: str, made: str) -> dict[str, onnx.GraphProto]:
    """The branches of an If, each of one node."""
    value = [helper.make_tensor_value_info(made, TensorProto.FLOAT, None)]
    return {
        f"{side}_branch": helper.make_graph([helper.make_node(operator, [given], [made])], side, [], value)
        for side, operator in (("then", then), ("else", other))
    }
