"""A fixed batch is rewritten only where the outputs stay the source's, item by item."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tiny_models import make_model, save, tiny_classifier

from enginebench_controller.errors import ModelError
from enginebench_controller.models.derive.quantize import quantize
from enginebench_controller.models.derive.rebatch import rebatch
from enginebench_controller.models.formats.description import describe
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.shapes import parse_shapes
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import ModelVersion


def add(library: ModelLibrary, tmp_path: Path, model: onnx.ModelProto, name: str = "m") -> ModelVersion:
    return library.add(save(model, tmp_path / f"{name}.onnx"))


def run(library: ModelLibrary, version: ModelVersion, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(library.main_path(version)).run(None, {"x": x})[0]


@pytest.mark.parametrize("frozen", [None, 1, -1])
def test_a_batch_of_one_becomes_four_and_each_item_keeps_its_output(
    library: ModelLibrary, tmp_path: Path, frozen: int | None
) -> None:
    source = add(library, tmp_path, tiny_classifier(batch=1, frozen=frozen))
    derived = rebatch(library, source, 4)
    x = np.random.default_rng(3).standard_normal((4, 3, 4, 4)).astype("f")
    expected = np.concatenate([run(library, source, item[None]) for item in x])
    np.testing.assert_allclose(run(library, derived, x), expected, rtol=1e-5, atol=1e-5)
    assert (derived.parent_digest, str(derived.derivation), derived.name) == (source.digest, "batch=4", "m-batch4")
    described = describe(library.main_path(derived))
    assert (described.inputs[0].dims, described.outputs[0].dims) == ((4, 3, 4, 4), (4, 5))
    assert bind(described, 4).fixed_batch is None


def test_it_is_derived_once(library: ModelLibrary, tmp_path: Path) -> None:
    source = add(library, tmp_path, tiny_classifier(batch=1, frozen=1))
    assert rebatch(library, source, 2) == rebatch(library, source, 2)
    assert len(library.versions()) == 2


@pytest.mark.parametrize("batch", [1, 2, 5, 6])
def test_a_batch_of_three_can_shrink_and_grow(library: ModelLibrary, tmp_path: Path, batch: int) -> None:
    source = add(library, tmp_path, tiny_classifier(batch=3, frozen=3))
    derived = rebatch(library, source, batch)
    x = np.random.default_rng(3).standard_normal((6, 3, 4, 4)).astype("f")
    expected = np.concatenate([run(library, source, x[:3]), run(library, source, x[3:])])[:batch]
    np.testing.assert_allclose(run(library, derived, x[:batch]), expected, rtol=1e-5, atol=1e-5)


def test_a_shape_in_a_constant_node_and_one_shared_with_a_weight_are_told_apart(
    library: ModelLibrary, tmp_path: Path
) -> None:
    """Both reshapes read [1, 6]; only one of them reshapes items."""
    shape = helper.make_tensor("t", TensorProto.INT64, [2], [1, 6])
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Reshape", ["w", "shape"], ["row"]),
        helper.make_node("Add", ["flat", "row"], ["y"]),
    ]
    model = make_model(nodes, [("x", [1, 2, 3])], [("y", [1, 6])], {"w": np.arange(6, dtype="f")})
    source = add(library, tmp_path, model)
    derived = rebatch(library, source, 3)
    x = np.random.default_rng(0).standard_normal((3, 2, 3)).astype("f")
    np.testing.assert_allclose(run(library, derived, x), x.reshape(3, 6) + np.arange(6, dtype="f"))


def test_heads_merged_into_the_batch_are_kept_apart(library: ModelLibrary, tmp_path: Path) -> None:
    """(1, 4 heads · 2, 3) → (4, 2, 3) → softmax → (1, 8, 3): the first size is batch × heads."""
    nodes = [
        helper.make_node("Reshape", ["x", "split"], ["heads"]),
        helper.make_node("MatMul", ["heads", "w"], ["mixed"]),
        helper.make_node("Softmax", ["mixed"], ["soft"], axis=1),
        helper.make_node("Reshape", ["soft", "join"], ["y"]),
    ]
    weights = {
        "split": np.array([4, 2, 3], np.int64),
        "join": np.array([1, 8, 3], np.int64),
        "w": np.random.default_rng(0).standard_normal((3, 3)).astype("f"),
    }
    source = add(library, tmp_path, make_model(nodes, [("x", [1, 8, 3])], [("y", [1, 8, 3])], weights))
    derived = rebatch(library, source, 2)
    x = np.random.default_rng(1).standard_normal((2, 8, 3)).astype("f")
    expected = np.concatenate([run(library, source, item[None]) for item in x])
    np.testing.assert_allclose(run(library, derived, x), expected, rtol=1e-5, atol=1e-6)


def test_a_token_joined_to_every_item_is_repeated(library: ModelLibrary, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Expand", ["start", "size"], ["starts"]),
        helper.make_node("Concat", ["starts", "x", "end"], ["y"], axis=1),
    ]
    weights = {
        "start": np.ones((1, 1, 2), "f"),
        "end": np.full((1, 1, 2), 2, "f"),
        "size": np.array([1, 1, 2], np.int64),
    }
    source = add(library, tmp_path, make_model(nodes, [("x", [1, 3, 2])], [("y", [1, 5, 2])], weights))
    x = np.random.default_rng(0).standard_normal((4, 3, 2)).astype("f")
    y = run(library, rebatch(library, source, 4), x)
    assert y[:, 0].tolist() == [[1, 1]] * 4
    assert y[:, 4].tolist() == [[2, 2]] * 4


@pytest.mark.slow
@pytest.mark.parametrize("source_batch", [1, 2])
@pytest.mark.parametrize(
    "mixing",
    [
        helper.make_node("Softmax", ["x"], ["y"], axis=0),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
        helper.make_node("CumSum", ["x", "zero"], ["y"]),
    ],
    ids=lambda node: node.op_type,
)
@pytest.mark.parametrize("batch", [3, 4])
def test_a_model_that_mixes_the_items_of_a_batch_is_refused(
    library: ModelLibrary, tmp_path: Path, mixing: onnx.NodeProto, source_batch: int, batch: int
) -> None:
    mean = helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1)
    weights = {"zero": np.array(0, np.int64)}
    model = make_model([mean, mixing], [("x", [source_batch, 4])], [("y", [source_batch, 4])], weights)
    source = add(library, tmp_path, model)
    with pytest.raises(ModelError, match=r"cannot be rewritten for batch \d: output 'y' differs"):
        rebatch(library, source, batch)
    assert library.versions() == [source]


def test_a_model_that_keeps_one_item_only_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "first"], ["y"], axis=0)
    model = make_model([node], [("x", [1, 4])], [("y", [4])], {"first": np.array(0, np.int64)})
    with pytest.raises(ModelError, match="cannot be rewritten"):
        rebatch(library, add(library, tmp_path, model), 2)


def test_a_model_whose_shapes_no_longer_fit_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    weights = {"w": np.ones((2, 3), "f")}
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", [2, 3])], [("y", [2, 3])], weights)
    with pytest.raises(ModelError, match="use --batch 2"):
        rebatch(library, add(library, tmp_path, model), 3)


def test_a_quantized_model_can_be_rewritten(library: ModelLibrary, tmp_path: Path) -> None:
    small = quantize(library, add(library, tmp_path, tiny_classifier(batch=1, frozen=1)))
    derived = rebatch(library, small, 3)
    assert derived.parent_digest == small.digest
    assert describe(library.main_path(derived)).outputs[0].dims == (3, 5)


def test_the_proof_has_inputs_filled_as_was_said(library: ModelLibrary, tmp_path: Path) -> None:
    """A length of 0 or 1, as it would be drawn, tears the items apart."""
    nodes = [
        helper.make_node("Concat", ["rest", "width"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = [("x", [1, 8]), ("width", [1], TensorProto.INT64)]
    source = add(library, tmp_path, make_model(nodes, inputs, [("y", None)], {"rest": np.array([-1])}))
    shapes = parse_shapes({}, {"width": "none"})
    with pytest.raises(ModelError, match="cannot be rewritten for batch 2"):
        rebatch(library, source, 2, shapes)
    child = rebatch(library, source, 2, shapes, {"width": "8"})
    assert [one.dims for one in describe(library.main_path(child)).inputs] == [(2, 8), (1,)]


def test_a_constant_that_was_said_proves_nothing_since_all_items_are_alike_then(
    library: ModelLibrary, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    source = add(library, tmp_path, make_model(nodes, [("x", [1, 4])], [("y", [1, 4])]))
    with pytest.raises(ModelError, match="output 'y' differs"):
        rebatch(library, source, 2, None, {"x": "ones"})
    assert library.versions() == [source]


def test_a_constant_counts_where_another_input_tells_the_items_apart(library: ModelLibrary, tmp_path: Path) -> None:
    """As a mask of ones beside tokens does: drawn from 0 and 1, it may mask all of an item."""
    nodes = [helper.make_node("Mul", ["x", "mask"], ["y"])]
    model = make_model(nodes, [("x", [1, 4]), ("mask", [1, 4])], [("y", [1, 4])])
    kept = bind(describe(save(model, tmp_path / "m.onnx")), 1).varied_values({"mask": "ones"})
    assert [(one.input, one.is_constant) for one in kept] == [("mask", True)]


def test_a_dynamic_batch_needs_no_rewriting(library: ModelLibrary, tmp_path: Path) -> None:
    source = add(library, tmp_path, tiny_classifier())
    assert rebatch(library, source, 4) == source


@pytest.mark.slow
def test_other_formats_are_refused(library: ModelLibrary, tmp_path: Path) -> None:
    import openvino

    model = openvino.convert_model(save(tiny_classifier(batch=1), tmp_path / "m.onnx"))
    openvino.save_model(model, tmp_path / "m.xml")
    with pytest.raises(ModelError, match="openvino_ir and cannot be rewritten for batch 2; only ONNX"):
        rebatch(library, library.add(tmp_path / "m.xml"), 2)


def test_a_batch_in_the_second_dimension_is_rewritten_there(library: ModelLibrary, tmp_path: Path) -> None:
    """Time-major: seven steps of three items, mixed over time by a matrix product."""
    mix = np.random.default_rng(1).standard_normal((7, 7)).astype(np.float32)
    weights = {"mix": mix, "f": np.array([7, -1]), "b": np.array([7, 3, 10])}
    nodes = [
        helper.make_node("Reshape", ["x", "f"], ["flat"]),
        helper.make_node("MatMul", ["mix", "flat"], ["mixed"]),
        helper.make_node("Reshape", ["mixed", "b"], ["y"]),
    ]
    model = make_model(nodes, [("x", [7, 3, 10])], [("y", [7, 3, 10])], weights)
    version = add(library, tmp_path, model)
    derived = rebatch(library, version, 5, parse_shapes({}, {"x": 1}))
    assert describe(library.main_path(derived)).inputs[0].dims == (7, 5, 10)
    x = np.random.default_rng(2).standard_normal((7, 5, 10)).astype(np.float32)
    expected = np.tensordot(mix, x, axes=1)
    np.testing.assert_allclose(run(library, derived, x), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match=r"if its 7 are items, or say where the batch is .*--batch-axis x=1"):
        rebatch(library, version, 5)


def test_copies_for_other_inputs_without_a_batch_are_other_copies(library: ModelLibrary, tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("Add", ["x", "s"], ["y"])], [("x", [1, 4]), ("s", [1, 4])], [("y", [1, 4])], {}
    )
    version = add(library, tmp_path, model)
    both, one = rebatch(library, version, 3), rebatch(library, version, 3, parse_shapes({}, {"s": "none"}))
    assert [item.dims for item in describe(library.main_path(both)).inputs] == [(3, 4), (3, 4)]
    assert [item.dims for item in describe(library.main_path(one)).inputs] == [(3, 4), (1, 4)]


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_of_a_sequence_are_no_items(library: ModelLibrary, tmp_path: Path, batch: int) -> None:
    """The first steps of a sequence come out alike however many there are, since none knows of those after it."""
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    model = make_model(nodes, [("x", [7, 5])], [("y", [7, 5])], {"axis": np.array(0)})
    with pytest.raises(ModelError, match="differs from what the source gives for each item alone"):
        rebatch(library, add(library, tmp_path, model), batch)
