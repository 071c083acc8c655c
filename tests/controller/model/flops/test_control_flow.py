"""Control flow and functions cost what their bodies cost, as often as they are certain to run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from counted import read
from onnx import TensorProto, helper, numpy_helper
from tiny_models import make_model

from enginebench_controller.model.flops import Method, model_cost, node_costs

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
WEIGHT = np.ones((4, 4), "f")


def value(name: str, kind: int, shape: list[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "branch", [], [value(nodes[-1].output[0], FLOAT, [2, 4])])


def test_the_branch_of_a_constant_condition_is_counted(tmp_path: Path) -> None:
    product, copy = helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Identity", ["x"], ["b"])
    choice = helper.make_node("If", ["yes"], ["y"], then_branch=branch(product), else_branch=branch(copy))
    model = make_model([choice], [("x", [2, 4])], [("y", [2, 4])], {"w": WEIGHT, "yes": np.array(True)})
    graph = read(model, tmp_path)
    (cost,) = node_costs(graph)
    assert (cost.macs, cost.flops, cost.parameters) == (32, 64, 16)
    assert cost.weight_bytes == 64 + 1, "the body reads a weight from around it, and the node its condition"


def test_branches_that_differ_are_unknown_and_equal_ones_are_not(tmp_path: Path) -> None:
    relu, tanh = helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["x"], ["b"])
    copy = helper.make_node("Identity", ["x"], ["c"])
    nodes = [
        helper.make_node("If", ["flag"], ["y"], "equal", then_branch=branch(relu), else_branch=branch(tanh)),
        helper.make_node("If", ["flag"], ["z"], "unequal", then_branch=branch(relu), else_branch=branch(copy)),
    ]
    model = make_model(nodes, [("x", [2, 4]), ("flag", [], BOOL)], [("y", [2, 4]), ("z", [2, 4])])
    graph = read(model, tmp_path)
    costs = node_costs(graph)
    assert [cost.flops for cost in costs] == [8, None]
    total = model_cost(graph, costs)
    assert (total.flops, total.coverage_percent, total.unknown_operators) == (8, 50.0, {"If": 1})
    assert total.intensity is None


def loop(trips: int | None, *, stops: bool = False) -> onnx.ModelProto:
    """x ← x·w, `trips` times; with `stops` the body decides when to end."""
    condition = helper.make_node("Identity", ["go"], ["goes"])
    if stops:
        condition = helper.make_node("Less", ["i", "limit"], ["goes"])
    product = helper.make_node("MatMul", ["state", "w"], ["next"])
    body = helper.make_graph(
        [condition, product],
        "body",
        [value("i", INT64, []), value("go", BOOL, []), value("state", FLOAT, [2, 4])],
        [value("goes", BOOL, []), value("next", FLOAT, [2, 4])],
    )
    weights = {"w": WEIGHT, "limit": np.array(2, np.int64)}
    inputs = [("x", [2, 4])]
    if trips is None:
        inputs.append(("n", [], INT64))
    else:
        weights["n"] = np.array(trips, np.int64)
    return make_model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], inputs, [("y", [2, 4])], weights)


def test_a_loop_with_a_constant_trip_count(tmp_path: Path) -> None:
    (cost,) = node_costs(read(loop(5), tmp_path))
    assert (cost.macs, cost.flops, cost.parameters, cost.weight_bytes) == (5 * 32, 5 * 64, 16, 64 + 8)
    assert cost.method is Method.COUNTED


@pytest.mark.parametrize("model", [loop(None), loop(5, stops=True)], ids=["count", "condition"])
def test_a_loop_that_the_data_ends_is_unknown(tmp_path: Path, model: onnx.ModelProto) -> None:
    (cost,) = node_costs(read(model, tmp_path))
    assert (cost.macs, cost.flops, cost.method) == (None, None, Method.UNKNOWN)


def test_a_scan_runs_once_for_each_slice(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["state", "one"], ["sum"]), helper.make_node("Relu", ["sum"], ["out"])]
    body = helper.make_graph(
        nodes,
        "body",
        [value("state", FLOAT, [3]), value("one", FLOAT, [3])],
        [value("sum", FLOAT, [3]), value("out", FLOAT, [3])],
    )
    scan = helper.make_node("Scan", ["s", "x"], ["last", "y"], num_scan_inputs=1, body=body)
    (cost,) = node_costs(read(make_model([scan], [("s", [3]), ("x", [7, 3])], [("y", [7, 3])]), tmp_path))
    assert cost.flops == 7 * (3 + 3)


def test_a_function_of_the_model_costs_what_its_nodes_cost(tmp_path: Path) -> None:
    inner = helper.make_function(
        "own", "Inner", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    outer = helper.make_function(
        "own",
        "Outer",
        ["a", "m"],
        ["c"],
        [helper.make_node("MatMul", ["a", "m"], ["p"]), helper.make_node("Inner", ["p"], ["c"], domain="own")],
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )
    nodes = [
        helper.make_node("Outer", ["x", "w"], ["y"], "call", domain="own"),
        helper.make_node("Relu", ["y"], ["z"], "after"),
    ]
    model = make_model(nodes, [("x", ["n", 4])], [("z", ["n", 4])], {"w": WEIGHT}, opset=17)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend([inner, outer])
    costs = node_costs(read(model, tmp_path, batch=3))
    assert [(cost.macs, cost.flops, cost.parameters) for cost in costs] == [(48, 96 + 12, 16), (0, 12, 0)]


def test_a_loop_whose_count_has_to_be_worked_out(tmp_path: Path) -> None:
    """The trip count is a size of the input, halved: Shape → Gather → Div, as exporters write it."""
    model = loop(None)
    del model.graph.input[1]
    model.graph.initializer.extend(
        [numpy_helper.from_array(np.array(0, np.int64), "zero"), numpy_helper.from_array(np.array(2, np.int64), "two")]
    )
    sizes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["rows"]),
        helper.make_node("Mul", ["rows", "two"], ["double"]),
        helper.make_node("Div", ["double", "rows"], ["n"]),
    ]
    nodes = [*sizes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert node_costs(read(model, tmp_path))[-1].macs == 2 * 32
