"""Outputs that are compared: what is wrong is named in a sentence, and what only rounding explains is not."""

import hashlib
from dataclasses import replace

import numpy as np
import onnxruntime
import openvino
import pytest

import invented
from controller.verdicts.judged import INPUTS, captured, check, measured, off, rounded, scores
from enginebench_controller.models.zoo import build_bytes, zoo_model
from enginebench_controller.records import (
    Afterwards,
    Configuration,
    Derivation,
    DerivationKind,
    Grounds,
    InputFile,
    InputSet,
    OutputNoise,
    Process,
)
from enginebench_controller.verdicts.output_check import check_outputs, checks_against


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


def test_a_name_widens_no_tolerance():
    one, other = (
        measured(engine, values, model_name="resnet50-int8")
        for engine, values in (("onnxruntime", scores()), ("openvino", rounded(scores(), 0.08)))
    )

    found = check(one, other)["openvino"]

    assert (found.tolerance, bool(found.problem)) == (1e-3, True)


def tiny(relative):
    """Scores of some millionths, and those of an engine that is off by so much."""
    small = scores() * 1e-7
    return measured("onnxruntime", small), measured("openvino", rounded(small, relative))


def test_what_is_within_the_noise_of_the_model_is_told_and_no_problem():
    one, other = tiny(0.08)
    noisy = replace(other, grounds=Grounds(noise=(OutputNoise("scores", 0.05 * float(np.abs(scores()).max()) * 1e-7),)))

    found = check(one, noisy)["openvino"]

    assert (found.problem, found.tolerance) == ("", pytest.approx(0.1, rel=0.01))
    assert found.remark.startswith("output 'scores' differs from that of onnxruntime 1.0 by 0.0")
    assert found.remark.endswith("the noise of this model: rounding alone moves it by up to 0.05")
    assert check(one, other)["openvino"].problem  # without any noise found


def test_what_is_beyond_the_noise_of_the_model_is_wrong():
    one, other = tiny(0.5)
    noisy = replace(other, grounds=Grounds(noise=(OutputNoise("scores", 0.05 * float(np.abs(scores()).max()) * 1e-7),)))

    assert check(one, noisy)["openvino"].problem.endswith("of its largest value; 0.1 is tolerated")


def test_the_noise_of_one_output_excuses_no_other():
    quiet, loud = captured(scores()), captured(scores(1) * 1e-7, "tiny")
    wrong = captured(rounded(scores(), 0.05))
    noise = Grounds(noise=(OutputNoise("scores", 0.0), OutputNoise("tiny", 1e-7)))

    found = check(
        measured("onnxruntime", None, outputs=(*quiet, *loud)),
        measured("x", None, outputs=(*wrong, *loud), grounds=noise),
    )["x"]

    assert (found.tolerance, bool(found.problem)) == (1e-3, True)


def test_an_output_whose_shape_rounding_changes_is_not_compared():
    few = [one[:3] for one in scores()]
    open_shape = Grounds(noise=(OutputNoise("scores", None),))

    assert "has the shape" in check(measured("onnxruntime", scores()), measured("x", few))["x"].problem
    found = check(measured("onnxruntime", scores()), measured("x", few, grounds=open_shape))["x"]
    assert (found.problem, found.largest_relative_error) == ("", None)
    assert found.remark == (
        "output 'scores' cannot be compared with that of onnxruntime 1.0: rounding alone changes its shape"
    )


def test_what_agrees_beside_an_output_that_cannot_be_compared_does_not_hide_it():
    boxes, few = captured(scores(1), "boxes"), captured([one[:3] for one in scores(1)], "boxes")
    found = check(
        measured("onnxruntime", None, outputs=(*captured(scores()), *boxes)),
        measured("x", None, outputs=(*captured(scores()), *few), grounds=Grounds(noise=(OutputNoise("boxes", None),))),
    )["x"]

    assert (found.max_relative_error, found.largest_relative_error) == (0, None)
    assert found.remark.startswith("output 'boxes' cannot be compared with that of onnxruntime 1.0")


def test_the_largest_error_is_that_of_any_output_however_much_of_it_is_noise():
    quiet, loud = scores(), scores(1)
    noise = Grounds(noise=(OutputNoise("loud", 0.05 * float(np.abs(loud).max())),))
    found = check(
        measured("onnxruntime", None, outputs=(*captured(quiet), *captured(loud, "loud"))),
        measured("x", None, outputs=(*captured(off(quiet, 5e-4)), *captured(off(loud, 0.04), "loud")), grounds=noise),
    )["x"]

    assert (found.max_relative_error, found.tolerance) == (pytest.approx(5e-4, rel=0.01), 1e-3)
    assert found.largest_relative_error == pytest.approx(0.04, rel=0.01)
    assert found.remark.startswith("output 'loud' differs from that of onnxruntime 1.0 by 0.04 ")


def afterwards(late, repeat, random=()):
    return {
        "processes": (Process(0, afterwards=Afterwards(late_difference=late, repeat_difference=repeat)),),
        "grounds": Grounds(random_operators=random),
    }


def test_outputs_that_changed_while_it_was_measured_are_wrong():
    found = check(measured("alone", scores(), **afterwards(1.0, 0.0)))["alone"]

    assert found.problem == (
        "the outputs changed during the measurement: those of the same inputs differ by 1 of their largest value from "
        "what came out while warming up"
    )
    assert check(measured("alone", scores(), **afterwards(1e-6, 1e-6)))["alone"].problem == ""


def test_outputs_that_differ_each_time_are_wrong_unless_the_model_is_random():
    def found(random):
        return check(measured("alone", scores(), **afterwards(0.9, 0.8, random)))["alone"]

    assert "differ by 0.8 of their largest value between two inferences of one input" in found(()).problem
    assert (found(("RandomNormal",)).problem, found(None).problem) == ("", "")
    assert found(("RandomNormal",)).remark == "the model has RandomNormal, so its outputs differ each time"
    assert "nobody can tell whether the model is random" in found(None).remark


def test_a_random_operator_that_changes_nothing_is_no_remark():
    """A dropout that inference leaves out: its outputs are the same each time, and the remark would be untrue."""
    found = check(measured("alone", scores(), **afterwards(0.0, 0.0, ("Dropout",))))["alone"]

    assert (found.problem, found.remark) == ("", "")


def test_engines_that_draw_other_numbers_are_not_accused():
    random = afterwards(0.9, 0.8, ("RandomNormal",))

    found = check(measured("onnxruntime", scores(), **random), measured("x", scores(1), **random))["x"]

    assert (found.problem, "not compared" in found.remark) == ("", True)


def test_a_model_without_inputs_ignores_none():
    same = np.repeat(scores()[:1], INPUTS, axis=0)

    assert check(measured("alone", same, input_set_sha256=hashlib.sha256().hexdigest()))["alone"].problem == ""


def test_what_every_engine_computes_is_the_model_and_no_ignored_input():
    same = np.repeat(scores()[:1], INPUTS, axis=0)

    checks = check(measured("onnxruntime", same), measured("openvino", same * np.float32(1.00001)))

    assert [one.problem for one in checks.values()] == ["", ""]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_every_engine_gets_wrong_is_wrong_all_the_same(value):
    nothing = np.full_like(scores(), value)

    checks = check(measured("onnxruntime", nothing), measured("openvino", nothing))

    assert all("NaN or infinite" in one.problem for one in checks.values())


def masked(values, value=-np.inf, first=5):
    """The scores of the words beyond the text."""
    other = values.copy()
    other[..., first:] = value
    return other


def test_infinities_that_another_engine_has_at_the_same_places_are_the_models():
    checks = check(measured("onnxruntime", masked(scores())), measured("openvino", masked(rounded(scores()))))

    assert [one.problem for one in checks.values()] == ["", ""]
    assert 0 < checks["openvino"].max_relative_error < 1e-4
    assert checks["openvino"].remark == "80 of 160 captured output values are infinite, as a mask makes them"


def test_infinities_where_another_engine_has_numbers_are_wrong():
    checks = check(measured("onnxruntime", masked(scores())), measured("x", scores()))
    assert checks["x"].problem == ""
    assert checks["onnxruntime"].problem == "80 of 160 captured output values are NaN or infinite"

    checks = check(measured("onnxruntime", masked(scores())), measured("x", masked(scores())), measured("y", scores()))
    assert checks["y"].problem == (
        "output 'scores' and that of onnxruntime 1.0 are infinite at different places: 20 of 40 captured values"
    )


def test_infinities_of_the_other_sign_are_others():
    checks = check(measured("onnxruntime", masked(scores())), measured("openvino", masked(scores(), np.inf)))

    assert all("NaN or infinite" in one.problem for one in checks.values())


def test_minus_infinity_beside_numbers_is_a_mask_also_without_another_engine():
    def problem(values):
        return check(measured("alone", values))["alone"].problem

    assert problem(masked(scores())) == ""
    assert all(
        "NaN or infinite" in problem(masked(scores(), value, first))
        for value, first in ((np.inf, 5), (np.nan, 5), (-np.inf, 0))
    )


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_infinities_that_only_f16_has_are_numbers_too_large_for_it(infinity):
    large = scores()
    large[..., 5:] = np.copysign(70_000, infinity)
    one, two = (measured(engine, masked(scores(), infinity), precision="f16") for engine in ("openvino", "torch"))

    for checks in (check(one), check(one, two), check(measured("onnxruntime", large), one, two)):
        wrong = {engine for engine, found in checks.items() if "NaN or infinite" in found.problem}
        assert wrong == checks.keys() - {"onnxruntime"}
        assert "onnxruntime" not in checks or not checks["onnxruntime"].problem


def test_infinities_of_f16_are_the_models_where_f32_has_them_too():
    small = measured("openvino", masked(scores()), precision="f16")

    for engine in ("onnxruntime", "openvino"):
        other = replace(measured(engine, masked(scores())), id="in-f32")
        assert [one.problem for one in check_outputs([small, other]).values()] == ["", ""]


@pytest.mark.parametrize("precision", ["mixed", "int8 (8 of 9 products)", "bf16", "default"])
def test_a_mask_is_the_models_in_every_precision_but_f16(precision):
    one, two = (measured(engine, masked(scores()), precision=precision) for engine in ("openvino", "torch"))

    for checks in (check(one), check(one, two)):
        assert not any(found.problem for found in checks.values())


def test_a_mask_in_f16_is_told_by_whoever_has_it_in_another_precision_too():
    small, other = (measured(engine, masked(scores()), precision="f16") for engine in ("onnxruntime", "openvino"))
    whole = replace(measured("onnxruntime", masked(scores())), id="in-f32")

    assert not any(found.problem for found in check_outputs([small, other, whole]).values())


def test_f16_is_no_reference_for_an_engine_that_ignores_its_input():
    """Whose numbers are wrong, and yet none of them is infinite."""
    ignored = np.repeat(scores()[:1], INPUTS, axis=0)

    checks = check(measured("onnxruntime", ignored), measured("openvino", masked(scores()), precision="f16"))

    assert "as if the input were ignored" in checks["onnxruntime"].problem
    assert "NaN or infinite" in checks["openvino"].problem


def test_what_is_wrong_beside_a_mask_stays_wrong():
    same, other = masked(np.repeat(scores()[:1], INPUTS, axis=0)), masked(scores(1))

    assert "as if the input were ignored" in check(measured("alone", same))["alone"].problem
    checks = check(measured("onnxruntime", masked(scores())), measured("wrong", other))
    assert checks["onnxruntime"].problem == ""
    assert checks["wrong"].problem.startswith("the outputs differ from those of onnxruntime 1.0 by up to ")


def test_outputs_that_differ_by_rounding_only_ignore_no_input():
    """A class that is sure of itself: one engine says 1 every time, the other 0.9999 and a bit."""
    ones = np.ones((INPUTS, 4, 8), np.float32)
    nearly = ones - np.float32(1e-4) * np.random.default_rng(0).random(ones.shape, np.float32)

    checks = check(measured("onnxruntime", ones), measured("openvino", nearly))

    assert [one.problem for one in checks.values()] == ["", ""]


def test_strings_are_equal_or_not():
    def strings(*digests):
        return tuple(replace(one, dtype="str") for one in captured(np.array([digests], np.float32), "label"))

    one, same, other = (
        measured(engine, None, outputs=strings(*digests))
        for engine, digests in (("onnxruntime", (7e6, 8e6)), ("same", (7e6, 8e6)), ("other", (7e6, 8e6 + 1)))
    )

    assert check(one, same)["same"].problem == ""
    assert check(one, other)["other"].problem == (
        "1 of 2 strings of output 'label' differ from those of onnxruntime 1.0"
    )
    numbers = measured("x", None, outputs=captured(np.array([[7e6, 8e6]], np.float32), "label"))
    assert check(one, numbers)["x"].problem == "output 'label' is float32, onnxruntime 1.0 has str"


def test_a_failure_has_no_check():
    assert check_outputs([invented.failed("m1")]) == {}


@pytest.mark.slow
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


def test_outputs_are_held_against_those_of_the_model_as_given_whatever_was_done_to_it():
    given, off = measured("openvino", scores()), measured("other", scores() + 0.3 * scores(1))

    found = checks_against([measured("late", rounded(scores()), batch=1), given], [off], [])[off.id]

    assert found.reference == given.id
    assert found.max_relative_error > 0.1
    assert checks_against([measured("late", scores(), batch=1)], [off], []) == {}


def test_a_circle_of_versions_which_only_a_damaged_record_makes_has_an_end():
    quantized = Derivation(DerivationKind.QUANTIZED, said="5 samples")
    circle = [
        invented.model(one * 32, parent_digest=other * 32, derivation=quantized)
        for one, other in (("ab", "ba"), ("ba", "ab"))
    ]

    assert not check(measured("onnxruntime", scores()), measured("x", scores()), models=circle)["x"].problem
