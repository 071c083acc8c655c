"""Nodes of two versions of a model find each other, whatever was renamed, quantized, pruned or batched."""

from dataclasses import replace

import pytest
from small_graphs import graph, renamed

from enginebench_controller.graph.matching.graph_to_graph import correspond
from enginebench_controller.graph.source_graph import SourceGraph

SHAPES = {"c1": (1, 8, 4, 4), "n1": (1, 8, 4, 4), "r1": (1, 8, 4, 4), "c2": (1, 8, 4, 4), "c3": (1, 8, 4, 4)}
SHAPES |= {"s": (1, 8, 4, 4), "r2": (1, 8, 4, 4), "p": (1, 8, 1, 1), "f": (1, 8), "y": (1, 10)}
KERNELS = {"conv1": {"kernel_shape": (3, 3)}, "conv2": {"kernel_shape": (3, 3)}, "short": {"kernel_shape": (1, 1)}}

FLOAT = graph(
    """
    conv1: Conv(x, w_1) -> c1
    bn1: BatchNormalization(c1, w_scale) -> n1
    relu1: Relu(n1) -> r1
    conv2: Conv(r1, w_2) -> c2
    short: Conv(r1, w_3) -> c3
    add: Add(c2, c3) -> s
    relu2: Relu(s) -> r2
    pool: GlobalAveragePool(r2) -> p
    flat: Flatten(p) -> f
    fc: Gemm(f, w_4) -> y
    """,
    SHAPES,
    KERNELS,
)

INT8 = graph(
    """
    q0: QuantizeLinear(x, w_s) -> x_q
    dq0: DequantizeLinear(x_q, w_s) -> x_d
    dqw1: DequantizeLinear(w_1_quantized, w_s) -> w1_d
    conv1: Conv(x_d, w1_d) -> n1
    relu1: Relu(n1) -> r1
    q1: QuantizeLinear(r1, w_s) -> r1_q
    dq1: DequantizeLinear(r1_q, w_s) -> r1_d
    short: Conv(r1_d, w_3) -> c3
    conv2: Conv(r1_d, w_2) -> c2
    q2: QuantizeLinear(c2, w_s) -> c2_q
    dq2: DequantizeLinear(c2_q, w_s) -> c2_d
    add: Add(c2_d, c3) -> s
    relu2: Relu(s) -> r2
    pool: GlobalAveragePool(r2) -> p
    flat: Flatten(p) -> f
    fc: Gemm(f, w_4) -> y
    """,
    SHAPES | {"x_q": (1, 3, 4, 4), "r1_q": (1, 8, 4, 4), "c2_q": (1, 8, 4, 4)},
    KERNELS,
)


def labels(one: SourceGraph, other: SourceGraph) -> dict[str, str]:
    return {one.nodes[here].name: other.nodes[there].name for here, there in correspond(one, other).items()}


def same_labels(one: SourceGraph, other: SourceGraph) -> dict[str, str]:
    return {node.name: node.name for node in one.nodes if node.name in {there.name for there in other.nodes}}


def in_order(source: SourceGraph, order: list[str]) -> SourceGraph:
    by_name = {node.name: node for node in source.nodes}
    return replace(source, nodes=tuple(replace(by_name[name], index=index) for index, name in enumerate(order)))


def test_a_graph_is_itself() -> None:
    assert correspond(FLOAT, FLOAT) == {node.index: node.index for node in FLOAT.nodes}


@pytest.mark.parametrize("source", [FLOAT, INT8], ids=["float", "int8"])
def test_a_graph_of_which_every_name_changed_is_found_by_structure(source: SourceGraph) -> None:
    found = correspond(source, renamed(source))
    assert found.items() >= {(node.index, node.index) for node in source.nodes if not node.folded}
    assert all(here == there for here, there in found.items())


def test_quantized_nodes_are_their_floating_selves() -> None:
    assert labels(FLOAT, INT8) == same_labels(FLOAT, INT8)
    assert labels(INT8, FLOAT) == same_labels(INT8, FLOAT)


def test_quantized_and_renamed_nodes_are_found_through_the_quantization() -> None:
    other = renamed(INT8)
    found = correspond(FLOAT, other)
    expected = {
        node.index: next(n.index for n in INT8.nodes if n.name == node.name)
        for node in FLOAT.nodes
        if node.name != "bn1"
    }
    assert found == expected


def test_operators_of_another_precision_are_the_same_operators() -> None:
    quantized = graph(
        "conv1_quant: QLinearConv(x, w_1_quantized) -> c1_quantized\nfc_quant: MatMulInteger(c1_quantized, w_2) -> y"
    )
    plain = graph("conv1: Conv(x, w_1) -> c1\nfc: MatMul(c1, w_2) -> y")
    assert labels(plain, quantized) == {"conv1": "conv1_quant", "fc": "fc_quant"}


def test_weight_names_survive_where_others_do_not() -> None:
    one = graph("a: Conv(x, w_first) -> t1\nb: Conv(t1, w_second) -> y")
    other = graph("n1: Conv(x, w_second) -> u1\nn2: Conv(u1, w_first) -> u2")
    assert labels(one, other) == {"a": "n2", "b": "n1"}


def test_another_batch_is_the_same_model() -> None:
    sizes = {name: (4, *shape[1:]) for name, shape in SHAPES.items()}
    nodes = tuple(
        replace(node, output_shapes=tuple(sizes.get(name) for name in node.outputs)) for node in renamed(FLOAT).nodes
    )
    batched = replace(
        renamed(FLOAT),
        nodes=tuple(
            replace(node, output_shapes=((4, *FLOAT.nodes[node.index].output_shapes[0][1:]),)) for node in nodes
        ),
        batch=4,
    )
    assert correspond(FLOAT, batched) == {node.index: node.index for node in FLOAT.nodes}


def test_names_that_were_counted_up_anew_yield_to_structure() -> None:
    def numbered(source: SourceGraph) -> SourceGraph:
        nodes = tuple(replace(node, name=f"{node.op_type}_{node.index}", weights=()) for node in renamed(source).nodes)
        return replace(renamed(source), nodes=nodes)

    chain = "".join(f"\nr{n}: Relu(t{n}) -> t{n + 1}\nc{n}: Conv(t{n + 1}, w_{n}) -> t{n + 2}" for n in range(2, 22, 2))
    sizes = {f"t{n}": (1, n // 4, 8, 8) for n in range(30)}
    whole = graph("first: Conv(x, w_x) -> t0\nconv: Conv(t0, w_y) -> t1\nrelu: Relu(t1) -> t2" + chain, sizes)
    shorter = graph("first: Conv(x, w_x) -> t2" + chain, sizes)
    found = correspond(numbered(whole), numbered(shorter))
    assert all(found[there + 2] == there for there in range(2, len(shorter.nodes)))


def test_unlike_graphs_do_not_correspond() -> None:
    other = graph(
        "".join(f"m{n}: MatMul({'x' if n == 0 else f't{n - 1}'}, w_{n}) -> t{n}\n" for n in range(8)),
        {f"t{n}": (1, 8) for n in range(8)},
    )
    assert correspond(FLOAT, renamed(other)) == {}


def test_branches_may_be_listed_in_another_order() -> None:
    swapped = ["conv1", "bn1", "relu1", "short", "conv2", "add", "relu2", "pool", "flat", "fc"]
    other = in_order(FLOAT, swapped)
    found = correspond(FLOAT, renamed(other))
    assert {FLOAT.nodes[here].name: swapped[there] for here, there in found.items()} == {name: name for name in swapped}
