"""What OpenVINO's runtime model and counters tell of layers: precision, instruction set, sources, times."""

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.plugin import OpenVino
from enginebench_plugins.engines.openvino.profile import single_times_ns
from enginebench_plugins.engines.openvino.runtime_model import (
    OriginalNames,
    RuntimeLayer,
    executed_isa,
    executed_precision,
    source_nodes,
)
from enginebench_plugins.testing import compiled, contract_models
from enginebench_plugins.testing.contract_models import ContractModel


@pytest.fixture
def engine() -> OpenVino:
    return OpenVino()


@pytest.fixture
def model(tmp_path: Path) -> ContractModel:
    return contract_models.classifier(tmp_path)


def layer(kind: str, precision: str, kernel: str = "ref") -> RuntimeLayer:
    return RuntimeLayer("name", kind, kernel, precision, (), ())


def test_the_layers_that_take_the_time_decide_the_precision() -> None:
    assert executed_precision([layer("Convolution", "bf16"), layer("Softmax", "f32")]) == "bf16"
    assert executed_precision([layer("Convolution", "bf16"), layer("FullyConnected", "f32")]) == "mixed"
    assert executed_precision([layer("Eltwise", "f32"), layer("Reorder", "bf16")]) == "f32"
    assert executed_precision([layer("Convolution", "u8"), layer("Eltwise", "f32")]) == "int8"
    assert executed_precision([layer("Convolution", "u8"), layer("FullyConnected", "f32")]) == "int8 (1 of 2 products)"
    assert executed_precision([layer("Eltwise", "u8"), layer("Softmax", "f32")]) == "f32"
    assert executed_precision([layer("Gather", "i32")]) is None


def test_weights_stored_in_f16_that_are_widened_on_the_way_are_not_taken_for_the_precision() -> None:
    assert executed_precision([layer("FullyConnected", "f16", "brgemm_avx2_f32")]) == "f32"
    assert executed_precision([layer("FullyConnected", "f16", "brgemm_avx512_amx_f16")]) == "f16"
    assert executed_precision([layer("FullyConnected", "u8", "brgemm_avx2_f32")]) == "f32", "stored so, and no more"
    assert executed_precision([layer("Convolution", "u8", "brgconv_avx2_i8")]) == "int8"


def test_the_instruction_set_is_the_highest_that_a_kernel_names() -> None:
    kernels = [layer("Convolution", "f32", kernel) for kernel in ("jit_avx2_f32", "brgconv_avx512_f32")]
    assert executed_isa(kernels) == "avx512"
    assert executed_isa([layer("Convolution", "f32")]) is None


def profile(engine: OpenVino, model: ContractModel, device: str = "CPU") -> dict[str, spec.LayerProfile]:
    network = compiled(engine, model.source(2), device=device, profiling=True)
    layers = network.profile([model.inputs_for(2, seed=1)], 4).layers
    network.close()
    return {layer.name: layer for layer in layers}


@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_fused_node_is_a_source_of_the_layer_it_went_into(
    engine: OpenVino, model: ContractModel, device: str
) -> None:
    layers = profile(engine, model, device)
    assert layers["conv1"].source_nodes == ("conv1", "relu1")
    assert layers["conv1"].state is spec.LayerState.EXECUTED
    assert layers["conv1"].precision == "f32"
    assert layers["conv1"].output_shapes == ((2, contract_models.CHANNELS, 24, 24),)
    assert layers["relu1"].state is spec.LayerState.OPTIMIZED_AWAY
    assert layers["relu1"].source_nodes == ()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor carries one stream")
@pytest.mark.parametrize("device", ["CPU", "AUTO"])
def test_a_profile_of_several_streams_is_of_one_of_them(engine: OpenVino, model: ContractModel, device: str) -> None:
    settings = {"device": device, "cores": 2, "streams": 2, "profiling": True}
    network = compiled(engine, model.source(4), batch=4, **settings)
    seen: list[Any] = []
    compile_with = network._compile_with  # type: ignore[attr-defined]
    network._compile_with = lambda changed: seen.append(changed) or compile_with(changed)  # type: ignore[attr-defined]
    network.profile([model.inputs_for(4, seed=1)], 4)
    assert not seen, "what the first profile needs was compiled with the rest"
    layers = network.profile([model.inputs_for(4, seed=1)], 4).layers
    assert [(each.streams, each.cores) for each in seen] == [(1, 1)]
    assert any(layer.state is spec.LayerState.EXECUTED for layer in layers)


def test_layers_are_joined_by_their_tensors_and_weights_have_their_own_names(
    engine: OpenVino, model: ContractModel
) -> None:
    layers = profile(engine, model)
    assert layers["conv1"].outputs == ("conv1[0]",)
    assert "stem" in layers["conv1"].inputs
    assert {"conv1[0]", "body"} <= set(layers["conv2"].inputs)
    assert layers["conv1"].parameters["outputPrecisions"] == "f32"
    assert layers["conv1"].kernel


def test_what_the_reader_or_the_device_made_is_not_taken_for_a_node() -> None:
    known = OriginalNames({"conv": ("c",), "conv_1": ("d",), "relu": ("r",), "x": ("x",), "sum_2": ("s",)})
    stated = ("conv/WithoutBiases", "Multiply_17731", "conv", "relu")
    assert source_nodes(stated, known) == ("conv", "relu")
    assert source_nodes(("Reshape_15", "Reshape_15_flatten_reshape"), known) == ()
    assert source_nodes(("conv_1",), known) == ("d",), "the number may be OpenVINO's"
    assert source_nodes(("sum_2",), known) == ("sum_2",), "the number is the node's"


def test_nodes_without_a_name_or_with_a_shared_one_are_told_by_their_outputs(
    engine: OpenVino, model: ContractModel
) -> None:
    proto = onnx.load(str(model.path))
    for node, name in zip(proto.graph.node, ["", "", "same", "same", "", "", ""], strict=True):
        node.name = name
    onnx.save(proto, str(model.path))
    executed = [each for each in profile(engine, model).values() if each.state is spec.LayerState.EXECUTED]
    origins = [set(each.source_nodes) for each in executed]
    assert {"c1", "r1"} in origins
    assert {"same", "r2"} in origins


def test_nodes_with_commas_in_their_names_are_not_taken_for_several(engine: OpenVino, model: ContractModel) -> None:
    proto = onnx.load(str(model.path))
    for node, name in zip(proto.graph.node[:4], ["a,b", "relu", "b", "a"], strict=True):
        node.name = name
    onnx.save(proto, str(model.path))
    layers = profile(engine, model)
    assert layers["a,b"].source_nodes == ("a,b", "relu")
    assert set(layers["b"].source_nodes) == {"b", "a"}


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_recurrent_layers_are_led_back_to_their_node(
    engine: OpenVino, tmp_path: Path, operator: str, direction: str
) -> None:
    """What runs bears no name of the file: "LSTMSequence_52", and of two directions not even that one."""
    gates, both = {"LSTM": 4, "GRU": 3}[operator], 2 if direction == "bidirectional" else 1
    nodes, weights, value = [], [], "x"
    for number, size in ((1, 3), (2, 8)):
        shapes = {f"W{number}": (both, gates * 8, size), f"R{number}": (both, gates * 8, 8)}
        weights += [numpy_helper.from_array(np.full(shape, 0.1, "f"), name) for name, shape in shapes.items()]
        name = f"layer{number}"
        nodes += [
            helper.make_node(
                operator, [value, *shapes], [f"{name}.y"], name, hidden_size=8, direction=direction
            ),
            helper.make_node("ReduceSum", [f"{name}.y", "one"], [f"{name}.sum"], f"{name}.add", keepdims=0),
        ]  # fmt: skip
        value = f"{name}.sum"
    weights.append(numpy_helper.from_array(np.array([1], np.int64), "one"))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 2, size]) for name, size in (("x", 3), (value, 8))
    ]
    graph = helper.make_graph(nodes, "recurrent", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "r.onnx")
    source = spec.ModelSource(tmp_path / "r.onnx", spec.ModelFormat.ONNX)
    network = compiled(engine, source, profiling=True)
    layers = network.profile([{"x": np.ones((5, 2, 3), "f")}], 2).layers
    network.close()
    found = [set(layer.source_nodes) for layer in layers if layer.type == "RNNSeq"]
    assert len(found) == 2 * both
    for number in (1, 2):
        own = {f"layer{number}", f"layer{number}.y", f"layer{number}.add", f"layer{number}.sum"}
        assert sum(bool(sources) and sources <= own for sources in found) == both


def test_layers_of_openvinos_own_form_are_told_by_its_own_names(model: ContractModel, tmp_path: Path) -> None:
    openvino.save_model(openvino.Core().read_model(str(model.path)), str(tmp_path / "net.xml"), compress_to_fp16=False)
    source = spec.ModelSource(tmp_path / "net.xml", spec.ModelFormat.OPENVINO_IR, model.at(2))
    network = compiled(OpenVino(), source, profiling=True)
    layers = network.profile([model.inputs_for(2, seed=1)], 2).layers
    assert ("conv1", "relu1") in [layer.source_nodes for layer in layers]


def test_no_source_node_belongs_to_two_executed_layers(engine: OpenVino, model: ContractModel) -> None:
    executed = [each for each in profile(engine, model).values() if each.state is spec.LayerState.EXECUTED]
    sources = [source for each in executed for source in each.source_nodes]
    assert len(set(sources)) == len(sources)


def test_profiling_needs_a_network_compiled_for_it(engine: OpenVino, model: ContractModel) -> None:
    with pytest.raises(spec.UnsupportedSettingsError, match="compiled for profiling"):
        compiled(engine, model.source(1)).profile([model.inputs_for(1, seed=1)], 1)


def running_averages(times_ns: Sequence[int]) -> list[int]:
    """What the counters would read: total ÷ inferences, cut to whole microseconds."""
    return [total // number // 1000 for number, total in enumerate(accumulate(times_ns), start=1)]


def test_running_averages_of_a_steady_layer_give_its_time_below_the_microsecond() -> None:
    times_ns = single_times_ns(running_averages([5_300] * 50))
    assert times_ns is not None
    assert len(times_ns) == 50
    assert all(abs(time_ns - 5_300) < 350 for time_ns in times_ns[5:])


def test_running_averages_give_a_slow_first_inference_and_an_outlier_back() -> None:
    true_ns = [90_000, *[10_000] * 19, 400_000, *[10_000] * 20]
    times_ns = single_times_ns(running_averages(true_ns))
    assert times_ns is not None
    assert abs(times_ns[0] - 90_000) < 1_000
    assert abs(times_ns[20] - 400_000) < 45_000
    assert abs(sorted(times_ns)[len(times_ns) // 2] - 10_000) < 500
    assert abs(sum(times_ns) - sum(true_ns)) <= 1_000 * len(true_ns)


def test_running_averages_never_give_a_negative_time() -> None:
    random = np.random.default_rng(1)
    for scale_ns in (300, 3_000, 300_000):
        true_ns = [int(each) for each in random.exponential(scale_ns, size=60)]
        times_ns = single_times_ns(running_averages(true_ns))
        assert times_ns is not None
        assert min(times_ns) >= 0
        assert abs(sum(times_ns) - sum(true_ns)) <= 1_000 * len(true_ns)


def test_readings_that_are_no_running_averages_are_recognized() -> None:
    assert single_times_ns([500, 500, 100, 500]) is None
