"""Scores that were lost beside boxes are named, and what rounds to nothing by rights is not."""

import numpy as np
import pytest

import invented
from controller.verdicts.judged import INPUTS, captured, check, measured

ORIGINAL = invented.model("aa" * 32, "net")
INT8 = invented.model("bb" * 32, "net-int8", parent_digest=ORIGINAL.digest, derivation=invented.INT8)
CLASSES, PLACES = 20, 256


def of_int8(values, others, *, step=1):
    """The check of an INT8 version beside its original, where every `step`-th element was kept."""
    original = measured("onnxruntime", None, batch=1, outputs=captured(values, "y", step), model_digest=ORIGINAL.digest)
    made = measured("x", None, precision="int8", batch=1, outputs=captured(others, "y", step), model_digest=INT8.digest)
    return check(original, made, models=(ORIGINAL, INT8))["x"]


def detections(classes=CLASSES):
    """Boxes in pixels and, behind them, scores from 0 to 1, for each place of each input."""
    random = np.random.default_rng(0)
    boxes = random.uniform(0, 640, (INPUTS, 1, 4, PLACES))
    return np.concatenate([boxes, random.beta(0.3, 2, (INPUTS, 1, classes, PLACES))], axis=2).astype(np.float32)


def in_steps(values, largest=None):
    """In eight bits, all with one scale."""
    step = np.float32((largest or np.abs(values).max()) / 127)
    return np.round(values / step) * step


@pytest.mark.parametrize("step", [1, 5])
def test_scores_that_are_lost_beside_boxes_are_wrong(step):
    found = of_int8(detections(), in_steps(detections()), step=step)

    assert found.max_relative_error < 0.01
    assert found.problem.startswith(
        "slices 4 to 23 of 24 of output 'y' (dimension 1) are constant; in that of onnxruntime 1.0 they vary by up to "
    )
    assert found.problem.endswith(": they are lost beside values of up to 640")


def test_it_does_not_matter_which_dimension_has_them_and_a_single_score_is_enough():
    values = np.swapaxes(detections(classes=1), -1, -2)

    assert "slice 4 of 5 of output 'y' (dimension 2) are constant" not in of_int8(values, in_steps(values)).problem
    assert "slice 4 of 5 of output 'y' (dimension 2) is constant" in of_int8(values, in_steps(values)).problem


def test_scores_that_are_off_by_more_than_they_vary_are_lost_too():
    others = in_steps(detections())
    others[:, :, 4:, 0] = 5.0

    assert "are constant, or off by more than they vary" in of_int8(detections(), others).problem


def test_scores_with_a_scale_of_their_own_are_kept():
    others = np.concatenate([in_steps(detections()[:, :, :4]), in_steps(detections()[:, :, 4:])], axis=2)

    assert of_int8(detections(), others).problem == ""


def test_what_was_constant_before_is_not_lost():
    values = detections()
    values[:, :, 4:] = 0.25
    others = in_steps(values)

    assert of_int8(values, others).problem == ""


def test_the_improbable_rounds_to_nothing():
    logits = np.random.default_rng(0).normal(0, 1, (INPUTS * 4, 1, 1000)) + np.linspace(0, 12, 1000)
    values = (np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)).astype(np.float32)

    assert of_int8(values, in_steps(values)).problem == ""


def test_channels_that_fade_out_one_by_one_are_no_loss():
    values = np.maximum(np.random.default_rng(0).normal(0, 1, (INPUTS, 1, 64, 64)), 0)
    values = (values * np.geomspace(1e-4, 5, 64)[:, None]).astype(np.float32)

    assert of_int8(values, in_steps(values)).problem == ""


def test_few_elements_tell_nothing():
    values = detections()[:, :, :, :1]

    assert of_int8(values, in_steps(values)).problem == ""


def test_engines_that_round_as_f32_does_are_not_looked_at_for_it():
    lost = detections()
    lost[:, :, 4:] = 0
    found = check(measured("onnxruntime", detections(), batch=1), measured("x", lost, batch=1))["x"]

    assert "differ" in found.problem and "slices" not in found.problem
