"""ONNX Runtime under the engine contract, and what is particular to it."""

import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.compiled import compile_session, read_model
from enginebench_plugins.engines.onnxruntime.devices import PROVIDER, find_devices
from enginebench_plugins.engines.onnxruntime.plugin import OnnxRuntime
from enginebench_plugins.engines.onnxruntime.profile import Recording, layers_of
from enginebench_plugins.testing import EngineContract, compiled, contract_models
from enginebench_proto.agreed.onnx_wire import declared_inputs


class TestOnnxRuntime(EngineContract):
    plugin = "enginebench_plugins.engines.onnxruntime.plugin"

    @pytest.mark.parametrize("cores", [1, 2])
    def test_as_many_threads_work_as_there_are_cores(self, tmp_path: Path, cores: int) -> None:
        (sync,) = [use for use in self.core_use(tmp_path, cores) if use["load"] == spec.Load.SYNC]
        assert sync["threads"] == cores


class TestOnnxRuntimeWithEveryOption(EngineContract):
    plugin = "enginebench_plugins.engines.onnxruntime.plugin"
    options: ClassVar = {
        "graph_optimization_level": "extended",
        "intra_op_spinning": False,
        "denormals_as_zero": True,
        "cpu_mem_arena": False,
        "mem_pattern": False,
    }

    def test_these_are_all_options(self, engine: spec.Engine) -> None:
        assert {option.name for option in engine.info().options} == set(self.options)


@pytest.fixture
def engine() -> OnnxRuntime:
    return OnnxRuntime()


def save_graph(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
) -> spec.ModelSource:
    path = folder / "graph.onnx"
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    opset = [helper.make_opsetid("", contract_models.OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=contract_models.IR_VERSION), path)
    return spec.ModelSource(path, spec.ModelFormat.ONNX)


def test_a_run_on_the_processor_has_only_its_provider(engine: OnnxRuntime, tmp_path: Path) -> None:
    effective = compiled(engine, contract_models.classifier(tmp_path).source(1)).effective()
    assert effective.provider == spec.Readback("CPUExecutionProvider", spec.Source.ENGINE_API)


def test_threads_are_left_to_be_observed(engine: OnnxRuntime, tmp_path: Path) -> None:
    assert compiled(engine, contract_models.classifier(tmp_path).source(1), cores=2).effective().threads is None


def test_precision_is_assumed_from_the_models_own_types(engine: OnnxRuntime, tmp_path: Path) -> None:
    for element, word in ((TensorProto.FLOAT16, "f16"), (TensorProto.FLOAT, "f32"), (TensorProto.INT64, None)):
        node = helper.make_node("Identity", ["x"], ["y"])
        values = [helper.make_tensor_value_info(name, element, [2]) for name in "xy"]
        precision = compiled(engine, save_graph(tmp_path, [node], values[:1], values[1:])).effective().precision
        assert precision == (spec.Readback(word, spec.Source.ASSUMED) if word else None)


@pytest.mark.parametrize(
    ("stored", "dims", "word"),
    [
        (TensorProto.FLOAT, (2, 2), "f32"),
        (TensorProto.FLOAT16, (2, 2), "mixed"),
        (TensorProto.INT8, (2, 2), "mixed"),
        (TensorProto.UINT8, (2, 2), "mixed"),
        (TensorProto.FLOAT16, (2,), "f32"),
        (TensorProto.INT64, (2, 2), "f32"),
    ],
)
def test_weights_of_another_type_than_inputs_and_outputs_make_the_precision_mixed(
    engine: OnnxRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: int, dims: tuple[int, ...], word: str
) -> None:
    """As where a model was converted to f16 or INT8, and its inputs and outputs were left as they are."""
    weight = helper.make_tensor("w", stored, dims, [1] * math.prod(dims))
    nodes = [
        helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [2, 2]), ("y", None))
    )
    source = save_graph(tmp_path, nodes, [x], [y], [weight])
    monkeypatch.setitem(sys.modules, "onnx", None)  # an environment may do without
    precision = compiled(engine, source).effective().precision
    assert precision == spec.Readback(word, spec.Source.ASSUMED)


@pytest.mark.parametrize(("integers", "floats", "word"), [(2, 0, "int8"), (1, 1, "int8 (1 of 2 products)")])
def test_products_between_quantized_tensors_are_told_as_int8(
    engine: OnnxRuntime, tmp_path: Path, integers: int, floats: int, word: str
) -> None:
    """As a quantizer leaves them: QuantizeLinear and DequantizeLinear around the products of floats."""
    nodes, name = [], "x"
    for number in range(integers + floats):
        weight, made = "f", f"y{number}"
        if number < integers:
            quantized = [f"q{number}", "scale", "zero"]
            nodes += [
                helper.make_node("QuantizeLinear", [name, "scale", "zero"], [f"q{number}"]),
                helper.make_node("DequantizeLinear", quantized, [f"d{number}"]),
                helper.make_node("DequantizeLinear", [f"w{number}", "scale", "zero"], [f"v{number}"]),
            ]
            name, weight = f"d{number}", f"v{number}"
        nodes.append(helper.make_node("MatMul", [name, weight], [made]))
        name = made
    held = [helper.make_tensor(f"w{number}", TensorProto.UINT8, [2, 2], [1, 2, 3, 4]) for number in range(integers)]
    held += [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("zero", TensorProto.UINT8, [], [0]),
        helper.make_tensor("f", TensorProto.FLOAT, [2, 2], [1, 2, 3, 4]),
    ]
    x, y = (helper.make_tensor_value_info(end, TensorProto.FLOAT, [2, 2]) for end in ("x", name))
    precision = compiled(engine, save_graph(tmp_path, nodes, [x], [y], held)).effective().precision
    assert precision == spec.Readback(word, spec.Source.ASSUMED)


def test_scales_in_f32_leave_an_f16_model_what_it_is(engine: OnnxRuntime, tmp_path: Path) -> None:
    weights = [
        helper.make_tensor("w", TensorProto.FLOAT16, [2, 2], [1] * 4),
        helper.make_tensor("scales", TensorProto.FLOAT, [2], [2, 2]),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Resize", ["z", "", "scales"], ["y"], mode="nearest"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, [size, size]) for name, size in (("x", 2), ("y", 4))
    )
    precision = compiled(engine, save_graph(tmp_path, nodes, [x], [y], weights)).effective().precision
    assert precision == spec.Readback("f16", spec.Source.ASSUMED)


def test_a_provider_that_does_not_start_is_an_error_and_no_run_on_the_processor(tmp_path: Path) -> None:
    assert "CUDAExecutionProvider" not in onnxruntime.get_available_providers()
    source = contract_models.classifier(tmp_path).source(1)
    device = spec.Device("CUDA:0", "a device", properties={PROVIDER: "CUDAExecutionProvider"})
    with (
        pytest.warns(UserWarning, match="not in available"),
        pytest.raises(RuntimeError, match="CUDAExecutionProvider did not start"),
    ):
        compile_session(onnxruntime, read_model(onnxruntime, source), source, spec.Settings(), device)


def test_devices_are_the_providers_but_never_somebody_elses_computer() -> None:
    providers = ["CUDAExecutionProvider", "AzureExecutionProvider", "DnnlExecutionProvider", "CPUExecutionProvider"]
    devices = find_devices(SimpleNamespace(get_available_providers=lambda: providers))
    assert {device.name: device.resources for device in devices} == {
        "CUDA:0": ("cuda:0",),
        "DNNL": ("cpu",),
        "CPU": ("cpu",),
    }


def test_symbolic_dimensions_are_fixed_to_the_shapes_of_the_run(engine: OnnxRuntime, tmp_path: Path) -> None:
    model = contract_models.classifier(tmp_path)
    request = compiled(engine, model.source(4), batch=4).create_request()
    with pytest.raises(Exception, match="Got: 2 Expected: 4"):
        request.infer(model.inputs_for(2, seed=1))


def test_inputs_are_read_from_the_file_as_a_session_tells_them(tmp_path: Path) -> None:
    shapes = {"fixed": [1, 3, 0], "named": ["batch", 3, "größe"], "open": [None, 2], "scalar": [], "unknown": None}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in shapes]
    outputs = [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None) for name in shapes]
    path = tmp_path / "inputs.onnx"
    graph = helper.make_graph(nodes, "inputs", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    told = {one.name: tuple(one.shape) for one in session.get_inputs()}
    assert declared_inputs(path) == told | {"fixed": (1, 3, 0)}


def test_a_symbol_that_needs_two_sizes_stays_open(engine: OnnxRuntime, tmp_path: Path) -> None:
    model = contract_models.embedding(tmp_path)
    tokens, weights = model.at(4)
    source = replace(model.source(4), inputs=(replace(tokens, shape=(1, contract_models.TOKENS)), weights))
    inputs = model.inputs_for(4, seed=1)
    inputs["tokens"] = inputs["tokens"][:1]
    outputs = compiled(engine, source).create_request().infer(inputs)
    np.testing.assert_allclose(outputs["scores"], model.reference(inputs)["scores"], rtol=1e-4, atol=1e-5)


def test_an_open_dimension_without_a_size_is_refused(engine: OnnxRuntime, tmp_path: Path) -> None:
    source = replace(contract_models.classifier(tmp_path).source(1), inputs=())
    with pytest.raises(spec.UnsupportedSettingsError, match="image has open dimensions"):
        compiled(engine, source)


def test_an_input_the_model_does_not_have_is_refused(engine: OnnxRuntime, tmp_path: Path) -> None:
    source = contract_models.classifier(tmp_path).source(1)
    stray = spec.TensorSpec("stray", "float32", (1,))
    with pytest.raises(spec.UnsupportedSettingsError, match="no input named stray"):
        compiled(engine, replace(source, inputs=(*source.inputs, stray)))


def test_the_optimization_level_reaches_the_session(engine: OnnxRuntime, tmp_path: Path) -> None:
    layers = profile(engine, tmp_path, options={"graph_optimization_level": "disabled"})
    names = ["conv1", "relu1", "conv2", "relu2", "pool", "flatten", "gemm"]
    assert [layer.name for layer in layers] == names
    assert [layer.source_nodes for layer in layers] == [(name,) for name in names]
    assert layers[0].type == "Conv"
    assert layers[0].kernel == "CPUExecutionProvider"
    assert layers[0].output_shapes == ((2, contract_models.CHANNELS, 24, 24),)


def profile(engine: OnnxRuntime, folder: Path, **settings: Any) -> Sequence[spec.LayerProfile]:
    """Three iterations over the classifier after two that warm it up."""
    model = contract_models.classifier(folder)
    with_counters = compiled(engine, model.source(2), profiling=True, **settings)
    inputs = model.inputs_for(2, seed=1)
    for _ in range(2):
        with_counters.create_request().infer(inputs)
    layers = with_counters.profile([inputs], 3).layers
    with_counters.close()
    return layers


def test_a_profile_leaves_warm_up_out(engine: OnnxRuntime, tmp_path: Path) -> None:
    assert all(len(layer.time_ns) == 3 and layer.calls == 1 for layer in profile(engine, tmp_path))


@pytest.mark.parametrize("profiled", [True, False])
def test_no_trace_stays_behind(
    engine: OnnxRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profiled: bool
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    before = set(Path.cwd().iterdir())
    model = contract_models.classifier(tmp_path)
    with_counters = compiled(engine, model.source(1), profiling=True)
    assert len(list(private.iterdir())) == 1
    if profiled:
        with_counters.profile([model.inputs_for(1, seed=1)], 2)
    with_counters.close()
    assert not list(private.iterdir())
    assert set(Path.cwd().iterdir()) == before


def test_a_session_profiles_once_and_only_when_compiled_for_it(engine: OnnxRuntime, tmp_path: Path) -> None:
    model = contract_models.classifier(tmp_path)
    inputs = [model.inputs_for(1, seed=1)]
    with pytest.raises(spec.UnsupportedSettingsError, match="compiled for profiling"):
        compiled(engine, model.source(1)).profile(inputs, 1)
    with_counters = compiled(engine, model.source(1), profiling=True)
    with_counters.profile(inputs, 1)
    with pytest.raises(RuntimeError, match="compile again"):
        with_counters.profile(inputs, 1)


def test_nodes_within_a_branch_are_not_counted_twice(engine: OnnxRuntime, tmp_path: Path) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        result = helper.make_tensor_value_info("result", TensorProto.FLOAT, [64, 64])
        return helper.make_graph([helper.make_node(operator, ["x"], ["result"], "inner")], operator, [], [result])

    node = helper.make_node("If", ["condition"], ["y"], "choice", then_branch=branch("Exp"), else_branch=branch("Neg"))
    condition = helper.make_tensor_value_info("condition", TensorProto.BOOL, [])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64]) for name in "xy")
    with_counters = compiled(engine, save_graph(tmp_path, [node], [condition, x], [y]), profiling=True)
    inputs = {"condition": np.array(True), "x": np.ones((64, 64), np.float32)}
    layers = with_counters.profile([inputs], 3).layers
    assert [(layer.name, layer.type) for layer in layers] == [("choice", "If")]


def event(name: str, begin_us: int, duration_us: int, node_index: int = 0) -> dict[str, Any]:
    """An event as the runtime writes it into its trace."""
    arguments = {
        "op_name": "Exp",
        "node_index": str(node_index),
        "provider": "CPUExecutionProvider",
        "output_type_shape": [{"float": [4]}],
    }
    return {"ph": "X", "name": name, "ts": begin_us, "dur": duration_us, "args": arguments}


def test_nodes_that_share_a_name_or_have_none_get_one_each(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    nodes = [("twin_kernel_time", 0), ("twin_kernel_time", 1), ("_kernel_time", 2), ("_kernel_time", 3)]
    calls = [event(name, 10 * index, 5, index) for name, index in nodes]
    trace.write_text(json.dumps([event("model_run", 0, 99), *calls]))
    layers = layers_of(trace, 1)
    assert [layer.name for layer in layers] == ["twin#0", "twin#1", "Exp#2", "Exp#3"]
    assert [layer.source_nodes for layer in layers] == [("twin",), ("twin",), (), ()]


def test_calls_of_one_node_add_up_within_an_inference(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    runs = [event("model_run", begin_us, 90) for begin_us in (0, 100, 200)]
    calls = [event("exp_kernel_time", begin_us, 7) for begin_us in (0, 100, 110, 200, 220)]
    trace.write_text(json.dumps([*calls, *runs]))
    (layer,) = layers_of(trace, 2)
    assert layer.time_ns == (14_000, 14_000)
    assert layer.calls == 2


@pytest.mark.parametrize(
    ("operator", "read", "made", "precision"),
    [
        ("MatMulInteger", ["int8", "uint8"], "int32", "int8"),
        ("MatMulIntegerToFloat", ["uint8", "float", "uint8"], "float", "uint8"),
        ("QAttention", ["uint8", "float", "float"], "float", "uint8"),
        ("DynamicQuantizeMatMul", ["float", "float"], "float", "int8"),  # the weight, packed, is not in the trace
        ("Gemm", ["int8", "int8"], "int32", "int8"),
        ("MatMul", ["float", "float"], "float", "float"),
        ("MatMulNBits", ["float", "uint8", "float"], "float", "float"),
        ("DequantizeLinear", ["uint8", "float", "uint8"], "float", "float"),
        ("QuantizeLinear", ["float", "float", "uint8"], "uint8", "uint8"),
    ],
)
def test_the_precision_of_a_product_of_integers_is_that_of_its_operands(
    operator: str, read: list[str], made: str, precision: str, tmp_path: Path
) -> None:
    call = event("node_kernel_time", 10, 5)
    types = {"input_type_shape": [{name: [4, 4]} for name in read], "output_type_shape": [{made: [4, 4]}]}
    call["args"] |= {"op_name": operator, **types}
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps([event("model_run", 0, 99), call]))
    assert [layer.precision for layer in layers_of(trace, 1)] == [precision]


def test_a_product_quantized_while_it_runs_is_told_as_int8(engine: OnnxRuntime, tmp_path: Path) -> None:
    """DynamicQuantizeLinear and MatMulInteger, of which the runtime makes one node from floats to floats."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantize"),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"], "product"),
        helper.make_node("Cast", ["i"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["scale"], "scale"),
        helper.make_node("Mul", ["f", "scale"], ["y"], "rescale"),
    ]
    held = [
        helper.make_tensor("w", TensorProto.INT8, [2, 2], [1, 2, 3, 4]),
        helper.make_tensor("wz", TensorProto.INT8, [], [0]),
        helper.make_tensor("ws", TensorProto.FLOAT, [], [0.1]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy")
    with_counters = compiled(engine, save_graph(tmp_path, nodes, [x], [y], held), profiling=True)
    layers = with_counters.profile([{"x": np.ones((2, 2), np.float32)}], 2).layers
    assert [(layer.type, layer.precision) for layer in layers] == [("DynamicQuantizeMatMul", "int8")]


def test_a_trace_that_was_full_before_the_profile_is_an_error(
    engine: OnnxRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds as many runs as are asked for, of the warm-up; a million events would take seconds to make."""
    model = contract_models.classifier(tmp_path)
    inputs = model.inputs_for(1, seed=1)
    with_counters = compiled(engine, model.source(1), profiling=True)
    request = with_counters.create_request()
    for _ in range(5):
        request.infer(inputs)
    layers = Recording.layers

    def cut(self: Recording, trace: Path, iterations: int) -> list[spec.LayerProfile]:
        lines = trace.read_text().splitlines()
        last = [place for place, line in enumerate(lines) if '"model_run"' in line][5]
        trace.write_text("\n".join([*lines[:last], lines[last].rstrip(","), "]"]))
        return layers(self, trace, iterations)

    monkeypatch.setattr(Recording, "layers", cut)
    with pytest.raises(RuntimeError, match="6 of 8 inferences: profile fewer, warm up for less"):
        with_counters.profile([inputs], 3)
    with_counters.close()


def test_a_trace_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps([event("model_run", 0, 5)]))
    with pytest.raises(RuntimeError, match="1 of 2 inferences"):
        layers_of(trace, 2)


def test_without_the_package_the_reason_names_the_remedy(engine: OnnxRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(spec.EngineUnavailableError, match=r"pip install .*\[onnxruntime\]") as caught:
        engine.info()
    assert not caught.value.installed


def test_outputs_of_float8_which_would_be_bare_bits_are_refused(engine: OnnxRuntime, tmp_path: Path) -> None:
    kind = TensorProto.FLOAT8E4M3FN
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    ends = [helper.make_tensor_value_info(name, of, [2]) for name, of in (("x", TensorProto.FLOAT), ("y", kind))]
    model = helper.make_model(
        helper.make_graph([node], "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(spec.UnsupportedSettingsError, match="output y has the element type float8e4m3fn"):
        compiled(engine, spec.ModelSource(tmp_path / "m.onnx", spec.ModelFormat.ONNX))
