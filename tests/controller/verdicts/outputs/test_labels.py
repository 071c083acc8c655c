"""Outputs of integers are labels, indices, yes and no: what counts is how many of them are others, not by how much."""

import numpy as np
import pytest

import invented
from controller.verdicts.judged import INPUTS, check, measured
from enginebench_controller.records import ErrorOf, Grounds, OutputNoise
from enginebench_controller.verdicts.output_check import checks_against

SHAPE = (1, 25, 40)
ORIGINAL = invented.model("aa" * 32, "net")
INT8 = invented.model("bb" * 32, "net-int8", parent_digest=ORIGINAL.digest, derivation=invented.INT8)
MODELS = (ORIGINAL, INT8)
CLASSES = 21


def a_map(dtype="int64"):
    """The class of each pixel of each input."""
    return np.random.default_rng(3).integers(0, CLASSES, (INPUTS, *SHAPE)).astype(dtype)


def with_others(labels, share):
    """The labels, a share of them others; each is as far off as labels can be, or nearly so."""
    changed = labels.copy()
    places = np.random.default_rng(5).choice(labels.size, round(share * labels.size), replace=False)
    changed.ravel()[places] = ((labels.ravel()[places].astype(int) + 11) % CLASSES).astype(labels.dtype)
    return changed


def between_engines(labels, others, **fields):
    return check(measured("onnxruntime", labels, batch=1), measured("x", others, batch=1, **fields))["x"]


def of_int8(labels, others, *, batch=1, **fields):
    """The check of an INT8 version beside its original."""
    original = measured("onnxruntime", labels, batch=batch, model_digest=ORIGINAL.digest)
    made = measured("x", others, precision="int8", batch=batch, model_digest=INT8.digest, **fields)
    return check(original, made, models=MODELS)["x"]


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_a_few_other_labels_are_what_quantization_makes_however_far_apart_they_are(dtype):
    found = of_int8(a_map(dtype), with_others(a_map(dtype), 0.032))

    assert (found.problem, found.tolerance, found.error_of) == ("", 0.2, ErrorOf.ELEMENTS)
    assert found.max_relative_error == found.largest_relative_error == pytest.approx(0.032)
    assert (found.max_absolute_error, found.cosine) == (None, None)


def test_many_other_labels_are_wrong_and_it_is_said_how_many():
    found = of_int8(a_map(), with_others(a_map(), 0.9))

    assert found.problem == (
        "90 % of the elements of output 'scores' differ from those of onnxruntime 1.0; 20 % is tolerated"
    )


def test_many_other_labels_of_eight_bits_are_wrong_too():
    assert of_int8(a_map("uint8"), with_others(a_map("uint8"), 0.9)).problem


def test_engines_may_let_a_tie_fall_either_way_and_no_more():
    assert between_engines(a_map(), with_others(a_map(), 0.005)).problem == ""
    assert between_engines(a_map(), with_others(a_map(), 0.02)).problem == (
        "2 % of the elements of output 'scores' differ from those of onnxruntime 1.0; 1 % is tolerated"
    )


def test_integers_of_two_widths_are_labels_all_the_same():
    assert between_engines(a_map(), with_others(a_map(), 0.005).astype(np.int32)).error_of is ErrorOf.ELEMENTS


def test_yes_and_no_are_counted():
    likely = a_map() < 5
    found = between_engines(likely, likely ^ (np.random.default_rng(1).random(likely.shape) < 0.1))

    assert found.problem.endswith(
        " % of the elements of output 'scores' differ from those of onnxruntime 1.0; 1 % is tolerated"
    )


def test_numbers_in_eight_bits_may_all_be_a_step_off():
    """Two engines that run one INT8 model round its outputs, which are no labels, to one step or the next."""
    steps = np.random.default_rng(0).integers(-120, 120, (INPUTS, 1, 100)).astype(np.int8)
    found = check(
        measured("onnxruntime", steps, precision="i8", batch=1), measured("x", steps + 1, precision="i8", batch=1)
    )["x"]

    assert (found.problem, found.error_of) == ("", ErrorOf.LARGEST_VALUE)


@pytest.mark.parametrize(("share", "problem"), [(0.4, ""), (0.949, "94.9 % of the elements of output 'scores' differ")])
def test_noise_explains_that_elements_are_others_and_not_that_most_are(share, problem):
    """Indices come in another order when rounding changes it; by how much the indices differ tells nothing."""
    noisy = Grounds(noise=(OutputNoise("scores", 20.0),))
    found = of_int8(a_map(), with_others(a_map(), share), grounds=noisy)

    assert found.problem.startswith(problem) and bool(found.problem) == bool(problem)
    assert found.tolerance == 0.5
    if not problem:
        assert found.remark == (
            "40 % of the elements of output 'scores' differ from those of onnxruntime 1.0: rounding alone changes "
            "elements of it, so up to 50 % is tolerated"
        )


@pytest.mark.parametrize(("share", "tolerance"), [(1e-4, 0.01), (0.02, 0.059), (0.4, 0.5)])
def test_the_more_elements_rounding_changes_the_more_may_be_others(share, tolerance):
    """Twice as many, and what chance makes of so few of the thousand; at least the usual, at most half of them."""
    noisy = Grounds(noise=(OutputNoise("scores", 20.0, share),))

    assert between_engines(a_map(), a_map(), grounds=noisy).tolerance == pytest.approx(tolerance, abs=1e-3)
    assert between_engines(a_map(), with_others(a_map(), tolerance - 0.005), grounds=noisy).problem == ""
    assert between_engines(a_map(), with_others(a_map(), tolerance + 0.005), grounds=noisy).problem


def best_of(scores, seed, count=20):
    """The places of the best scores of each input after one rounding of them, which is more than some are apart."""
    moved = scores + 2e-4 * np.random.default_rng(seed).uniform(-1, 1, scores.shape)
    return np.argsort(-moved, axis=-1, kind="stable")[:, :count]


def test_ties_that_fall_otherwise_are_noise_however_far_apart_their_places_are():
    wrong = 0
    for seed in range(60):
        scores = np.random.default_rng(seed).random((INPUTS, 2000))
        right, probe, other = (best_of(scores, 3 * seed + number) for number in (100, 101, 102))
        changed = (right != probe).mean(axis=-1)
        noise = OutputNoise("scores", float(np.abs(right - probe).max()), float(changed.max()))
        if noise.absolute:
            found = between_engines(right[:, np.newaxis], other[:, np.newaxis], grounds=Grounds(noise=(noise,)))
            wrong += bool(found.problem)
    assert wrong <= 1


def numbers(*values):
    """One number for each input, as the count of what was found in it."""
    return np.array(values).reshape(-1, 1, 1)


COUNTS = (30, 19, 25, 8, 9, 14, 21, 3)


@pytest.mark.parametrize("others", [(31, 18, 26, 8, 9, 14, 21, 3), tuple(one + 1 for one in COUNTS)])
def test_a_number_an_item_that_int8_has_off_by_one_may_be_a_count_or_a_label(others):
    found = of_int8(numbers(*COUNTS), numbers(*others))

    assert (found.problem, found.max_relative_error, found.largest_relative_error) == ("", None, None)
    assert found.remark == (
        "output 'scores' cannot be judged: it is one integer an item, off from that of onnxruntime 1.0 by no more than "
        "2, and may be a label, or a number of things that were found"
    )
    assert between_engines(numbers(*COUNTS), numbers(*others)).problem


def test_a_number_an_item_that_is_far_off_is_wrong_in_int8_too():
    assert of_int8(numbers(*COUNTS), numbers(0, 0, 0, *COUNTS[3:])).problem.startswith("37.5 % of the elements")


def batches(*values):
    """One number for each item of the batch of each input."""
    return np.array(values).reshape(len(values), -1)


@pytest.mark.parametrize(
    ("labels", "others"),
    [
        pytest.param(batches((500, 501, 502, 500)), batches((500,) * 4), id="three labels"),
        pytest.param(batches((500, 501), (38, 40), (7, 7)), batches((500,) * 2, (39,) * 2, (7,) * 2), id="pairs"),
    ],
)
def test_a_batch_whose_items_all_have_one_label_in_int8_has_lost_its_axis_however_near_the_labels_are(labels, others):
    found = of_int8(labels, others, batch=labels.shape[1])

    assert found.problem == (
        "all items of a batch have the same output 'scores', unlike onnxruntime 1.0's: the batch axis is lost"
    )
    assert found.remark == ""


@pytest.mark.parametrize(
    ("counts", "others"),
    [
        pytest.param(batches((7, 7, 8, 7)), batches((7, 7, 7, 7)), id="all alike, as one differed before"),
        pytest.param(batches((30, 19, 25, 8)), batches((30, 18, 26, 9)), id="only the first is right"),
    ],
)
def test_a_number_an_item_that_may_have_come_so_by_chance_is_no_lost_batch_axis(counts, others):
    found = of_int8(counts, others, batch=4)

    assert found.problem == "" and "cannot be judged: it is one integer an item" in found.remark


@pytest.mark.parametrize("check_of", [between_engines, of_int8])
def test_labels_of_which_one_is_right_are_wrong_however_near_all_others_are(check_of):
    """The padding, the background and the number of the input stay what they are."""
    labels = np.random.default_rng(0).integers(100, 1001, (INPUTS, 1, 100))
    labels[..., 0] = 0
    others = np.where(labels > 0, labels + np.random.default_rng(1).integers(1, 3, labels.shape), 0)

    assert check_of(labels, others).problem.startswith("99 % of the elements of output 'scores' differ")


@pytest.mark.parametrize("by", [1, 3])
def test_labels_that_are_all_off_by_the_same_are_no_quantities(by):
    """An engine that counts the background as a class has each label one too large, which is little beside 999."""
    labels = np.random.default_rng(0).integers(0, 1001, (INPUTS, 1, 100)) + 1000

    assert between_engines(labels, labels + by).problem.startswith("100 % of the elements of output 'scores' differ")


def test_of_indices_whose_number_rounding_changes_nothing_is_judged():
    found = of_int8(a_map(), a_map()[:, :, :7], grounds=Grounds(noise=(OutputNoise("scores", None),)))

    assert (found.problem, found.max_relative_error, found.largest_relative_error) == ("", None, None)
    assert found.remark == (
        "output 'scores' cannot be compared with that of onnxruntime 1.0: rounding alone changes its shape"
    )


def found_boxes(*counts):
    """Three indices for each box, as many as these for each input."""
    return [np.random.default_rng(0).integers(0, 99, (count, 3)) for count in counts]


def test_where_int8_finds_another_number_of_boxes_they_cannot_be_judged():
    found = of_int8(found_boxes(5, 7, 0, 9), found_boxes(5, 6, 1, 9))

    assert (found.problem, found.max_relative_error, found.largest_relative_error) == ("", None, None)
    assert found.remark == (
        "output 'scores' cannot be judged: how much of it there is depends on the input, and for some it is another "
        "number than that of onnxruntime 1.0"
    )


def float_boxes(*counts, low=0, high=640, seed=0):
    return [np.random.default_rng(seed).uniform(low, high, (count, 4)).astype(np.float32) for count in counts]


def filled(value, *counts):
    return [np.full((count, 4), value, np.float32) for count in counts]


def test_boxes_of_another_number_may_come_in_another_order_and_be_a_little_farther_out():
    assert of_int8(float_boxes(5, 7, 3, 9), float_boxes(5, 7, 3, 8, low=-100, high=740, seed=1)).problem == ""
    assert of_int8(float_boxes(0, 1, 0, 0, low=500, high=510), float_boxes(0, 1, 1, 0, low=440)).problem == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(filled(31.0, 0, 1, 0, 0), filled(400.0, 0, 1, 1, 0), id="one box in a corner"),
        pytest.param(filled(0.31, 0, 1, 0, 0), filled(0.7, 0, 2, 0, 0), id="one score"),
        pytest.param(filled(0.0, 5, 9, 3, 4), filled(16.0, 5, 8, 3, 4), id="classes as numbers with a point"),
        pytest.param(
            [one.astype(int) for one in filled(0, 5, 9, 3, 4)],
            [one.astype(int) for one in filled(16, 5, 8, 3, 4)],
            id="classes",
        ),
    ],
)
def test_what_only_int8_has_found_may_be_where_the_reference_found_nothing(before, after):
    assert of_int8(before, after).problem == ""


BOX = np.array([[1500.5, 300.25, 1900.5, 1070.75]], np.float32)
SCORE = np.array([[0.6, 0, 0, 0]], np.float32)


@pytest.mark.parametrize("padding", [0.0, -1.0])
@pytest.mark.parametrize("rows", [1, 7, 8, 20])
@pytest.mark.parametrize(
    "what",
    [pytest.param(BOX, id="a box"), pytest.param(SCORE, id="a score"), pytest.param(SCORE / 1e9, id="hardly any")],
)
def test_beside_padding_alone_whatever_int8_finds_may_be_right(padding, rows, what):
    found = of_int8(filled(padding, rows, 0), [*filled(padding, rows), what])

    assert (found.problem, found.largest_relative_error) == ("", None)
    assert "'scores' cannot be judged: how much of it there is depends on the input" in found.remark


def test_beside_many_that_are_tiny_others_may_be_small():
    assert of_int8(filled(1e-6, 5, 9, 3), [*filled(1e-6, 5, 8), *filled(0.6, 3)]).problem == ""


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(filled(-1e6, 5, 7, 3, 8), id="of all inputs"),
        pytest.param([*float_boxes(5, 7, 3), *filled(-1e6, 8)], id="of one with another number"),
        pytest.param([*filled(-1e6, 5), *float_boxes(7, 3, 8)], id="of one with as many"),
    ],
)
def test_boxes_of_another_number_that_lie_far_outside_are_wrong(others):
    found = of_int8(float_boxes(5, 7, 3, 9), others)

    values = sum(int((one == -1e6).sum()) for one in others)
    assert found.problem.startswith(
        f"{values} of 92 captured values of output 'scores' are far from those of onnxruntime 1.0, which lie from "
    )
    assert found.remark == ""


def test_indices_of_another_number_may_be_others_here_and_there_and_not_most():
    few, most = found_boxes(5, 6, 1, 9), found_boxes(5, 6, 1, 9)
    few[0][0] = 2**31 - 1
    most[3][:], most[0][:] = -(2**31), 2**31 - 1

    assert of_int8(found_boxes(5, 7, 0, 9), few).problem == ""
    assert of_int8(found_boxes(5, 7, 0, 9), most).problem.startswith("42 of 63 captured values of output 'scores' are")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(filled(0.0, 5, 9, 3, 4), float_boxes(5, 8, 3, 4, low=-3000, high=3000), id="where all were zero"),
        pytest.param(filled(0.0, 1, 0), [*filled(0.0, 1), *filled(-2e6, 1)], id="where few were zero"),
        pytest.param(filled(0.5, 1, 2, 1, 1), filled(1e30, 1, 3, 1, 1), id="beside few"),
    ],
)
def test_garbage_is_seen_beside_zeros_and_beside_few(before, after):
    assert "are far from those of" in of_int8(before, after).problem


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_boxes_of_another_number_that_are_no_numbers_are_wrong_whoever_asks(value):
    original = measured("onnxruntime", float_boxes(5, 7, 3, 9), batch=1, model_digest=ORIGINAL.digest)
    others = [*filled(value, 5), *float_boxes(7, 3, 8)]
    made = measured("x", others, precision="int8", batch=1, model_digest=INT8.digest)

    assert "NaN or infinite" in check(original, made, models=MODELS)["x"].problem
    assert checks_against([original], [made], MODELS)[made.id].problem == (
        "20 of 92 captured values of output 'scores' are NaN or infinite, unlike those of onnxruntime 1.0"
    )


def test_engines_that_run_one_int8_model_may_find_another_number_within_the_same_bounds():
    """They round to one step or the next, which moves a score past its threshold as quantization does."""

    def found(others):
        boxes = float_boxes(5, 7, 3, 9)
        first = measured("onnxruntime", boxes, precision="i8", batch=1)
        return check(first, measured("x", others, precision="i8", batch=1))["x"]

    assert found(float_boxes(5, 7, 3, 8)).problem == ""
    assert "are far from those of" in found(filled(-1e6, 5, 7, 3, 8)).problem


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(found_boxes(5, 7, 0, 9), found_boxes(0, 0, 0, 0), id="none are found any more"),
        pytest.param(found_boxes(5, 5, 5, 5), found_boxes(6, 6, 6, 6), id="the number does not depend on inputs"),
        pytest.param(found_boxes(5, 7, 0, 9), [one[:, :2] for one in found_boxes(5, 6, 1, 9)], id="another dimension"),
    ],
)
def test_another_shape_of_indices_is_wrong_where_it_is_no_number_of_boxes(before, after):
    assert "has the shape" in of_int8(before, after).problem


def test_engines_that_only_round_find_as_many_boxes():
    assert "has the shape" in between_engines(found_boxes(5, 7, 0, 9), found_boxes(5, 6, 1, 9)).problem


def test_only_the_first_item_is_right_where_most_labels_of_all_others_are_not():
    labels = np.random.default_rng(3).integers(0, CLASSES, (INPUTS, 4, 250))
    lost = labels.copy()
    lost[:, 1:] = with_others(labels, 0.9)[:, 1:]
    found = check(measured("onnxruntime", labels), measured("x", lost))["x"]

    assert found.problem == (
        "only the first item of a batch has the output 'scores' of onnxruntime 1.0: the batch axis is lost"
    )
