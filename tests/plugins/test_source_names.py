"""The model's own names, found in what engines made of them."""

import onnx
import pytest
from onnx import TensorProto, helper

from enginebench_plugins.toolkit.onnx_model import SourceNames, graph_inputs, name_nodes, source_names
from enginebench_proto.agreed.labels import node_labels


def graph(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    return helper.make_model(helper.make_graph(nodes, "graph", [value], [value]))


def test_a_node_without_a_name_is_called_after_its_output_and_a_taken_label_gets_its_place() -> None:
    model = graph(
        helper.make_node("Relu", ["x"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Split", ["b"], ["", "c"]),
        helper.make_node("Relu", ["c"], ["d"], "first"),
        helper.make_node("Relu", ["d"], ["e"], "b"),
    )
    assert node_labels(model.graph.node) == ("first", "b", "c", "first#3", "b#4")
    assert name_nodes(model)
    assert [node.name for node in model.graph.node] == ["first", "b", "c", "first#3", "b#4"]
    assert not name_nodes(model)


def test_an_input_s_dimension_is_open_where_a_file_says_minus_one_and_nothing_is_a_size() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [-1, "n", None, 0, 3])
    (tensor,) = graph_inputs(helper.make_model(helper.make_graph([], "graph", [value], [])))
    assert tensor.shape == (None, None, None, 0, 3)


@pytest.mark.parametrize(
    ("made", "label"),
    [
        ("conv", "conv"),
        ("conv_token_12", "conv"),
        ("conv/WithoutBiases", "conv"),
        ("conv_1_nchwc", "conv_1"),
        ("r8_bn_nchwc", "norm"),
        ("layer1.0.conv/MatMulScaleFusion/", "layer1.0.conv"),
        ("convolution", None),
        ("r88", None),
        ("fused_conv", None),
    ],
)
def test_the_longest_name_of_the_model_that_a_name_begins_with_is_its_origin(made: str, label: str | None) -> None:
    names = SourceNames(
        types={"conv": "Conv", "conv_1": "Conv", "layer1.0.conv": "Conv", "norm": "BatchNormalization"},
        makers={"r8": "norm"},
    )
    assert names.node_in(made) == label


def test_a_name_of_a_node_and_of_anothers_output_is_read_as_the_engine_means_it() -> None:
    names = source_names(
        graph(helper.make_node("Conv", ["x", "w"], ["two"], "one"), helper.make_node("Relu", ["two"], ["y"], "two"))
    )
    assert names.node_in("two_token_3") == "two"
    assert names.maker_in("two_nchwc") == "one"
