"""Outputs that are compared: what is wrong is named in a sentence, and what only rounding explains is not."""

import numpy as np
import onnxruntime
import openvino
import pytest

import invented
from controller.answers import INPUTS, captured, check, measured, rounded, scores
from enginebench_controller.model.zoo import build_bytes, zoo_model
from enginebench_controller.records import (
    Configuration,
    InputFile,
    InputSet,
)
from enginebench_controller.trust.output_check import check_outputs


def test_engines_that_round_differently_agree():
    checks = check(measured("onnxruntime", scores()), measured("openvino", rounded(scores())))

    found = checks["openvino"]
    assert (found.reference, found.problem, found.tolerance) == ("of-onnxruntime", "", 1e-3)
    assert 0 < found.max_relative_error < 1e-5
    assert found.max_absolute_error == pytest.approx(found.max_relative_error * np.abs(scores()).max())
    assert found.cosine == pytest.approx(1)
    assert checks["onnxruntime"].reference is None
    assert checks["onnxruntime"].problem == ""


def test_the_errors_are_those_defined():
    values = np.array([[[3.0, 4.0]]] * INPUTS, dtype=np.float32) * np.arange(1, 5, dtype=np.float32).reshape(-1, 1, 1)
    other = values.copy()
    other[1, 0, 0] -= 2

    found = check(measured("onnxruntime", values, batch=1), measured("x", other, batch=1))["x"]

    assert (found.max_absolute_error, found.max_relative_error) == (2, 2 / 16)
    assert found.cosine == pytest.approx(
        np.dot(values.ravel(), other.ravel()) / np.linalg.norm(values) / np.linalg.norm(other)
    )


def test_a_wrong_engine_is_named():
    wrong = scores() + 0.2 * scores(1)

    found = check(measured("onnxruntime", scores()), measured("wrong", wrong))["wrong"]

    assert found.problem.startswith("the outputs differ from those of onnxruntime 1.0 by up to 0.")
    assert found.problem.endswith("of its largest value; 0.001 is tolerated")


def test_each_output_is_judged_by_its_own_largest_value():
    boxes, classes = captured(600 * scores(2), "boxes"), captured(scores() / 100, "classes")
    wrong = captured(scores(1) / 100, "classes")

    checks = check(
        measured("onnxruntime", None, outputs=(*boxes, *classes)), measured("wrong", None, outputs=(*boxes, *wrong))
    )

    assert "differ" in checks["wrong"].problem
    assert checks["wrong"].max_relative_error > 0.5
    assert checks["wrong"].cosine < 0.5


def test_an_ignored_input_shows_without_any_other_engine():
    ignored = np.repeat(scores()[:1], INPUTS, axis=0)

    found = check(measured("alone", ignored))["alone"]

    assert found.reference is None
    assert found.problem == "the outputs are the same for 4 different inputs, as if the input were ignored"


def test_equal_inputs_may_have_equal_outputs():
    same = np.repeat(scores()[:1], INPUTS, axis=0)
    items = tuple((InputFile("x", "ab" * 32, 128),) for _ in range(INPUTS))
    given = Configuration("CPU", 4, cores=2, input_set=InputSet(count=INPUTS, name="photos", items=items))

    assert check(measured("alone", same, configuration=given))["alone"].problem == ""


def test_a_class_may_stay_the_same_for_all_inputs():
    assert check(measured("alone", np.full((INPUTS, 4), 7)))["alone"].problem == ""


def test_a_batch_whose_items_all_answer_alike_has_lost_its_axis():
    repeated = np.repeat(scores()[:, :1], 4, axis=1)

    found = check(measured("onnxruntime", scores()), measured("lost", repeated))["lost"]

    assert found.problem == (
        "all items of a batch have the same output 'scores', unlike onnxruntime 1.0's: the batch axis is lost"
    )


def test_items_that_answer_alike_everywhere_are_no_problem():
    repeated = np.repeat(scores()[:, :1], 4, axis=1)

    assert check(measured("onnxruntime", repeated), measured("x", repeated))["x"].problem == ""


@pytest.mark.parametrize("rest", [0, None])
def test_a_lost_batch_axis_shows_in_every_seventh_element_too(rest):
    """Strides share no divisor with the shape, so that no two items have elements at the same place."""
    whole = scores(shape=(4, 1000))
    lost = whole.copy()
    lost[:, 1:] = lost[:, :1] if rest is None else rest

    found = check(
        measured("onnxruntime", None, outputs=captured(whole, step=7)),
        measured("lost", None, outputs=captured(lost, step=7)),
    )["lost"]

    assert found.problem == (
        "only the first item of a batch has the output 'scores' of onnxruntime 1.0: the batch axis is lost"
    )


@pytest.mark.parametrize("shape", [(1, 10), (10,)])
def test_an_output_for_one_item_only_has_lost_its_batch_axis(shape):
    first = scores()[:, 0].reshape(INPUTS, *shape)

    found = check(measured("onnxruntime", scores()), measured("lost", first))["lost"]

    assert found.problem == (
        f"output 'scores' has the shape {shape}, onnxruntime 1.0 has (4, 10): the batch axis is lost"
    )
    assert (found.max_absolute_error, found.max_relative_error, found.cosine) == (None, None, None)


def test_another_shape_is_a_problem():
    found = check(measured("onnxruntime", scores()), measured("x", scores().reshape(INPUTS, 4, 10, 1)))["x"]

    assert found.problem == "output 'scores' has the shape (4, 10, 1), onnxruntime 1.0 has (4, 10)"


def test_a_missing_output_is_a_problem():
    two = (*captured(scores()), *captured(scores(1), "boxes"))

    found = check(measured("onnxruntime", None, outputs=two), measured("x", scores()))["x"]

    assert found.problem == "output 'boxes', which onnxruntime 1.0 has, is missing"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_a_problem_even_alone(value):
    broken = scores()
    broken[2, 1, 3] = value

    checks = check(measured("alone", broken))

    assert checks["alone"].problem == "1 of 160 captured output values are NaN or infinite"
    assert "NaN" in check(measured("onnxruntime", scores()), measured("x", broken))["x"].problem


@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 1e-3), ("bf16", 5e-2), ("f16", 5e-2), ("?", 5e-2)])
def test_a_coarser_precision_may_differ_more(precision, tolerance):
    coarse = rounded(scores(), 0.02)

    found = check(measured("onnxruntime", scores()), measured("x", coarse, precision=precision))["x"]

    assert found.tolerance == tolerance
    assert bool(found.problem) == (tolerance < 0.02)


def test_without_models_a_name_tells_a_quantized_one():
    one, other = (
        measured(engine, values, model_name="resnet50-int8")
        for engine, values in (("onnxruntime", scores()), ("openvino", rounded(scores(), 0.08)))
    )

    assert check(one, other)["openvino"].tolerance == 0.1


def test_a_failure_has_no_check():
    assert check_outputs([invented.failed("m1")]) == {}


def test_real_engines_agree_on_a_real_network_and_a_lost_batch_shows(tmp_path):
    path = tmp_path / "squeezenet.onnx"
    path.write_bytes(build_bytes(zoo_model("squeezenet")))
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal((2, 3, 224, 224)).astype(np.float32) for _ in range(2)]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    network = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    ours, theirs = ([run(one) for one in inputs] for run in (lambda x: session.run(None, {"input": x})[0], network))
    theirs = [one[0] for one in theirs]
    lost = [np.repeat(one[:1], 2, axis=0) for one in theirs]

    def against_onnx_runtime(values):
        outputs = captured(values, "logits")
        reference = measured("onnxruntime", None, batch=2, outputs=captured(ours, "logits"))
        return check(reference, measured("openvino", None, batch=2, outputs=outputs))["openvino"]

    assert against_onnx_runtime(theirs).problem == ""
    assert against_onnx_runtime(theirs).max_relative_error < 1e-4
    assert "the batch axis is lost" in against_onnx_runtime(lost).problem
    assert "as if the input were ignored" in against_onnx_runtime([theirs[0]] * 2).problem
    assert "differ" in against_onnx_runtime(theirs[::-1]).problem


def test_unlike_strides_meet_where_both_have_elements():
    whole = scores(shape=(4, 1000))
    wrong = whole.copy()
    wrong.reshape(INPUTS, -1)[:, 30] += 50

    def found(values):
        return check(
            measured("onnxruntime", None, outputs=captured(whole, step=3)),
            measured("x", None, outputs=captured(values, step=5)),
        )["x"]

    assert (found(whole).max_absolute_error, found(whole).problem) == (0, "")
    assert found(wrong).max_absolute_error == pytest.approx(50)


def test_unlike_element_types_are_compared_by_value():
    whole = np.round(scores() * 10)

    found = check(measured("onnxruntime", whole), measured("x", whole.astype(np.float64)))["x"]

    assert (found.max_absolute_error, found.problem) == (0, "")


def test_a_single_output_may_have_another_name():
    found = check(
        measured("onnxruntime", scores()), measured("torch", None, outputs=captured(rounded(scores()), "output_0"))
    )["torch"]

    assert found.problem == ""
    assert found.max_relative_error > 0


def test_only_inputs_that_both_ran_are_compared():
    found = check(measured("onnxruntime", scores()), measured("x", None, outputs=captured(scores())[:2]))["x"]

    assert (found.max_absolute_error, found.problem) == (0, "")
