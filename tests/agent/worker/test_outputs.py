"""Outputs are kept small enough to travel and whole enough to tell a wrong engine from a right one."""

import math

import ml_dtypes
import numpy as np
import pytest

from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.outputs import MAX_INPUTS, MAX_VALUES, capture, describe_outputs, stride


def test_small_outputs_are_kept_whole_and_by_name() -> None:
    logits, boxes = np.arange(6, dtype=np.float64).reshape(2, 3), np.array([[1], [2]], np.int64)
    first, second = capture(3, {"logits": logits, "boxes": boxes})
    assert (first.name, first.dtype, list(first.shape), first.stride, first.input_index) == (
        "boxes",
        "int64",
        [2, 1],
        1,
        3,
    )
    assert (second.name, second.dtype, list(second.shape)) == ("logits", "float64", [2, 3])
    assert np.frombuffer(second.values, "<f4").tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "shape", [(), (1,), (0, 3), (1, 4096), (4096, 2), (1, 3, 224, 224), (8, 64, 64), (2, 1_000_003)]
)
def test_an_output_never_takes_more_than_its_share(shape: tuple[int, ...]) -> None:
    (captured,) = capture(0, {"y": np.zeros(shape, np.float32)})
    assert len(captured.values) // 4 == math.ceil(math.prod(shape) / captured.stride) <= MAX_VALUES


def test_large_outputs_are_sampled_in_row_major_order_whatever_their_layout() -> None:
    values = np.arange(90_000, dtype=np.float32).reshape(300, 300)
    (captured,) = capture(0, {"y": np.asfortranarray(values)})
    assert np.frombuffer(captured.values, "<f4").tolist() == list(range(0, 90_000, captured.stride))


@pytest.mark.parametrize("shape", [(4, 4096), (8, 64, 64), (16, 3, 32, 32), (6, 10_010)])
def test_samples_come_from_every_item_channel_and_column(shape: tuple[int, ...]) -> None:
    positions = np.unravel_index(np.arange(0, math.prod(shape), stride(shape)), shape)
    for size, seen in zip(shape, positions, strict=True):
        assert len(set(seen)) == min(size, len(seen))


def test_a_view_is_captured_like_the_array_it_shows() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    (captured,) = capture(0, {"y": values[:, ::2]})
    assert np.frombuffer(captured.values, "<f4").tolist() == values[:, ::2].ravel().tolist()


def test_what_is_captured_does_not_change_with_memory_the_engine_uses_again() -> None:
    values = np.ones(3, np.float32)
    (captured,) = capture(0, {"y": values})
    values[:] = 7
    assert np.frombuffer(captured.values, "<f4").tolist() == [1, 1, 1]


def test_numbers_of_every_kind_become_float32_and_others_are_left_out() -> None:
    outputs = {
        "bfloat16": np.array([1.5], ml_dtypes.bfloat16),
        "bool": np.array([True]),
        "float16": np.array([0.5], np.float16),
        "large": np.array([1e300]),
        "nan": np.array([np.nan]),
        "strings": np.array(["1.5"]),
        "complex": np.array([1j]),
        "objects": np.array([object()]),
        "records": np.zeros(1, [("a", "f4"), ("b", "f4")]),
    }
    kept = {each.name: float(np.frombuffer(each.values, "<f4")[0]) for each in capture(0, outputs)}
    assert math.isnan(kept.pop("nan"))
    digest_of_24_bits = kept.pop("strings")
    assert digest_of_24_bits == int(digest_of_24_bits) < 2**24
    assert kept == {"bfloat16": 1.5, "bool": 1.0, "complex": 0.0, "float16": 0.5, "large": math.inf}


def test_equal_strings_are_kept_alike_and_others_not() -> None:
    kinds = [np.array(["cat", "dog"]), np.array(["cat", "dog"], object), np.array([b"cat", b"dog"])]
    kept = [capture(0, {"label": each})[0] for each in (*kinds, np.array(["cat", "cow"]))]
    assert {each.dtype for each in kept} == {"str"}
    assert kept[0].values == kept[1].values == kept[2].values
    assert (kept[3].values[:4], kept[3].values[4:] == kept[0].values[4:]) == (kept[0].values[:4], False)


def test_complex_numbers_are_kept_as_two_parts() -> None:
    (kept,) = capture(0, {"y": np.array([1 + 2j, 3 - 4j], np.complex64)})
    assert (list(kept.shape), np.frombuffer(kept.values, "<f4").tolist()) == ([2, 2], [1, 2, 3, -4])


def test_an_array_of_other_objects_is_refused() -> None:
    with pytest.raises(BrokenOutputError, match="array of Python objects as 'y', one of them dict; an output is"):
        describe_outputs({"y": np.array([{}, "a"], object)})


def test_only_the_first_inputs_of_a_large_set_are_kept() -> None:
    outputs = {"y": np.zeros(1, np.float32)}
    assert [len(capture(index, outputs)) for index in (MAX_INPUTS - 1, MAX_INPUTS)] == [1, 0]
