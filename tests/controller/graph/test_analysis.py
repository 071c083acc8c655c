"""A profile is led back to the graph of its model, and says why where that cannot be."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import invented
import invented_profiles
from enginebench_controller.graph.analysis import SourceAnalysis
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import Configuration, InputTensor, Layer, LayerState

SHAPE = (2, 4)


@pytest.fixture
def library(tmp_path):
    return ModelLibrary(tmp_path / "library")


@pytest.fixture
def model(library, tmp_path):
    """MatMul (4×3) → Relu → Add with a second MatMul of the same input, at an open batch."""
    import numpy as np

    weights = [numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), name) for name in ("w1", "w2")]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("MatMul", ["x", "w2"], ["b"], "second"),
        helper.make_node("Add", ["r", "b"], ["y"], "add"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return library.add(path)


def layer(order, name, *source_nodes, inputs=(), outputs=(), time_ns=(10, 20)):
    return Layer(
        *(name, "MatMul", order, LayerState.EXECUTED, time_ns, 1, "", "f32", (), source_nodes),
        inputs=inputs,
        outputs=outputs,
    )


def profile(*layers):
    configuration = Configuration("CPU", batch=2, cores=1, inputs=(InputTensor("x", "float32", SHAPE),))
    return replace(
        invented_profiles.profile(),
        configuration=configuration,
        layers=layers,
        nodes=(),
        work=None,
        coverage=None,
    )


FUSED = layer(0, "fused", "first", "relu", inputs=("x",), outputs=("r",))
SECOND = layer(1, "second", "second", inputs=("x",), outputs=("b",))
ADD = layer(2, "add", "add", inputs=("r", "b"), outputs=("y",))


def test_layers_nodes_work_and_times_fit_together(library, model):
    found = SourceAnalysis(library.file_paths).analysed(profile(FUSED, SECOND, ADD), model)

    assert [node.name for node in found.nodes] == ["first", "relu", "second", "add"]
    groups = {node.name: node.group for node in found.nodes}
    assert groups["first"] == groups["relu"] == found.layers[0].group
    assert len({one.group for one in found.layers}) == 3
    assert {one.category for one in found.layers} == {"matched"}
    assert (found.coverage.total_ns, found.coverage.matched_ns, found.coverage.unmatched_ns) == (45, 45, 0)
    assert (found.coverage.share, found.coverage.largest_group_share) == (1.0, 0.5)
    # Two products of (2×4)·(4×3), a Relu and an Add of 2×3.
    assert (found.work.macs, found.work.flops) == (2 * 24, 2 * 48 + 6 + 6)
    assert (found.work.parameters, found.work.nonzero_parameters, found.work.coverage) == (24, 6, 1.0)
    assert found.unmatched_reason == ""


def test_layers_without_times_have_no_share(library, model):
    found = SourceAnalysis(library.file_paths).analysed(profile(layer(0, "fused", "first", "relu", time_ns=())), model)

    assert found.coverage.share is None


def test_a_fused_layer_moves_only_what_crosses_its_border(library, model):
    found = SourceAnalysis(library.file_paths).analysed(profile(FUSED, SECOND, ADD), model)

    x, inner, weight = 2 * 4 * 4, 2 * 3 * 4, 4 * 3 * 4
    assert [one.data_bytes for one in found.layers] == [x + weight + inner, x + weight + inner, 3 * inner]
    assert [one.flops for one in found.layers] == [48 + 6, 48, 6]


def test_slices_of_one_tensor_read_it_once_between_them(library, tmp_path):
    """x (2×8) is cut into two of 2×4, of which a Relu in the same layer reads one; a Shape reads nothing of it."""
    import numpy as np

    ends = {"zero": [0], "four": [4], "eight": [8], "axis": [1]}
    held = [numpy_helper.from_array(np.array(value), name) for name, value in ends.items()]
    nodes = [
        helper.make_node("Slice", ["x", "zero", "four", "axis"], ["a"], "left"),
        helper.make_node("Slice", ["x", "four", "eight", "axis"], ["y"], "right"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Shape", ["x"], ["s"], "shape"),
    ]
    x, y, r = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", 8), ("y", 4), ("r", 4))
    )
    s = helper.make_tensor_value_info("s", TensorProto.INT64, [2])
    path = tmp_path / "cut.onnx"
    graph = helper.make_graph(nodes, "g", [x], [y, r, s], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    version = library.add(path)
    cut = layer(0, "cut", "left", "right", "relu", "shape", inputs=("x",), outputs=("y", "r", "s"))
    asked = replace(profile(cut).configuration, inputs=(InputTensor("x", "float32", (2, 8)),))

    (found,) = SourceAnalysis(library.file_paths).analysed(replace(profile(cut), configuration=asked), version).layers

    ends_of_two = 2 * 3 * 8
    assert found.data_bytes == 4 * (2 * 8 + 2 * 4 + 2 * 4) + 2 * 8 + ends_of_two


def test_layers_that_share_a_group_have_no_work_of_their_own(library, model):
    halves = [layer(order, f"first_{order}", "first", "relu") for order in (0, 1)]
    found = SourceAnalysis(library.file_paths).analysed(profile(*halves), model)

    assert found.layers[0].group == found.layers[1].group is not None
    assert [(one.flops, one.data_bytes) for one in found.layers] == [(None, None)] * 2


def test_a_format_without_a_graph_says_so_and_keeps_the_layers(library, model):
    before = profile(FUSED)
    found = SourceAnalysis(library.file_paths).analysed(before, replace(model, format="openvino"))

    assert (found.nodes, found.work, found.coverage, found.layers) == ((), None, None, before.layers)
    assert found.unmatched_reason == "the format openvino has no ONNX graph to lead layers back to"


def test_a_graph_that_cannot_be_read_is_a_reason_not_an_error(library, model):
    found = SourceAnalysis(lambda _: [Path("/nowhere/model.onnx")]).analysed(profile(FUSED), model)

    assert found.coverage is None and found.layers == (FUSED,)
    assert found.unmatched_reason.startswith("the graph could not be read: ")


def test_a_pass_without_layers_is_left_as_it_is(library, model):
    failed = invented_profiles.profile_of_failure()
    assert SourceAnalysis(library.file_paths).analysed(failed, model) is failed


def test_a_graph_is_read_once_for_all_passes_of_the_same_inputs(library, model):
    opened = []

    def file_paths(version):
        opened.append(version)
        return library.file_paths(version)

    analysis = SourceAnalysis(file_paths)
    for one in (profile(FUSED), profile(SECOND)):
        assert analysis.analysed(one, model).nodes
    assert len(opened) == 1
    other = replace(invented.CONFIGURATION, batch=1, inputs=(InputTensor("x", "float32", (1, 4)),))
    assert analysis.analysed(replace(profile(FUSED), configuration=other), model).work.flops == 108 // 2
    assert len(opened) == 2
