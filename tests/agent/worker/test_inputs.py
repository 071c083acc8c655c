"""Inputs are seeded, differ within a set, respect types and bounds, and are named by their content."""

import numpy as np
import pytest

from enginebench_agent.worker.inputs import digest_inputs, make_inputs
from enginebench_plugins.spec import TensorSpec, UnsupportedSettingsError
from enginebench_proto.v1.configuration_pb2 import InputSet, InputTensor

IMAGE = TensorSpec("image", "float32", (2, 3, 8, 8))
TOKENS = TensorSpec("tokens", "int64", (2, 16))
SET = InputSet(seed=3, count=4)


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others() -> None:
    digests = [digest_inputs(make_inputs([IMAGE], [], InputSet(seed=seed, count=4))) for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


def test_the_inputs_of_a_set_differ() -> None:
    assert len({tensors["image"].tobytes() for tensors in make_inputs([IMAGE], [], SET)}) == 4


def test_the_order_in_which_an_engine_lists_its_inputs_changes_nothing() -> None:
    there, back = make_inputs([IMAGE, TOKENS], [], SET), make_inputs([TOKENS, IMAGE], [], SET)
    assert digest_inputs(there) == digest_inputs(back)


def test_a_renamed_or_reshaped_input_has_another_digest() -> None:
    values = np.zeros((2, 3), np.float32)
    digests = {
        digest_inputs([{"a": values}]),
        digest_inputs([{"b": values}]),
        digest_inputs([{"a": values.reshape(3, 2)}]),
        digest_inputs([{"a": values.view(np.int32)}]),
    }
    assert len(digests) == 4


def test_floats_are_standard_normal() -> None:
    values = make_inputs([TensorSpec("x", "float32", (100, 100))], [], SET)[0]["x"]
    assert abs(values.mean()) < 0.05
    assert abs(values.std() - 1) < 0.05


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool"]
)
@pytest.mark.parametrize("shape", [(2, 3), (1,), ()])
def test_arrays_have_exactly_the_compiled_type_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    values = make_inputs([TensorSpec("x", dtype, shape)], [], SET)[0]["x"]
    assert (values.dtype.name, values.shape, values.flags.c_contiguous) == (dtype, shape, True)


def test_integers_stay_below_their_bound_and_reach_all_values() -> None:
    bound = InputTensor(name="tokens", dtype="int64", shape=[2, 16], integer_bound=5)
    drawn = np.concatenate([tensors["tokens"] for tensors in make_inputs([TOKENS], [bound], SET)])
    assert set(np.unique(drawn)) == {0, 1, 2, 3, 4}


def test_integers_without_a_bound_are_zero_or_one() -> None:
    assert set(np.unique(make_inputs([TOKENS], [], SET)[0]["tokens"])) == {0, 1}


@pytest.mark.parametrize(
    ("tensor", "requested", "sentence"),
    [
        (TensorSpec("s", "str", (1,)), [], "element type str"),
        (TensorSpec("s", "bfloat16", (1,)), [], "element type bfloat16"),
        (TensorSpec("s", "complex64", (1,)), [], "element type complex64"),
        (TensorSpec("s", "float32", (None, 3)), [], "open dimension"),
        (TensorSpec("s", "int8", (1,)), [InputTensor(name="s", shape=[1], integer_bound=300)], "0 up to 300"),
        (TensorSpec("s", "int8", (1,)), [InputTensor(name="s", shape=[1], integer_bound=0)], "0 up to 0"),
        (TensorSpec("s", "int8", (1,)), [InputTensor(name="s", shape=[2])], r"compiled as \(1,\), though \(2,\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tensor: TensorSpec, requested: list[InputTensor], sentence: str) -> None:
    with pytest.raises(UnsupportedSettingsError, match=sentence):
        make_inputs([tensor], requested, SET)


def test_an_empty_input_set_is_refused() -> None:
    with pytest.raises(UnsupportedSettingsError, match="0 inputs"):
        make_inputs([IMAGE], [], InputSet(seed=1))
