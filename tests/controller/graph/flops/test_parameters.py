"""What is known of the weights of each version in the library."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiny_models import make_model, save, tiny_classifier

from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.flops.parameters import count_weights
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.models import bounded
from enginebench_controller.models.derive.prune import prune
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records.model import WeightCount


def half_zero() -> np.ndarray:
    weight = np.ones((4, 4), "f")
    weight[:2] = 0
    return weight


def product(weights: dict[str, np.ndarray]):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Reshape", ["m", "shape"], ["y"])]
    shape = {"shape": np.array([-1, 4], np.int64)}
    return make_model(nodes, [("x", [1, 4])], [("y", [1, 4])], weights | shape)


def test_zeros_of_parameters_are_counted_as_a_version_is_added(library: ModelLibrary, tmp_path: Path) -> None:
    version = library.add(save(product({"w": half_zero()}), tmp_path / "m.onnx"))

    counted = library.weights(version)

    assert counted == WeightCount(16, 8, {"float32": 16}), "the shape of the Reshape is no parameter"
    assert counted.sparsity == 0.5


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT4"])
def test_weights_of_any_size_and_type_are_counted_wherever_they_lie(kind: str, external: bool, tmp_path: Path) -> None:
    rows = 600_000  # more than is read at once
    values = np.random.default_rng(0).integers(-1, 2, (rows, 4))
    data_type = getattr(TensorProto, kind)
    weight = numpy_helper.from_array(values.astype(helper.tensor_dtype_to_np_dtype(data_type)), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = make_model(nodes, [("x", [1, rows])], [("y", [1, 4])], {})
    model.graph.initializer.append(weight)
    path = tmp_path / "big.onnx"
    onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)

    counted = count_weights(path, "onnx")

    assert counted is not None
    assert (counted.parameters, counted.nonzero) == (values.size, np.count_nonzero(values))


def test_a_weight_that_two_nodes_read_counts_once(library: ModelLibrary, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("MatMul", ["m", "w"], ["y"])]
    model = make_model(nodes, [("x", [1, 4])], [("y", [1, 4])], {"w": half_zero()})

    counted = library.weights(library.add(save(model, tmp_path / "m.onnx")))

    assert counted is not None
    assert counted.parameters == 16


def test_a_pruned_child_has_the_zeros_it_was_made_for(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))

    before, after = (library.weights(one) for one in (parent, prune(library, parent, 0.75)))

    assert before is not None
    assert after is not None
    assert after.parameters == before.parameters
    assert after.parameters - after.nonzero > 0.7 * after.parameters > before.parameters - before.nonzero


def test_what_cannot_be_counted_is_unknown_and_still_kept(library: ModelLibrary, tmp_path: Path) -> None:
    nodes = [helper.make_node("Sin", ["w"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    unknown = make_model(nodes, [("x", [1, 4])], [("y", [1, 4])], {"w": np.ones((4, 4), "f")})

    version = library.add(save(unknown, tmp_path / "m.onnx"))

    assert library.weights(version) is None
    assert count_weights(tmp_path / "m.onnx", "openvino_ir") is None


@pytest.mark.parametrize("dims", [[None, 4, None], ["batch", 4, "past"], None])
def test_the_sizes_of_inputs_are_not_needed_to_count_weights(
    library: ModelLibrary, tmp_path: Path, dims: list[int | str | None] | None
) -> None:
    """A decoder's past has no size by default, nor has a picture whose sides bear no names."""
    weight = np.zeros((3, 4, 2), "f")
    weight[0] = 1
    nodes = [helper.make_node("Identity", ["w"], ["v"]), helper.make_node("Conv", ["x", "v"], ["y"])]
    model = make_model(nodes, [("x", dims)], [("y", None)], {"w": weight})

    counted = library.weights(library.add(save(model, tmp_path / "m.onnx")))

    assert counted is not None
    assert (counted.parameters, counted.nonzero, counted.sparsity) == (24, 8, pytest.approx(2 / 3))


def test_weights_that_only_their_operator_can_unpack_are_unknown_within_a_branch_too(tmp_path: Path) -> None:
    """MatMulNBits of 64×16 weights in 4 bits: packed in bytes, with a scale for each block of 32."""
    sizes = {"K": 64, "N": 16, "bits": 4, "block_size": 32}
    product = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    weights = {"w": np.ones((16, 2, 16), np.uint8), "s": np.ones(32, "f")}
    within = helper.make_graph([product], "branch", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=within, else_branch=within)
    for number, (node, asked) in enumerate(((product, []), (branch, [("c", [], TensorProto.BOOL)]))):
        model = make_model([node], [("x", [1, 64]), *asked], [("y", None)], weights)
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        path = save(model, tmp_path / f"m{number}.onnx")
        assert count_weights(path, "onnx") is None
        (cost,) = node_costs(read_source_graph(path, {}, None))
        assert (cost.parameters, cost.nonzero_parameters) == (None, None)


def test_large_files_have_the_time_that_a_slow_disk_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bounded.Bounds] = []
    monkeypatch.setattr(bounded, "_asked", lambda _call, bounds, _subject: seen.append(bounds))
    path = save(tiny_classifier(), tmp_path / "tiny.onnx")
    count_weights(path, "onnx")
    (tmp_path / "weights").mkdir()
    with (tmp_path / "weights" / "big.bin").open("wb") as sparse:
        sparse.truncate(5 * 2**30)  # takes no room
    count_weights(path, "onnx")
    assert [round(one.seconds) for one in seen] == [40, 40 + 215]


def test_a_model_without_parameters_has_no_sparsity(library: ModelLibrary, tmp_path: Path) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [("x", [1, 4])], [("y", [1, 4])])

    counted = library.weights(library.add(save(model, tmp_path / "m.onnx")))

    assert counted is not None
    assert (counted.parameters, counted.sparsity) == (0, None)


@pytest.mark.parametrize("content", ["", "[]", '{"odd": 1}'])
def test_a_damaged_count_is_unknown(library: ModelLibrary, tmp_path: Path, content: str) -> None:
    version = library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    (library.main_path(version).parents[1] / "weights.json").write_text(content)

    assert library.weights(version) is None


def test_the_generation_differs_after_every_change(library: ModelLibrary, tmp_path: Path) -> None:
    seen = [library.generation()]
    path = save(tiny_classifier(), tmp_path / "tiny.onnx")
    version = library.add(path)
    seen.append(library.generation())
    assert library.generation() == seen[-1]
    library.add(path, name="renamed")
    seen.append(library.generation())
    library.remove(version)
    assert len(set(seen)) == 3
    assert library.generation() == seen[0]


def test_a_gather_that_names_no_output_reads_no_part_of_its_table(tmp_path: Path) -> None:
    """As a damaged file may have it."""
    table = {"table": np.ones((8, 4), "f")}
    model = make_model(
        [helper.make_node("Gather", ["table", "ids"], ["y"])], [("ids", [2], TensorProto.INT64)], [("y", [2, 4])], table
    )
    graph = read_source_graph(save(model, tmp_path / "model.onnx"), {}, None)
    assert [one.weight_bytes for one in node_costs(graph)] == [2 * 4 * 4]
    damaged = replace(graph, nodes=(replace(graph.nodes[0], outputs=(), output_shapes=()),))
    assert [one.weight_bytes for one in node_costs(damaged)] == [8 * 4 * 4]
