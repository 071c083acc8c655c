"""Quantized and pruned children of any ONNX model, linked to their parents."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic
from tiny_models import make_model, save, tiny_classifier, tiny_embedding

from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.models.derive.prune import prunable_weights, prune, prune_by_weight
from enginebench_controller.models.derive.quantize import CalibrationFolder, int8_version, quantize
from enginebench_controller.models.inputs import input_set
from enginebench_controller.models.inputs.shapes import NO_BATCH, GivenShape
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import InputTensor, ModelVersion


def weights_of(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def test_the_int8_child_is_near_its_parent_and_linked_to_it(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    child = quantize(library, parent)
    assert (child.parent_digest, child.name) == (parent.digest, "m-int8")
    assert str(child.derivation) == "int8 QDQ, u8 × s8 (7 bits), min-max over 8 inputs of seed 0"
    x = {"x": np.random.default_rng(5).standard_normal((2, 3, 4, 4)).astype("f")}
    found, expected = (onnxruntime.InferenceSession(library.main_path(one)).run(None, x)[0] for one in (child, parent))
    assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_the_int8_child_has_folded_batch_norms_signed_weights_per_channel_and_plain_operator_sets(
    library: ModelLibrary, tmp_path: Path
) -> None:
    child = quantize(library, library.add(save(tiny_classifier(), tmp_path / "m.onnx")))
    model = onnx.load(library.main_path(child))
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 13)]
    weights = weights_of(library.main_path(child))
    conv = next(array for name, array in weights.items() if array.ndim == 4)
    scales = next(array for name, array in weights.items() if "scale" in name and array.shape == (4,))
    assert (conv.dtype, len(set(scales.tolist()))) == (np.int8, 4)
    assert np.abs(conv).max() <= 64


def test_quantizing_is_done_once_a_seed_and_sample_count(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    assert quantize(library, parent) == quantize(library, parent)
    assert quantize(library, parent, calibration_seed=1, samples=2).digest != quantize(library, parent).digest


def test_one_that_is_known_is_found_without_loading_any_weights(library: ModelLibrary, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(tiny_classifier(), path, save_as_external_data=True, location="m.weights", size_threshold=64)
    parent = library.add(path)
    child = quantize(library, parent)
    next(library.main_path(parent).parent.glob("*.weights")).unlink()
    assert quantize(library, parent) == child


def test_an_older_operator_set_is_raised_for_scales_per_channel(library: ModelLibrary, tmp_path: Path) -> None:
    model = tiny_classifier()
    model.opset_import[0].version = 11
    child = quantize(library, library.add(save(model, tmp_path / "m.onnx")))
    assert onnx.load(library.main_path(child)).opset_import[0].version == 13


def test_weights_that_are_inputs_as_well_are_folded_and_quantized(library: ModelLibrary, tmp_path: Path) -> None:
    model = tiny_classifier()
    model.ir_version = 3
    for tensor in model.graph.initializer:
        value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(value)
    child = quantize(library, library.add(save(model, tmp_path / "m.onnx")))
    graph = onnx.load(library.main_path(child)).graph
    assert [value.name for value in graph.input] == ["x"]
    assert "BatchNormalization" not in {node.op_type for node in graph.node}


def test_what_has_nothing_to_quantize_or_is_quantized_already_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no layer that can be quantized"):
        quantize(library, library.add(save(tiny_embedding(), tmp_path / "e.onnx")))
    child = quantize(library, library.add(save(tiny_classifier(), tmp_path / "m.onnx")))
    with pytest.raises(ModelError, match=r"m-int8 cannot be quantized: it is quantized already$"):
        quantize(library, child)


def test_what_is_quantized_dynamically_is_told_so(library: ModelLibrary, tmp_path: Path) -> None:
    weights = {"w": np.random.default_rng(0).standard_normal((8, 4)).astype("f")}
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [1, 8])], [("y", [1, 4])], weights)
    quantize_dynamic(save(model, tmp_path / "m.onnx"), tmp_path / "dynamic.onnx")
    with pytest.raises(ModelError, match=r"it is quantized already \(dynamically\)"):
        quantize(library, library.add(tmp_path / "dynamic.onnx"))


def test_what_does_not_run_is_refused_in_the_quantizers_words(library: ModelLibrary, tmp_path: Path) -> None:
    model = make_model([helper.make_node("Nonsense", ["x"], ["y"])], [("x", [1, 3])], [("y", [1, 3])])
    with pytest.raises(ModelError, match=r"cannot be quantized: .*Nonsense"):
        quantize(library, library.add(save(model, tmp_path / "m.onnx")))


def speech(library: ModelLibrary, folder: Path) -> ModelVersion:
    """What is shorter than five frames is silence."""
    nodes = [
        helper.make_node("Greater", ["length", "four"], ["long"]),
        helper.make_node("Cast", ["long"], ["loudness"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["loudness", "axes"], ["spread"]),
        helper.make_node("Mul", ["signal", "spread"], ["heard"]),
        helper.make_node("MatMul", ["heard", "w"], ["y"]),
    ]
    weights = {"four": np.array(4), "axes": np.array([1, 2]), "w": np.random.default_rng(0).standard_normal((8, 4))}
    inputs = [("signal", ["batch", "frames", 8]), ("length", ["batch"], TensorProto.INT64)]
    model = make_model(nodes, inputs, [("y", None)], weights | {"w": weights["w"].astype("f")})
    return library.add(save(model, folder / "speech.onnx"))


@pytest.mark.parametrize(("said", "told"), [({}, "length=32"), ({"length": "7"}, "length=7")])
def test_an_int8_child_is_calibrated_on_lengths_as_a_run_has_them(
    library: ModelLibrary, tmp_path: Path, said: dict[str, str], told: str
) -> None:
    parent = speech(library, tmp_path)
    child = quantize(library, parent, shapes={"signal": (1, 32, 8)}, said=said)
    assert str(child.derivation).endswith(f"min-max over 8 inputs of seed 0 with {told}, signal=1x32x8")
    given = {"signal": np.random.default_rng(5).standard_normal((1, 32, 8)).astype("f"), "length": np.array([32])}
    found, expected = (
        onnxruntime.InferenceSession(library.main_path(one)).run(None, given)[0] for one in (child, parent)
    )
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_a_constant_that_was_said_calibrates_nothing(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    assert quantize(library, parent, said={"x": "zeros"}) == quantize(library, parent)


def test_infinities_of_the_model_itself_are_no_reason_against_its_int8_child(
    library: ModelLibrary, tmp_path: Path
) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("Concat", ["s", "mask"], ["y"], axis=1)]
    weights = {"w": np.random.default_rng(0).standard_normal((8, 4)).astype("f"), "mask": np.full((1, 2), -np.inf, "f")}
    model = make_model(nodes, [("x", [1, 8])], [("y", [1, 6])], weights)
    child = quantize(library, library.add(save(model, tmp_path / "m.onnx")))
    (found,) = onnxruntime.InferenceSession(library.main_path(child)).run(None, {"x": np.ones((1, 8), "f")})
    assert np.isfinite(found).tolist() == [[True] * 4 + [False] * 2]


@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_pruning_zeroes_the_smallest_weights_of_every_layer(
    library: ModelLibrary, tmp_path: Path, sparsity: float
) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    child = prune(library, parent, sparsity)
    assert (child.parent_digest, child.name) == (parent.digest, f"m-sparse{sparsity * 100:g}")
    before, after = weights_of(library.main_path(parent)), weights_of(library.main_path(child))
    for name in ("w", "fc"):
        zeroed = after[name] == 0
        assert zeroed.mean() == pytest.approx(sparsity, abs=1 / zeroed.size)
        assert np.abs(before[name][zeroed]).max() <= np.abs(before[name][~zeroed]).min()
        np.testing.assert_array_equal(after[name][~zeroed], before[name][~zeroed])
    for name in ("s", "b", "m", "v", "shape"):
        np.testing.assert_array_equal(after[name], before[name])
    assert prune(library, parent, sparsity) == child


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
def test_pruning_keeps_the_element_type_and_reaches_constants_in_nodes(
    library: ModelLibrary, tmp_path: Path, kind: int
) -> None:
    values = np.arange(1, 13).reshape(3, 4).astype(helper.tensor_dtype_to_np_dtype(kind))
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(values, "w"))
    model = make_model(
        [constant, helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [1, 3], kind)], [("y", [1, 4], kind)]
    )
    child = prune(library, library.add(save(model, tmp_path / "m.onnx")), 0.5)
    tensor = onnx.load(library.main_path(child)).graph.node[0].attribute[0].t
    assert tensor.data_type == kind
    assert numpy_helper.to_array(tensor).astype("f").ravel().tolist() == [0] * 6 + [7, 8, 9, 10, 11, 12]


def test_a_model_with_external_data_can_be_pruned(library: ModelLibrary, tmp_path: Path) -> None:
    onnx.save(tiny_classifier(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=100)
    parent = library.add(tmp_path / "m.onnx")
    assert len(parent.files) == 2
    assert (weights_of(library.main_path(prune(library, parent, 0.75)))["fc"] == 0).mean() == 0.75


def test_a_quantized_model_can_be_pruned(library: ModelLibrary, tmp_path: Path) -> None:
    small = quantize(library, library.add(save(tiny_classifier(), tmp_path / "m.onnx")))
    child = prune(library, small, 0.5)
    arrays = [one for one in weights_of(library.main_path(child)).values() if one.dtype == np.int8 and one.ndim >= 2]
    assert arrays
    assert all((one == 0).mean() >= 0.5 for one in arrays)


@pytest.mark.parametrize("sparsity", [0, 1, -0.1, 1.5, float("nan")])
def test_a_sparsity_outside_0_and_1_is_refused(library: ModelLibrary, tmp_path: Path, sparsity: float) -> None:
    with pytest.raises(ModelError, match="is not between 0 and 1"):
        prune(library, library.add(save(tiny_classifier(), tmp_path / "m.onnx")), sparsity)


def test_weights_that_are_zero_already_are_not_pruned_again(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    sparse = prune(library, parent, 0.9)
    for share in (0.5, 1e-9):
        with pytest.raises(ModelError, match="m-sparse90 is not pruned, as nothing changed"):
            prune(library, sparse, share)
    with pytest.raises(ModelError, match="nothing changed"):
        prune_by_weight(library, sparse, {"fc": 0.5})
    assert library.resolve("m-sparse90") == sparse


def test_bytes_that_are_a_version_already_stay_that_one(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    half = prune(library, parent, 0.5)
    assert prune(library, parent, 0.5000001) == half
    more = prune(library, parent, 0.9)
    assert prune(library, half, 0.9) == more, "with the name, the parent and the share of before"
    assert {one.name for one in library.versions()} == {"m", "m-sparse50", "m-sparse90"}


def test_a_model_without_layers_to_prune_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no Conv, Gemm or MatMul"):
        prune(library, library.add(save(tiny_embedding(), tmp_path / "m.onnx")), 0.5)


def test_pruning_by_weight_touches_only_the_weights_named(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    child = prune_by_weight(library, parent, {"fc": 0.75, "w": 0.0})
    before, after = weights_of(library.main_path(parent)), weights_of(library.main_path(child))
    assert (after["fc"] == 0).mean() == 0.75
    np.testing.assert_array_equal(after["w"], before["w"])
    assert child.parent_digest == parent.digest
    assert prune_by_weight(library, parent, {"fc": 0.75}) == child
    assert prune_by_weight(library, parent, {"fc": 0.5}).digest != child.digest
    with pytest.raises(ModelError, match="none of its weights"):
        prune_by_weight(library, parent, {"nothing": 0.5})


def test_prunable_weights_come_with_their_magnitudes_in_the_order_of_the_graph(
    library: ModelLibrary, tmp_path: Path
) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    conv, fc = prunable_weights(library, parent)
    assert [(one.name, one.size, one.grouped) for one in (conv, fc)] == [("w", 108, False), ("fc", 320, False)]
    values = np.abs(weights_of(library.main_path(parent))["fc"])
    assert len(fc.magnitudes) == 100
    assert np.mean(values < fc.magnitudes[90]) == pytest.approx(0.9, abs=0.01)


def test_a_grouped_convolution_is_known(library: ModelLibrary, tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "depthwise", group=4)
    weights = {"w": np.ones((4, 1, 1, 1), "f")}
    model = make_model([conv], [("x", [1, 4, 2, 2])], [("y", [1, 4, 2, 2])], weights)
    (weight,) = prunable_weights(library, library.add(save(model, tmp_path / "m.onnx")))
    assert weight.grouped


def calibration_folder(folder: Path, *, scale: float, count: int = 3) -> CalibrationFolder:
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(count):
        np.save(folder / f"sample{number}.npy", scale * random.standard_normal((3, 4, 4)).astype("f"))
    return CalibrationFolder(folder)


def test_given_samples_set_the_ranges_and_stand_in_the_derivation(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    small, large = (
        quantize(library, parent, given=calibration_folder(tmp_path / name, scale=scale))
        for name, scale in (("small", 1.0), ("large", 100.0))
    )
    assert re.search(r"min-max over 3 inputs of small \([0-9a-f]{12}; .*3 samples", str(small.derivation))
    scales = [weights_of(library.main_path(one))["x_scale"] for one in (small, large)]
    assert scales[1] == pytest.approx(100 * scales[0], rel=1e-3)


def test_the_same_samples_are_found_again_and_fewer_are_another_version(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "samples", scale=1.0)
    child = quantize(library, parent, given=given)
    assert quantize(library, parent, given=given) == child
    fewer = quantize(library, parent, given=replace(given, count=1))
    assert "over 1 inputs of samples" in str(fewer.derivation)
    assert "1 of 3 samples at equal distances" in str(fewer.derivation)
    assert fewer.derivation != child.derivation


def test_samples_that_do_not_fit_are_refused_with_what_was_expected(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    (tmp_path / "odd").mkdir()
    np.save(tmp_path / "odd" / "a.npy", np.zeros((5, 5), "f"))
    with pytest.raises(InputError, match=r"takes \(3, 4, 4\) for one sample"):
        quantize(library, parent, given=CalibrationFolder(tmp_path / "odd"))
    with pytest.raises(InputError, match="cannot read the folder"):
        quantize(library, parent, given=CalibrationFolder(tmp_path / "absent"))


def test_a_calibration_file_with_numbers_that_are_not_finite_is_named(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    for wrong in (np.inf, np.nan):
        given = calibration_folder(tmp_path / str(wrong), scale=1.0)
        broken = np.zeros((3, 4, 4), "f")
        broken[0, 1, 2] = wrong
        np.save(given.folder / "sample1.npy", broken)
        expected = rf"sample1\.npy holds 1 numbers that are not finite, such as {wrong}, for input 'x'"
        with pytest.raises(InputError, match=expected):
            quantize(library, parent, given=given)


def test_inputs_on_which_nothing_comes_alive_calibrate_nothing(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    with pytest.raises(ModelError, match=r"calibration inputs are zero; calibrate on other inputs.*--inputs FOLDER"):
        quantize(library, parent, given=calibration_folder(tmp_path / "zeros", scale=0.0))
    assert library.versions() == [parent]


def test_a_version_that_no_input_changes_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    """All of these are negative or zero, and behind the Relu there is nothing of them."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
    weights = {"w": 0.01 * np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f")}
    model = make_model(nodes, [("x", ["batch", 3, 4, 4])], [("y", ["batch", 4, 2, 2])], weights)
    parent = library.add(save(model, tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "dark", scale=0.0)
    np.save(given.folder / "sample0.npy", np.full((3, 4, 4), -1, "f"))
    with pytest.raises(ModelError, match=r"gives the same outputs whatever its own inputs are; calibrate on other"):
        quantize(library, parent, given=given)


def test_zeros_beside_inputs_that_are_no_floats_are_calibrated_on(library: ModelLibrary, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["g"]),
        helper.make_node("Add", ["g", "state"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    random = np.random.default_rng(0)
    weights = {"words": random.standard_normal((9, 8)).astype("f"), "w": random.standard_normal((8, 4)).astype("f")}
    inputs = [("ids", ["batch", 5], TensorProto.INT64), ("state", ["batch", 5, 8])]
    parent = library.add(save(make_model(nodes, inputs, [("y", ["batch", 5, 4])], weights), tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "texts", scale=0.0, count=0)
    for number in range(3):
        np.save(given.folder / f"{number}.ids.npy", random.integers(0, 9, 5))
        np.save(given.folder / f"{number}.state.npy", np.zeros((5, 8), "f"))
    assert quantize(library, parent, given=given).parent_digest == parent.digest


def scaled_pixels(library: ModelLibrary, folder: Path, other: tuple[Any, ...]) -> ModelVersion:
    """Averages of what a convolution makes of pixels, times the largest of another input."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Cast", ["times"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["real"], ["most"], keepdims=0),
        helper.make_node("Mul", ["g", "most"], ["y"]),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f"), "b": np.ones(4, "f")}
    model = make_model(nodes, [("x", ["batch", 3, 8, 8]), ("times", *other)], [("y", None)], weights)
    return library.add(save(model, folder / "scaled.onnx"))


@pytest.mark.parametrize(
    ("other", "said"),
    [((["batch", 2], TensorProto.INT64), {}), (([1],), {"times": "2"})],
    ids=["beside sizes", "beside a number that was said"],
)
def test_black_images_calibrate_nothing_beside_what_is_the_same_for_all(
    library: ModelLibrary, tmp_path: Path, other: tuple[Any, ...], said: dict[str, str]
) -> None:
    parent = scaled_pixels(library, tmp_path, other)
    given = calibration_folder(tmp_path / "night", scale=0.0, count=0)
    for number in range(3):
        arrays = {"x": np.zeros((3, 8, 8), "f"), "times": np.array([8, 8])}
        np.savez(given.folder / f"{number}.npz", **{name: one for name, one in arrays.items() if name not in said})
    with pytest.raises(ModelError, match="all numbers of the calibration inputs are zero"):
        quantize(library, parent, given=given, said=said)


def resizer(library: ModelLibrary, folder: Path) -> ModelVersion:
    """Runs on few values of its float input `scales`: zeros and negative ones it refuses."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["c", "", "scales"], ["r"], mode="nearest"),
        helper.make_node("Conv", ["r", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((4, 3, 3, 3)).astype("f"),
        "v": random.standard_normal((2, 4, 3, 3)).astype("f"),
    }
    model = make_model(nodes, [("x", [1, 3, 4, 4]), ("scales", [4])], [("y", None)], weights)
    return library.add(save(model, folder / "resizer.onnx"))


@pytest.mark.parametrize("said", [{}, {"scales": "1"}])
def test_what_the_model_itself_cannot_run_is_no_trial_of_its_int8_child(
    library: ModelLibrary, tmp_path: Path, said: dict[str, str]
) -> None:
    parent = resizer(library, tmp_path)
    given = calibration_folder(tmp_path / "scenes", scale=1.0, count=0)
    for number in range(2):
        x = np.random.default_rng(number).standard_normal((1, 3, 4, 4)).astype("f")
        arrays = {"x": x} if said else {"x": x, "scales": np.array([1, 1, 2, 2], "f")}
        np.savez(given.folder / f"{number}.npz", **arrays)
    assert quantize(library, parent, given=given, said=said).parent_digest == parent.digest


def test_what_was_said_of_an_input_brings_no_dead_version_to_life(library: ModelLibrary, tmp_path: Path) -> None:
    """Without its gain the output is another one, and all that is seen of `x` is nothing behind the Relu."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "w", "b"], ["c"]),
        helper.make_node("Mul", ["c", "gain"], ["y"]),
    ]
    weights = {"w": np.ones((4, 3, 3, 3), "f"), "b": np.ones(4, "f")}
    model = make_model(nodes, [("x", ["batch", 3, 4, 4]), ("gain", [])], [("y", ["batch", 4, 2, 2])], weights)
    parent = library.add(save(model, tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "dark", scale=0.0, count=0)
    np.save(given.folder / "a.npy", np.full((3, 4, 4), -1, "f"))
    with pytest.raises(ModelError, match=r"gives the same outputs whatever its own inputs are"):
        quantize(library, parent, given=given, said={"gain": "1"})


def test_one_sample_of_pixels_that_random_inputs_are_nothing_beside_calibrates_well(
    library: ModelLibrary, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    weights = {"w": 0.01 * np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f")}
    model = make_model(nodes, [("x", ["batch", 3, 16, 16])], [("y", ["batch", 4, 1, 1])], weights)
    parent = library.add(save(model, tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "pixels", scale=1.0, count=0)
    np.save(given.folder / "a.npy", np.random.default_rng(0).uniform(0, 255, (3, 16, 16)).astype("f"))
    assert quantize(library, parent, given=given).parent_digest == parent.digest


def test_samples_are_taken_at_equal_distances_of_all_there_are(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "pets", scale=1.0, count=0)
    random = np.random.default_rng(1)
    for name, scale in (("cat", 1.0), ("dog", 100.0)):
        np.save(given.folder / f"{name}.npy", scale * random.standard_normal((60, 3, 4, 4)).astype("f"))
    everything, spread = (quantize(library, parent, given=replace(given, count=count)) for count in (None, 4))
    assert "120 inputs of pets" in str(everything.derivation) and "; 120 samples as" in str(everything.derivation)
    assert "4 inputs of pets" in str(spread.derivation)
    assert "4 of 120 samples at equal distances" in str(spread.derivation)
    assert all(weights_of(library.main_path(one))["x_scale"] > 0.5 for one in (everything, spread)), "dogs as well"


def test_more_samples_than_there_are_cannot_be_had(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    given = replace(calibration_folder(tmp_path / "few", scale=1.0), count=4)
    with pytest.raises(InputError, match=r"few gives 3 inputs \(3 samples as .*\), not the 4 of --samples"):
        quantize(library, parent, given=given)


def test_more_samples_than_fit_into_memory_are_refused_for_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_set, "MAX_SET_BYTES", 2 * 3 * 4 * 4 * 4)
    given = replace(calibration_folder(tmp_path / "large", scale=1.0), count=3)
    with pytest.raises(InputError, match=r"large gives 2 .*, not the 3 of --samples: .* GiB .*--samples 2, or") as told:
        given.prepared([InputTensor("x", "float32", (1, 3, 4, 4))], tmp_path / "scratch")
    assert "add files" not in str(told.value)


def test_other_sizes_of_open_dimensions_make_another_version(library: ModelLibrary, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f")}
    model = make_model(nodes, [("x", ["batch", 3, "height", "width"])], [("y", ["batch", 4, 1, 1])], weights)
    parent = library.add(save(model, tmp_path / "m.onnx"))
    small, large = (quantize(library, parent, shapes={"x": (1, 3, size, size)}) for size in (8, 64))
    assert small.digest != large.digest
    assert [str(one.derivation).rpartition(", ")[2] for one in (small, large)] == ["x=1x3x8x8", "x=1x3x64x64"]
    said = GivenShape((1, 3, 8, 8), None, NO_BATCH)
    assert str(quantize(library, parent, shapes={"x": said}).derivation) == str(small.derivation), "the same bytes"


def test_one_that_is_asked_for_again_is_the_newest_from_then_on(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "m.onnx"))
    given = calibration_folder(tmp_path / "samples", scale=10.0)
    better = quantize(library, parent, given=given)
    quantize(library, parent, samples=1)
    again = quantize(library, parent, given=given)
    assert again.digest == better.digest
    assert int8_version(library, parent).version == again
    assert quantize(library, parent, given=given) == again
