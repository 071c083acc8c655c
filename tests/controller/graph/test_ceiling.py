"""What so many cores can do at most, and what an inference takes at least."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebench_controller.graph.ceiling import ceiling, fewest_flops
from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.roofline import Roofs
from enginebench_controller.records import CeilingBasis

F32 = Roofs("f32", 100e9, ())


def least(tmp_path, node, weight, shape):
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", values, made, [numpy_helper.from_array(weight, "w")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    source = read_source_graph(path, {}, None)
    return fewest_flops(source, node_costs(source))


def test_a_product_takes_two_operations_for_each_multiply_add(tmp_path):
    weight = np.ones((8, 16), np.float32)

    assert least(tmp_path, helper.make_node("MatMul", ["x", "w"], ["y"]), weight, [4, 8]) == 2 * 4 * 8 * 16


def test_zeros_in_weights_may_be_skipped(tmp_path):
    weight = np.ones((8, 16), np.float32)
    weight[:, 4:] = 0

    assert least(tmp_path, helper.make_node("MatMul", ["x", "w"], ["y"]), weight, [4, 8]) == 2 * 4 * 8 * 4


@pytest.mark.parametrize(
    ("kernel", "strides", "spared"),
    [((3, 3), [1, 1], 5.0625), ((3, 3), [2, 2], 1), ((1, 1), [1, 1], 1), ((3, 3), [1, 2], 2.25), ((5, 5), [1, 1], 9)],
)
def test_fast_convolutions_may_spare_what_tiles_of_six_spare(tmp_path, kernel, strides, spared):
    weight = np.ones((2, 3, *kernel), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=strides, pads=[one // 2 for one in kernel] * 2)
    height, width = (12 // one for one in strides)

    products = height * width * 2 * 3 * kernel[0] * kernel[1]

    assert least(tmp_path, node, weight, [1, 3, 12, 12]) == pytest.approx(2 * products / spared)


def test_the_estimate_is_that_of_cores_and_extensions():
    found = ceiling(1e6, "f32", 2, ["avx2", "avx512f"], None)

    assert (found.basis, found.flops_per_s) == (CeilingBasis.ESTIMATED, 2 * 32 * 2 * 6.2e9)
    assert ceiling(1e6, "int8", 2, ["avx512f"], None).flops_per_s == 4 * found.flops_per_s
    assert ceiling(1e6, "f32", 1, ["avx2"], None).flops_per_s == found.flops_per_s / 4
    assert ceiling(1e6, "bf16", 1, ["avx512f", "amx_tile"], None).flops_per_s == 2 * 1024 * 6.2e9


def test_what_the_engine_was_calibrated_to_is_nearer():
    found = ceiling(1e6, "f32", 2, ["avx512f"], F32)

    assert (found.basis, found.flops_per_s) == (CeilingBasis.CALIBRATED, 1.25 * 100e9)
    assert found.items_per_s(batch=4) == 4 * 1.25 * 100e9 / 1e6


@pytest.mark.parametrize("bad", [{"disturbed": True}, {"unsteady": True}])
def test_a_calibration_of_a_busy_machine_is_no_ground(bad):
    assert ceiling(1e6, "f32", 2, ["avx512f"], Roofs("f32", 100e9, (), **bad)).basis is CeilingBasis.ESTIMATED


def test_an_unknown_precision_gets_the_fastest_and_no_work_no_ceiling():
    assert ceiling(1e6, "mixed", 2, [], None).precision == "int8"
    assert ceiling(0, "f32", 2, [], None) is None
