"""What is typed behind `--input` fills an input, or is refused with what it can hold."""

import ml_dtypes
import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs.values import given_values, seeded_inputs
from enginebench_controller.plan.configurations import with_values
from enginebench_controller.records import InputSet, InputTensor, InputValues

SR = InputTensor("sr", "int64", ())
MASK = InputTensor("mask", "bool", (1, 8))
IDS = InputTensor("ids", "int32", (1, 8), 100)
SCALE = InputTensor("scale", "float16", (1,))
HALF = InputTensor("half", "bfloat16", (100,))
INPUTS = (SR, MASK, IDS, SCALE, HALF)


@pytest.mark.parametrize(
    ("name", "text", "lowest", "highest"),
    [
        ("sr", "16000", 16000, 16000),
        ("sr", "1e3", 1000, 1000),
        ("sr", "-5..5", -5, 5),
        ("mask", "ones", 1, 1),
        ("mask", "false", 0, 0),
        ("ids", "0..99", 0, 99),
        ("scale", "1", 1.0, 1.0),
        ("scale", "1.000", 1.0, 1.0),
        ("scale", "-.5..0.5", -0.5, 0.5),
    ],
)
def test_a_value_or_a_range_is_read(name: str, text: str, lowest: float, highest: float) -> None:
    (found,) = given_values(INPUTS, {name: text})
    assert (found.input, found.lowest, found.highest) == (name, lowest, highest)
    assert isinstance(found.lowest, float if name == "scale" else int)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("rs", "1", "no input of the model; did you mean 'sr'"),
        ("sr", "fast", "no value: write a number"),
        ("sr", "1.5", "which holds integers"),
        ("sr", "16.000", "int64 holds integers: write digits alone, such as 1000"),
        ("sr", "0..1.000", "holds integers: write digits alone"),
        ("sr", "٤", "no value: write a number"),
        ("sr", "5..1", "its first number is the larger one"),
        ("sr", "9223372036854775808", "which holds"),
        ("mask", "2", "which holds 0 to 1"),
        ("ids", "100", "has 100 rows, so write at most 99"),
        ("scale", "1e6", "which holds numbers up to 65504"),
        ("scale", "nan", "no value"),
        ("half", "3.4e38", r"which holds numbers up to 3.3895e\+38"),
    ],
)
def test_what_an_input_cannot_hold_is_refused(name: str, text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        given_values(INPUTS, {name: text})


def test_a_range_of_bfloat16_is_not_one_of_whole_numbers() -> None:
    """NumPy has the type once ml_dtypes is loaded, as a kind of its own."""
    filled = seeded_inputs([HALF], 0, given_values([HALF], {"half": "0..0.5"}))["half"]
    assert filled.dtype == ml_dtypes.bfloat16
    assert len(set(filled.astype("f").tolist())) > 50


def test_other_values_make_another_input_set() -> None:
    sets = [with_values(InputSet(), given_values(INPUTS, {"sr": rate})) for rate in ("8000", "16000")]
    assert [one.name for one in sets] == ["random with sr=8000", "random with sr=16000"]
    assert len({*sets, InputSet()}) == 3


def test_a_set_is_constant_where_every_input_is() -> None:
    values = (InputValues("sr", 1, 1), InputValues("ids", 0, 9))
    assert InputSet(values=values).is_constant([SR])
    assert not InputSet(values=values).is_constant([SR, IDS])
    assert not InputSet().is_constant([])
