"""Control flow and functions cost what their bodies cost, as often as they are certain to run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from counted import read
from onnx import TensorProto, helper, numpy_helper
from tiny_models import make_model

from enginebench_controller.graph.flops.counting import model_cost, node_costs
from enginebench_controller.records.profile import CountMethod

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


def test_sizes_that_come_out_of_a_branch_are_known(tmp_path: Path) -> None:
    """As where an exporter pads a list of repeats to the rank of what is repeated."""
    three = branch(helper.make_node("Identity", ["three"], ["a"]))
    longer = branch(helper.make_node("Concat", ["one", "three"], ["b"], axis=0))
    for body in (three, longer):
        body.output[0].CopyFrom(value(body.output[0].name, INT64, None))
    nodes = [
        helper.make_node("Size", ["three"], ["rank"]),
        helper.make_node("Less", ["rank", "three_axes"], ["short"]),
        helper.make_node("If", ["short"], ["repeats"], then_branch=longer, else_branch=three),
        helper.make_node("Cast", ["repeats"], ["whole"], to=INT64),
        helper.make_node("Tile", ["x", "whole"], ["tiled"]),
        helper.make_node("MatMul", ["tiled", "w"], ["y"]),
    ]
    repeats, one = np.array([1, 3, 1], np.int64), np.array([1], np.int64)
    weights = {"w": WEIGHT, "three": repeats, "one": one, "three_axes": np.array(3, np.int64)}
    graph = read(make_model(nodes, [("x", [1, 2, 4])], [("y", None)], weights), tmp_path)
    assert graph.shape("y") == (1, 6, 4)
    assert node_costs(graph)[-1].macs == 6 * 4 * 4


def test_of_branches_that_differ_the_larger_one_counts_and_is_marked(tmp_path: Path) -> None:
    relu, tanh = helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["x"], ["b"])
    copy = helper.make_node("Identity", ["x"], ["c"])
    nodes = [
        helper.make_node("If", ["flag"], ["y"], "equal", then_branch=branch(relu), else_branch=branch(tanh)),
        helper.make_node("If", ["flag"], ["z"], "unequal", then_branch=branch(copy), else_branch=branch(relu)),
    ]
    model = make_model(nodes, [("x", [2, 4]), ("flag", [], BOOL)], [("y", [2, 4]), ("z", [2, 4])])
    graph = read(model, tmp_path)
    costs = node_costs(graph)
    assert [(cost.flops, cost.method) for cost in costs] == [(8, CountMethod.COUNTED), (8, CountMethod.AT_MOST)]
    total = model_cost(graph, costs)
    assert (total.macs, total.flops, total.at_most, total.unknown_operators) == (0, 16, True, {})


def test_a_branch_that_cannot_run_in_these_shapes_takes_nothing(tmp_path: Path) -> None:
    """An LSTM that is given two axes, as in a voice model's branch for the other sample rate."""
    lstm = helper.make_node("LSTM", ["x", "W", "R"], ["a"], hidden_size=2)
    relu = helper.make_node("Relu", ["x"], ["b"])
    choice = helper.make_node("If", ["flag"], ["y"], then_branch=branch(lstm), else_branch=branch(relu))
    weights = {"W": np.ones((1, 8, 4), "f"), "R": np.ones((1, 8, 2), "f")}
    graph = read(make_model([choice], [("x", [2, 4]), ("flag", [], BOOL)], [("y", None)], weights), tmp_path)
    (cost,) = node_costs(graph)
    assert (cost.macs, cost.flops, cost.method) == (0, 8, CountMethod.AT_MOST)


def test_a_model_whose_work_is_in_branches_and_loops_equals_the_hand_count(tmp_path: Path) -> None:
    """If, Loop and Scan within each other, with a symbol, a weight and sizes of the graph around them.

    Loop, 3 times: a Scan over n = 5 rows of (4) · (4, 4), that is 5 · 16 multiply-adds; then an If: either a product
    (5, 4) · (4, 4) with 80 and 20 additions, or a Relu of 20. A Reshape in the body takes its sizes from outside.
    Then an Equal, and the branch of that condition, worked out of a shape, with 20 operations.
    """
    row = helper.make_graph(
        [helper.make_node("MatMul", ["row", "w"], ["out"])], "row", [value("row", FLOAT, None)],
        [value("out", FLOAT, None)],
    )  # fmt: skip
    work = [helper.make_node("MatMul", ["scanned", "w"], ["p"]), helper.make_node("Add", ["p", "scanned"], ["q"])]
    rest = helper.make_node("Relu", ["scanned"], ["e"])
    state = value("state", FLOAT, ["n", 4])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes"]),
            helper.make_node("Scan", ["state"], ["rows"], "scan", num_scan_inputs=1, body=row),
            helper.make_node("Reshape", ["rows", "target"], ["scanned"]),
            helper.make_node(
                "If", ["flag"], ["next"], "choice",
                then_branch=helper.make_graph(work, "t", [], [value("q", FLOAT, None)]),
                else_branch=helper.make_graph([rest], "e", [], [value("e", FLOAT, None)]),
            ),
        ],
        "body",
        [value("i", INT64, []), value("go", BOOL, []), state],
        [value("goes", BOOL, []), value("next", FLOAT, None)],
    )  # fmt: skip
    sizes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["width"]),
        helper.make_node("Concat", ["minus", "width"], ["target"], axis=0),
        helper.make_node("Equal", ["width", "four"], ["fits"]),
    ]
    squeezed = helper.make_node("Squeeze", ["y"], ["s"])
    kept = helper.make_node("Tanh", ["y"], ["k"])
    nodes = [
        *sizes,
        helper.make_node("Loop", ["three", "", "x"], ["y"], "loop", body=body),
        helper.make_node(
            "If", ["fits"], ["z"], "squeeze",
            then_branch=helper.make_graph([kept], "t", [], [value("k", FLOAT, None)]),
            else_branch=helper.make_graph([squeezed], "e", [], [value("s", FLOAT, None)]),
        ),
        helper.make_node("Sigmoid", ["z"], ["out"], "last"),
    ]  # fmt: skip
    constants = {"one": [1], "minus": [-1], "four": [4]}
    weights = {"w": WEIGHT, "three": np.array(3, np.int64)}
    weights |= {name: np.array(held, np.int64) for name, held in constants.items()}
    model = make_model(nodes, [("x", ["n", 4]), ("flag", [], BOOL)], [("out", None)], weights)
    graph = read(model, tmp_path, batch=5)
    costs = dict(zip((node.name for node in graph.nodes), node_costs(graph), strict=True))
    scan, product, addition, relu, tanh = 5 * 16, 5 * 16, 20, 20, 20
    assert relu < product
    assert costs["loop"].macs == 3 * (scan + product)
    assert costs["loop"].flops == 3 * (2 * scan + 2 * product + addition)
    assert costs["loop"].method is CountMethod.AT_MOST
    assert (costs["squeeze"].flops, costs["squeeze"].method) == (tanh, CountMethod.COUNTED)
    total = model_cost(graph, tuple(costs.values()))
    assert (total.macs, total.flops) == (480, 3 * (2 * scan + 2 * product + addition) + 1 + tanh + 20)
    assert (total.at_most, total.unknown_operators, total.parameters) == (True, {}, 16)


def test_a_total_is_unknown_where_the_unknown_may_hold_most_of_the_work(tmp_path: Path) -> None:
    graph = read(loop(None), tmp_path)
    (cost,) = node_costs(graph)
    assert cost.reason == "the trip count depends on the data"
    total = model_cost(graph, (cost,))
    assert (total.macs, total.flops, total.known_macs) == (None, None, 0)
    assert total.unknown_reasons == {"Loop": "the trip count depends on the data"}


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
    assert cost.method is CountMethod.COUNTED


@pytest.mark.parametrize("model", [loop(None), loop(5, stops=True)], ids=["count", "condition"])
def test_a_loop_that_the_data_ends_is_unknown(tmp_path: Path, model: onnx.ModelProto) -> None:
    (cost,) = node_costs(read(model, tmp_path))
    assert (cost.macs, cost.flops, cost.method) == (None, None, CountMethod.UNKNOWN)
    assert cost.reason


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


def own_function(name: str) -> onnx.FunctionProto:
    held = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(WEIGHT))
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_function(
        "own", name, ["a"], ["b"], [held, helper.make_node("MatMul", ["a", "w"], ["b"])], opsets
    )


@pytest.mark.parametrize(("called", "parameters"), [(("F", "G", "H"), 48), (("F", "F", "F"), 16)])
def test_functions_have_weights_of_their_own_each_once(
    tmp_path: Path, called: tuple[str, ...], parameters: int
) -> None:
    calls = [helper.make_node(name, [f"x{i}"], [f"x{i + 1}"], domain="own") for i, name in enumerate(called)]
    model = make_model(calls, [("x0", [2, 4])], [("x3", [2, 4])], opset=17)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(map(own_function, dict.fromkeys(called)))
    graph = read(model, tmp_path)
    cost = model_cost(graph, node_costs(graph))
    assert (cost.parameters, cost.nonzero_parameters, cost.weight_bytes) == (parameters, parameters, 4 * parameters)


def test_branches_have_weights_of_their_own_and_share_those_around_them(tmp_path: Path) -> None:
    """Each branch has a weight called w, and both read v, as a node beside them does."""

    def with_weight() -> onnx.GraphProto:
        made = branch(helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["b"]))
        made.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
        return made

    choice = helper.make_node("If", ["c"], ["a"], then_branch=with_weight(), else_branch=with_weight())
    nodes = [choice, helper.make_node("MatMul", ["a", "v"], ["y"])]
    graph = read(make_model(nodes, [("x", [2, 4]), ("c", [], BOOL)], [("y", [2, 4])], {"v": WEIGHT}), tmp_path)
    costs = node_costs(graph)
    cost = model_cost(graph, costs)
    assert [one.parameters for one in costs] == [48, 16]
    assert (cost.parameters, cost.nonzero_parameters, cost.weight_bytes) == (48, 48, 192)


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


def test_of_branches_one_of_which_is_unknown_nothing_is_known(tmp_path: Path) -> None:
    strange = helper.make_node("Strange", ["x"], ["a"], domain="somebody.else")
    relu = helper.make_node("Relu", ["x"], ["b"])
    for then, other in ((strange, relu), (relu, strange)):
        choice = helper.make_node("If", ["flag"], ["y"], then_branch=branch(then), else_branch=branch(other))
        model = make_model([choice], [("x", [2, 4]), ("flag", [], BOOL)], [("y", [2, 4])])
        model.opset_import.append(helper.make_opsetid("somebody.else", 1))
        (cost,) = node_costs(read(model, tmp_path))
        assert (cost.flops, cost.macs, cost.method) == (None, None, CountMethod.UNKNOWN)
