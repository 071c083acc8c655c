"""Our counts against two other counters: PyTorch's FlopCounterMode, and the package onnx-tool."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tiny_models import make_model, save

from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.source_graph import SourceGraph
from enginebench_controller.models.zoo import ZOO, build_bytes

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))

OF_TORCH = {"Conv": {"aten.convolution"}, "Gemm": {"aten.addmm"}, "MatMul": {"aten.mm", "aten.bmm", "aten.addmm"}}
"""What our products become there."""

PRODUCTS = {"Conv", "Gemm"}

EXACTLY = {"Add", "AveragePool", "MaxPool", "Mul", "Relu", "Sum"}
"""Operators on which onnx-tool and we agree to the last operation."""

INSTRUCTIONS = {"BatchNormalization": (31, 2), "LRN": (42, 14), "Softmax": (36, 5)}
"""Per output element: onnx-tool's (instructions of one implementation: a square root is 24, an exponential 32, a
division 4), and ours. LRN for its size of 5. Theirs normalizes by the variance anew for every element; engines fold
that."""


def test_there_are_nine_light_models() -> None:
    assert len(LIGHT) == 9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert-tiny"])
def test_products_are_those_of_pytorchs_counter(tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from enginebench_plugins import spec
    from enginebench_plugins.engines.torch.graph import convert_graph

    path = tmp_path / "model.onnx"
    path.write_bytes(build_bytes(ZOO[name]))
    graph = read_source_graph(path, {}, 2)
    tensors = [graph.tensors[name] for name in graph.inputs]
    given = [spec.TensorSpec(name, str(graph.tensors[name].dtype), graph.tensors[name].shape) for name in graph.inputs]
    network = convert_graph(onnx.load(path), given).module.eval()
    inputs = [torch.ones(tensor.shape, dtype=getattr(torch, tensor.dtype)) for tensor in tensors]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(*inputs)
    theirs = {str(operator): flops for operator, flops in counter.get_flop_counts()["Global"].items()}
    ours = products_by_operator(graph)
    assert set(theirs) <= set().union(*(OF_TORCH[operator] for operator in ours))
    for operator, flops in ours.items():
        assert flops == sum(theirs.get(one, 0) for one in OF_TORCH[operator]), operator
    assert sum(ours.values()) == counter.get_total_flops()


def products_by_operator(graph: SourceGraph) -> Counter[str]:
    found: Counter[str] = Counter()
    for node, cost in zip(graph.nodes, node_costs(graph), strict=True):
        if cost.macs:
            found[node.op_type] += 2 * cost.macs
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_every_node_agrees_with_onnx_tool_or_differs_by_a_named_rule(path: Path) -> None:
    """Rules: biases count there, as an addition an output element; and what `INSTRUCTIONS` lists.

    Here a bias is the addition that a dot product of length K lacks to K multiply-adds, so both are right about the
    products, and theirs counts one addition twice if its MACs are taken for 2 FLOPs.
    """
    theirs = counted_by_onnx_tool(path)
    graph = read_source_graph(path, {}, None)
    compared = Counter[str]()
    for node, cost in zip(graph.nodes, node_costs(graph), strict=True):
        if node.folded:
            continue
        compared[node.op_type] += 1
        outputs = elements(graph, node.outputs[0])
        match node.op_type:
            case one if one in PRODUCTS:
                bias = outputs if len(node.inputs) > 2 else 0
                assert theirs[node.outputs[0]] == cost.macs + bias, node.name
            case one if one in EXACTLY:
                assert theirs[node.outputs[0]] == cost.flops, node.name
            case one if one in INSTRUCTIONS:
                assert (theirs[node.outputs[0]], cost.flops) == tuple(n * outputs for n in INSTRUCTIONS[one]), node.name
            case "GlobalAveragePool":  # a division, of 4 instructions, an output element
                assert theirs[node.outputs[0]] == cost.flops + 4 * outputs, node.name
            case _:
                assert theirs[node.outputs[0]] == cost.flops == 0, node.name
    assert compared.total() == sum(not node.folded for node in graph.nodes)
    assert compared["Conv"] >= 5


@pytest.mark.slow
def test_a_transposed_convolution_in_groups_is_pytorchs_and_not_onnx_tools(tmp_path: Path) -> None:
    """16·7·7 inputs, each spread over 8 ÷ 2 channels and 16 places. onnx-tool forgets the 2 groups."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    weight = np.ones((16, 4, 4, 4), "f")
    layer = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    model = make_model([layer], [("x", [1, 16, 7, 7])], [("y", [1, 8, 14, 14])], {"w": weight})
    path = save(model, tmp_path / "model.onnx")
    (cost,) = node_costs(read_source_graph(path, {}, None))
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.conv_transpose2d(torch.ones(1, 16, 7, 7), torch.from_numpy(weight), None, 2, 1, 0, 2)
    assert cost.flops == counter.get_total_flops() == 2 * 50_176
    assert counted_by_onnx_tool(path)["y"] == 100_352


def elements(graph: SourceGraph, name: str) -> int:
    count = graph.tensors[name].elements
    assert count is not None
    return count


def counted_by_onnx_tool(path: Path) -> dict[str, int]:
    """Its "MACs" by the first output of each node; it prints what it does."""
    onnx_tool = pytest.importorskip("onnx_tool")
    graph = onnx_tool.Model(str(path)).graph
    graph.shape_infer(None)
    graph.profile()
    return dict(_macs(graph))


def _macs(graph: object) -> Iterator[tuple[str, int]]:
    for node in graph.nodemap.values():  # type: ignore[attr-defined]
        yield node.output[0], int(node.macs[0])
