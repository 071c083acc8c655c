"""The noise of a model: what rounding alone makes of its outputs, and no more than that."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.rounding_noise import NoiseOrder, find_noise, moved_model, rounding_noise
from enginebench_controller.records import InputTensor

WIDTH = 64


def saved(path, nodes, weights=(), outputs=(("y", TensorProto.FLOAT),), opset=18, shape=(4, WIDTH)):
    """A model of one input, x, and what it takes."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path, (InputTensor("x", "float32", shape),)


def relative(model):
    """The noise of the model's first output, and the largest value of that."""
    path, inputs = model
    (noise, *_) = find_noise(NoiseOrder(str(path), inputs))
    session = onnxruntime.InferenceSession(str(path))
    x = np.random.default_rng(1).standard_normal(inputs[0].shape).astype(np.float32)
    return noise.absolute / np.abs(session.run(None, {"x": x})[0]).max()


def product(generator=np.random.default_rng(0)):  # noqa: B008
    return (generator.standard_normal((WIDTH, 16)) / 8).astype(np.float32)


def test_an_ordinary_product_has_next_to_none(tmp_path):
    model = saved(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [("w", product())])

    assert 1e-8 < relative(model) < 1e-5


def test_what_is_left_of_one_less_a_sigmoid_near_one_is_mostly_noise(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Add", ["z", "thirteen"], ["far"]),
        helper.make_node("Sigmoid", ["far"], ["near"]),
        helper.make_node("Sub", ["one", "near"], ["y"]),
    ]
    weights = [("w", product() / 8), ("thirteen", np.float32(13)), ("one", np.float32(1))]

    assert 0.02 < relative(saved(tmp_path / "m.onnx", nodes, weights)) < 1


def quantized(tmp_path, operator="QuantizeLinear"):
    if operator == "QuantizeLinear":
        steps = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])]
        steps += [helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"])]
    else:
        steps = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])]
        steps += [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"])]
    weights = [("w", product()), ("scale", np.float32(8 / 255)), ("zero", np.uint8(128))]
    return saved(tmp_path / f"{operator}.onnx", [*steps, helper.make_node("MatMul", ["d", "w"], ["y"])], weights)


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DynamicQuantizeLinear"])
def test_steps_of_a_quantized_model_are_its_noise(tmp_path, operator):
    assert 1e-3 < relative(quantized(tmp_path, operator)) < 0.1


def test_what_multiplies_weights_of_eight_bits_may_be_quantized_itself(tmp_path):
    eight_bits = np.clip(product() * 100, -127, 127).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w8", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    model = saved(tmp_path / "m.onnx", nodes, [("w8", eight_bits), ("scale", np.float32(0.01))])

    assert 1e-3 < relative(model) < 0.1


def test_work_within_a_branch_is_moved_too(tmp_path):
    def branch(name):
        inner = helper.make_node("Sigmoid", ["x"], [f"{name}_s"])
        last = helper.make_node("Sub", ["one", f"{name}_s"], [f"{name}_y"])
        info = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        return helper.make_graph([inner, last], name, [], [info])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "one"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=branch("t"), else_branch=branch("e")),
    ]
    path, inputs = saved(tmp_path / "m.onnx", nodes, [("one", np.float32(1))])

    moved = moved_model(onnx.load(path), {"x": inputs[0].shape})

    (choice,) = (node for node in moved.graph.node if node.op_type == "If")
    inner = [node.op_type for one in choice.attribute for node in one.g.node]
    assert inner.count("RandomUniformLike") == 4
    assert relative((path, inputs)) > 0


def test_a_shape_that_rounding_decides_has_no_noise_but_none(tmp_path):
    nodes = [
        helper.make_node("Sub", ["x", "x"], ["zero"]),
        helper.make_node("Softmax", ["zero"], ["even"]),
        helper.make_node("Greater", ["even", "share"], ["above"]),
        helper.make_node("NonZero", ["above"], ["y"]),
    ]
    path, inputs = saved(
        tmp_path / "m.onnx", nodes, [("share", np.float32(1 / WIDTH))], outputs=(("y", TensorProto.INT64),)
    )

    (noise,) = find_noise(NoiseOrder(str(path), inputs))

    assert (noise.absolute, noise.elements) == (None, None)


def test_of_indices_it_is_told_how_many_of_them_change(tmp_path):
    """The first half of the columns is always in order; in the other half two each are as good as equal."""
    apart = np.repeat(np.arange(WIDTH // 2, 0, -1), 2).astype(np.float32) * 100
    apart[: WIDTH // 2] = np.arange(WIDTH, WIDTH // 2, -1) * 10_000
    nodes = [
        helper.make_node("Mul", ["x", "tiny"], ["near"]),
        helper.make_node("Add", ["near", "apart"], ["moved"]),
        helper.make_node("Softplus", ["moved"], ["scores"]),
        helper.make_node("TopK", ["scores", "all"], ["sorted", "y"], axis=-1),
    ]
    constants = [("tiny", np.float32(1e-6)), ("apart", apart), ("all", np.array([WIDTH], np.int64))]
    path, inputs = saved(tmp_path / "m.onnx", nodes, constants, outputs=(("y", TensorProto.INT64),))

    (noise,) = find_noise(NoiseOrder(str(path), inputs))

    assert noise.absolute and 0 < noise.elements <= 0.5


def test_sizes_are_not_moved(tmp_path):
    """A size computed in floats from a shape would come out as another one."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "one"], ["same"]),
        helper.make_node("Floor", ["same"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["size"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["x", "size"], ["y"]),
    ]
    path, inputs = saved(tmp_path / "m.onnx", nodes, [("one", np.float32(1))])

    assert [one.absolute for one in find_noise(NoiseOrder(str(path), inputs))] == [0.0]


@pytest.mark.slow
def test_it_is_found_in_a_process_of_its_own(tmp_path):
    path, inputs = quantized(tmp_path)

    (noise,) = rounding_noise(NoiseOrder(str(path), inputs))

    assert noise.name == "y"
    assert noise.absolute == pytest.approx(find_noise(NoiseOrder(str(path), inputs))[0].absolute, rel=0.9)


@pytest.mark.slow
def test_what_cannot_be_run_or_takes_too_long_has_a_reason(tmp_path):
    path, inputs = quantized(tmp_path)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")

    with pytest.raises(ModelError, match="it was not found within 0 s"):
        rounding_noise(NoiseOrder(str(path), inputs), time_limit_s=0.01)
    with pytest.raises(ModelError):
        rounding_noise(NoiseOrder(str(broken), inputs))
    with pytest.raises(ModelError):
        rounding_noise(NoiseOrder(str(path), (replace(inputs[0], name="other"),)))
