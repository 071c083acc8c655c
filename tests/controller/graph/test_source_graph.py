"""The source graph: every node with its label, weights and shapes for one batch, from a file that stays as it is."""

import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiny_models import make_model, save, tiny_classifier

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.flops.counting import model_cost, node_costs
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.source_graph import SourceGraph
from enginebench_controller.models.formats.skeleton import KEPT_PAYLOAD_BYTES
from enginebench_controller.records.profile import CountMethod

FLOAT = TensorProto.FLOAT
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def read(model: onnx.ModelProto, folder: Path, batch: int | None = None, **shapes: tuple[int, ...]) -> SourceGraph:
    return read_source_graph(save(model, folder / "model.onnx"), shapes, batch)


def test_names_weights_and_shapes_of_every_node(tmp_path: Path) -> None:
    graph = read(tiny_classifier(), tmp_path, batch=8)
    assert [node.name for node in graph.nodes] == ["conv", "bn", "relu", "flatten", "fc"]
    assert [node.index for node in graph.nodes] == [0, 1, 2, 3, 4]
    assert [node.weights for node in graph.nodes] == [("w",), ("s", "b", "m", "v"), (), ("shape",), ("fc",)]
    assert [node.output_shapes[0] for node in graph.nodes] == [(8, 4, 4, 4)] * 3 + [(8, 64), (8, 5)]
    assert graph.nodes[0].attributes == {"pads": (1, 1, 1, 1)}
    assert (graph.inputs, graph.outputs, graph.batch, graph.opsets) == (("x",), ("y",), 8, {"": 13})
    assert graph.constants["shape"] == (0, 64)


def test_the_file_is_not_touched(tmp_path: Path) -> None:
    path = save(tiny_classifier(), tmp_path / "model.onnx")
    before = path.read_bytes(), path.stat().st_mtime_ns
    node_costs(read_source_graph(path, {}, 4))
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_fixed_batch_is_kept_and_another_one_refused(tmp_path: Path) -> None:
    path = save(tiny_classifier(batch=3), tmp_path / "model.onnx")
    assert read_source_graph(path, {}, None).nodes[0].output_shapes == ((3, 4, 4, 4),)
    with pytest.raises(ModelError, match="fixed batch of 3, not 4"):
        read_source_graph(path, {}, 4)


def test_unnamed_and_repeated_nodes_get_a_label_of_their_own(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], "same"),
        helper.make_node("Relu", ["b"], ["c"], "same"),
        helper.make_node("Relu", ["c"], ["y"], "same#2"),
    ]
    graph = read(make_model(nodes, [("x", [1])], [("y", [1])]), tmp_path)
    assert [node.name for node in graph.nodes] == ["a", "same", "same#2", "same#2#3"]


def test_shapes_stored_for_another_batch_are_forgotten(tmp_path: Path) -> None:
    model = tiny_classifier()
    model.graph.value_info.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 4, 4, 4]))
    assert read(model, tmp_path, batch=5).shape("c") == (5, 4, 4, 4)


def test_sizes_that_onnx_cannot_infer_are_worked_out(tmp_path: Path) -> None:
    """A Reshape to (batch, 2, length ÷ 2): ONNX carries no division."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["length"]),
        helper.make_node("Div", ["length", "two"], ["half"]),
        helper.make_node("Concat", ["rows", "two", "half"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    weights = {"one": np.array([1], np.int64), "two": np.array([2], np.int64), "rows": np.array([-1], np.int64)}
    graph = read(make_model(nodes, [("x", ["n", "length"])], [("z", None)], weights), tmp_path, batch=3, x=(3, 10))
    assert graph.shape("y") == graph.shape("z") == (3, 2, 5)
    assert graph.constants["target"] == (-1, 2, 5)


def test_shapes_that_depend_on_the_data_are_unknown_and_so_is_the_work(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], "where"),
        helper.make_node("Cast", ["places"], ["floats"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Exp", ["floats"], ["y"], "exp"),
        helper.make_node("Relu", ["x"], ["z"], "relu"),
    ]
    graph = read(make_model(nodes, [("x", [4, 4])], [("y", None), ("z", [4, 4])]), tmp_path)
    assert [node.output_shapes for node in graph.nodes] == [(None,), (None,), (None,), ((4, 4),)]
    costs = node_costs(graph)
    assert [cost.flops for cost in costs] == [0, 0, None, 16]
    assert costs[0].activation_bytes is None
    total = model_cost(graph, costs)
    assert (total.flops, total.activation_bytes, total.coverage_percent) == (16, None, 75.0)
    assert total.unknown_operators == {"Exp": 1}


def test_constants_are_weights_and_what_is_made_of_them_costs_nothing(tmp_path: Path) -> None:
    """x · (Constant)ᵀ + ConstantOfShape: the product reads 4 × 3, of which two are zero; the sum 3 equal numbers."""
    held = np.arange(12, dtype="f").reshape(3, 4)
    held[0, 1] = 0
    fill = helper.make_tensor("fill", TensorProto.FLOAT, [1], [0.5])
    nodes = [
        helper.make_node("Constant", [], ["held"], value=numpy_helper.from_array(held)),
        helper.make_node("Transpose", ["held"], ["turned"]),
        helper.make_node("ConstantOfShape", ["three"], ["bias"], value=fill),
        helper.make_node("MatMul", ["x", "turned"], ["p"], "product"),
        helper.make_node("Add", ["p", "bias"], ["y"], "sum"),
    ]
    model = make_model(nodes, [("x", [2, 4])], [("y", [2, 3])], {"three": np.array([3], np.int64)})
    graph = read(model, tmp_path)
    assert [node.folded for node in graph.nodes] == [True, True, True, False, False]
    assert [node.weights for node in graph.nodes[3:]] == [("held",), ("bias",)]
    costs = node_costs(graph)
    assert {cost.method for cost in costs[:3]} == {CountMethod.ZERO}
    assert sum(cost.parameters or 0 for cost in costs[:3]) == 0
    assert [(cost.macs, cost.parameters, cost.nonzero_parameters) for cost in costs[3:]] == [(24, 12, 10), (0, 3, 3)]


def test_random_numbers_are_no_constants(tmp_path: Path) -> None:
    nodes = [helper.make_node("RandomNormal", [], ["r"], shape=[2]), helper.make_node("Add", ["x", "r"], ["y"])]
    graph = read(make_model(nodes, [("x", [2])], [("y", [2])]), tmp_path)
    assert (graph.nodes[0].folded, graph.nodes[1].weights) == (False, ())
    assert node_costs(graph)[0].flops is None


def test_a_weight_is_known_through_its_quantization_and_counted_once_when_shared(tmp_path: Path) -> None:
    """Two products read the same INT8 weight behind a DequantizeLinear: 20 parameters, a byte each, 4 of them zero."""
    weight = np.arange(20, dtype=np.int8).reshape(4, 5)
    weight[0, :4] = 0
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wf"], "dq"),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"], "q"),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xf"], "dqx"),
        helper.make_node("MatMul", ["xf", "wf"], ["a"], "one"),
        helper.make_node("MatMul", ["x", "wf"], ["b"], "two"),
    ]
    weights = {"w": weight, "scale": np.array(0.5, "f"), "zero": np.array(0, np.int8)}
    graph = read(make_model(nodes, [("x", [1, 4])], [("a", [1, 5]), ("b", [1, 5])], weights), tmp_path)
    assert [node.name for node in graph.nodes if node.folded] == ["dq"]
    assert [node.weights for node in graph.nodes[3:]] == [("w",), ("w",)]
    costs = node_costs(graph)
    assert [(cost.parameters, cost.weight_bytes) for cost in costs[3:]] == [(20, 20), (20, 20)]
    assert costs[1].parameters == 0, "a scale is a setting"
    total = model_cost(graph, costs)
    assert (total.parameters, total.nonzero_parameters, total.weight_bytes) == (20, 16, 20 + 4 + 1)


def test_types_below_a_byte_are_packed(tmp_path: Path) -> None:
    packed = helper.make_tensor("w", TensorProto.INT4, [3, 3], [1, 0, 2, -3, 4, 0, 0, 7, -8])
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["wf"]),
        helper.make_node("MatMul", ["x", "wf"], ["y"]),
    ]
    model = make_model(nodes, [("x", [1, 3])], [("y", [1, 3])], {"scale": np.array(0.5, "f")}, opset=21)
    model.graph.initializer.append(packed)
    cost = node_costs(read(model, tmp_path))[-1]
    assert (cost.parameters, cost.nonzero_parameters, cost.weight_bytes) == (9, 6, 5)


def big_model() -> onnx.ModelProto:
    weight = np.ones((4, KEPT_PAYLOAD_BYTES // 4), "f")
    weight[0, :7] = 0
    return make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [1, 4])], [("y", [1, weight.shape[1]])], {"w": weight}
    )


@pytest.mark.parametrize("where", ["raw", "floats", "external", "constant"])
def test_the_zeros_of_a_big_weight_are_counted_wherever_it_lies(tmp_path: Path, where: str) -> None:
    model = big_model()
    (tensor,) = model.graph.initializer
    if where == "floats":
        values = numpy_helper.to_array(tensor).reshape(-1)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(values)
    if where == "constant":
        node = helper.make_node("Constant", [], ["w"], value=tensor)
        model.graph.ClearField("initializer")
        nodes = [node, *model.graph.node]
        model.graph.ClearField("node")
        model.graph.node.extend(nodes)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=where == "external", location="weights.bin")
    cost = node_costs(read_source_graph(path, {}, None))[-1]
    assert (cost.parameters, cost.nonzero_parameters) == (KEPT_PAYLOAD_BYTES, KEPT_PAYLOAD_BYTES - 7)


def test_external_weights_that_are_missing_are_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(big_model(), path, save_as_external_data=True, location="weights.bin")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"keeps weights in weights\.bin, which is not beside it; copy that file too"):
        read_source_graph(path, {}, None)


def test_a_sparse_weight_has_the_sizes_of_the_dense_one(tmp_path: Path) -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 0.0])
    places = helper.make_tensor("places", TensorProto.INT64, [3], [0, 5, 11])
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [2, 4])], [("y", [2, 3])])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 3]))
    graph = read(model, tmp_path)
    (cost,) = node_costs(graph)
    assert graph.shape("y") == (2, 3)
    assert (cost.macs, cost.parameters, cost.nonzero_parameters, cost.weight_bytes) == (24, 12, 2, 3 * 4 + 3 * 8)


def test_two_sparse_constants_are_two_weights(tmp_path: Path) -> None:
    values = helper.make_tensor("", TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("", TensorProto.INT64, [2], [0, 5])
    sparse = helper.make_sparse_tensor(values, places, [4, 4])
    nodes = [
        *(helper.make_node("Constant", [], [name], sparse_value=sparse) for name in ("v", "w")),
        helper.make_node("MatMul", ["x", "v"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    graph = read(make_model(nodes, [("x", [1, 4])], [("y", [1, 4])]), tmp_path)
    cost = model_cost(graph, node_costs(graph))
    assert (cost.parameters, cost.nonzero_parameters, cost.weight_bytes) == (32, 4, 2 * (2 * 4 + 2 * 8))


def test_an_embedding_reads_its_rows_and_not_its_table(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    model = make_model(
        nodes, [("ids", [1, 5], TensorProto.INT64)], [("y", [1, 5, 8])], {"table": np.ones((100, 8), "f")}
    )
    graph = read(model, tmp_path)
    (cost,) = node_costs(graph)
    assert (cost.parameters, cost.weight_bytes, cost.activation_bytes) == (800, 160, 5 * 8 + 160)
    assert model_cost(graph, (cost,)).weight_bytes == 3200, "the model holds the whole table"


def test_operators_of_onnx_runtime_have_shapes(tmp_path: Path) -> None:
    scale, zero, contrib = "scale", "zero", "com.microsoft"
    nodes = [
        helper.make_node("FusedConv", ["x", "w"], ["c"], domain="com.microsoft", activation="Relu", pads=[1, 1, 1, 1]),
        helper.make_node("Gelu", ["c"], ["g"], domain="com.microsoft"),
        helper.make_node("QuantizeLinear", ["g", scale, zero], ["q"]),
        helper.make_node("QLinearAdd", ["q", scale, zero, "q", scale, zero, scale, zero], ["s"], domain=contrib),
        helper.make_node("QLinearConcat", [scale, zero, "s", scale, zero, "q", scale, zero], ["y"],
                         domain="com.microsoft", axis=1),
    ]  # fmt: skip
    weights = {"w": np.ones((4, 3, 3, 3), "f"), scale: np.array(1, "f"), zero: np.array(0, np.uint8)}
    model = make_model(nodes, [("x", ["n", 3, 6, 6])], [("y", None, TensorProto.UINT8)], weights, opset=17)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph = read(model, tmp_path, batch=2)
    assert [node.output_shapes[0] for node in graph.nodes] == [(2, 4, 6, 6)] * 4 + [(2, 8, 6, 6)]
    assert [cost.flops for cost in node_costs(graph)] == [288 * 54 + 288, 288, 576, 288, 0]


def test_what_a_custom_operator_promises_is_believed_for_the_batch_asked_for(tmp_path: Path) -> None:
    nodes = [helper.make_node("Magic", ["x"], ["m"], domain="own"), helper.make_node("Relu", ["m"], ["y"])]
    model = make_model(nodes, [("x", ["n", 3])], [("y", None)])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, ["n", 7]))
    graph = read(model, tmp_path, batch=6)
    assert graph.shape("y") == (6, 7)
    assert model_cost(graph, node_costs(graph)).unknown_operators == {"own.Magic": 1}


def test_a_graph_without_nodes(tmp_path: Path) -> None:
    graph = read(make_model([], [("x", [2])], [("x", [2])]), tmp_path)
    total = model_cost(graph, node_costs(graph))
    assert (graph.nodes, total.flops, total.coverage_percent) == ((), None, None)


def test_nodes_may_lie_in_any_order(tmp_path: Path) -> None:
    """Converters to 16 bits add the casts of inputs at the end."""
    nodes = [helper.make_node("MatMul", ["half", "w"], ["y"]), helper.make_node("Cast", ["x"], ["half"], to=FLOAT)]
    graph = read(make_model(nodes, [("x", [2, 4])], [("y", None)], {"w": np.ones((4, 3), "f")}), tmp_path)
    assert [node.op_type for node in graph.nodes] == ["MatMul", "Cast"]
    assert graph.shape("y") == (2, 3)
    assert node_costs(graph)[0].macs == 24


@pytest.mark.parametrize(
    ("turned", "first", "second"), [({"transA": 1}, (5, 4, 2), (5, 4, 3)), ({"transB": 1}, (5, 2, 4), (5, 3, 4))]
)
def test_a_fused_product_may_turn_its_factors(
    tmp_path: Path, turned: dict[str, int], first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    product = helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", **turned)
    for weights in ({"w": np.ones(second, "f")}, {}):
        inputs = [("x", list(first))] + ([] if weights else [("w", list(second))])
        model = make_model([product], inputs, [("y", None)], weights)
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        graph = read(model, tmp_path)
        assert graph.shape("y") == (5, 2, 3)
        assert node_costs(graph)[0].macs == 5 * 2 * 3 * 4


def test_what_onnx_runtime_and_scikit_learn_write_keeps_its_shape(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0]),
        helper.make_node("SimplifiedLayerNormalization", ["scaled", "g"], ["simple"]),
        helper.make_node("LayerNormalization", ["simple", "g", "g"], ["normal"]),  # ONNX has it from opset 17 on
        helper.make_node("MatMul", ["normal", "w"], ["y"]),
    ]
    weights = {"g": np.ones(4, "f"), "w": np.ones((4, 3), "f")}
    model = make_model(nodes, [("x", [2, 4])], [("y", None)], weights, opset=11)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    graph = read(model, tmp_path)
    assert graph.shape("y") == (2, 3)
    assert model_cost(graph, node_costs(graph)).unknown_operators == {}


def test_other_formats_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is no ONNX file"):
        read_source_graph(tmp_path / "model.xml", {}, None)


def test_a_graph_that_contradicts_itself_is_told_in_a_sentence(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], [], value=helper.make_tensor("t", TensorProto.INT64, [1], [1]))
    with pytest.raises(ModelError, match="is no valid ONNX graph"):
        read(make_model([constant, helper.make_node("Relu", ["x"], ["y"])], [("x", [1])], [("y", [1])]), tmp_path)


def test_damaged_weights_are_told_in_a_sentence(tmp_path: Path) -> None:
    model = big_model()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    graph = read(model, tmp_path)
    with pytest.raises(ModelError, match="weight 'w' cannot be read"):
        node_costs(graph)


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda path: path.stem)
def test_every_node_of_the_light_models_is_known(path: Path) -> None:
    """Their weights are ConstantOfShape nodes: folded, and weights of the convolutions all the same."""
    graph = read_source_graph(path, {}, None)
    costs = node_costs(graph)
    assert model_cost(graph, costs).coverage_percent == 100
    assert all(node.folded for node in graph.nodes if node.op_type == "ConstantOfShape")
    assert all(node.weights for node in graph.nodes if node.op_type == "Conv")
    assert all(cost.parameters for node, cost in zip(graph.nodes, costs, strict=True) if node.op_type == "Conv")


def long_chain(count: int) -> Iterable[onnx.NodeProto]:
    for place in range(count):
        inputs = [f"t{place}", f"w{place}"] if place % 2 else [f"t{place}"]
        yield helper.make_node("MatMul" if place % 2 else "Relu", inputs, [f"t{place + 1}"])


@pytest.mark.slow
def test_a_model_of_3000_nodes_takes_well_under_a_second(tmp_path: Path) -> None:
    """0.3 s of processor time on a small virtual machine; the limit leaves room for a busy or older machine."""
    weights = {f"w{place}": np.ones((16, 16), "f") for place in range(1, 3000, 2)}
    model = make_model(list(long_chain(3000)), [("t0", ["n", 16])], [("t3000", ["n", 16])], weights)
    path = save(model, tmp_path / "model.onnx")
    start = time.process_time()
    costs = node_costs(read_source_graph(path, {}, 4))
    taken = time.process_time() - start
    assert len(costs) == 3000
    assert taken < 1.0
