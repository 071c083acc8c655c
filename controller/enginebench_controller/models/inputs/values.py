"""What inputs are filled with: a number or range that a person gives, or seeded random numbers within bounds."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import InputError
from enginebench_controller.records.configuration import InputTensor, InputValues
from enginebench_proto.agreed.tensors import LARGEST_BFLOAT16


def seeded_inputs(
    inputs: Sequence[InputTensor], seed: int, values: Sequence[InputValues] = ()
) -> dict[str, NDArray[Any]]:
    """An array for each input: floats are standard normal, integers lie below their bound, or in {0, 1}.

    Those that `values` tell of are filled with these instead, which changes nothing of the others.
    """
    generator = np.random.default_rng(seed)
    drawn = {item.name: _array(item, generator) for item in inputs}
    said, generator = {one.input: one for one in values}, np.random.default_rng(seed)
    return drawn | {item.name: _between(item, said[item.name], generator) for item in inputs if item.name in said}


def _between(item: InputTensor, said: InputValues, generator: np.random.Generator) -> NDArray[Any]:
    dtype = np.dtype(item.dtype)
    if _is_floating(item):
        return generator.uniform(said.lowest, said.highest, item.shape).astype(dtype)
    return generator.integers(int(said.lowest), int(said.highest), item.shape, endpoint=True).astype(dtype)


def _array(item: InputTensor, generator: np.random.Generator) -> NDArray[Any]:
    dtype = np.dtype(item.dtype)
    if dtype.kind in "iub":
        bound = min(item.integer_bound or 2, np.iinfo(dtype).max) if dtype.kind != "b" else 2
        return generator.integers(0, bound, item.shape).astype(dtype)
    return generator.standard_normal(item.shape).astype(dtype)


_WORDS = {"ones": 1, "zeros": 0, "true": 1, "false": 0}
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_RANGE = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER}))?", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![0-9])(?<![0-9]\.)[0-9]{1,3}\.[0-9]{3}(?![0-9])")
"""Of an integer, what is a thousand in half of Europe and one elsewhere."""
_WIDEST_INTEGER = 2**63 - 1
"""What the wire carries."""


def given_values(inputs: Sequence[InputTensor], given: Mapping[str, str]) -> tuple[InputValues, ...]:
    """What each input named in `given` is filled with, in the order of `inputs`.

    A text is a number, `ones`, `zeros`, `true`, `false`, or a range such as `0..30521`, both ends included. Raises
    `InputError` for what is none of these, an input that the model does not have, and numbers that it cannot hold.
    """
    names = [one.name for one in inputs]
    for name in given:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else "its inputs are " + (", ".join(map(repr, names)) or "none")
            raise InputError(f"--input names {name!r}, which is no input of the model; {hint}")
    return tuple(_values(one, given[one.name]) for one in inputs if one.name in given)


def check_values(text: str) -> str:
    """The text itself, where it is a value or a range. Raises `ValueError`."""
    _ends(text)
    return text


def _ends(text: str) -> tuple[int | float, int | float]:
    if (word := _WORDS.get(text.strip().lower())) is not None:
        return word, word
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no value: write a number, ones, zeros, true, false, or a range such as 0..100")
    lowest, highest = _number(match[1]), _number(match[2] or match[1])
    if lowest > highest:
        raise ValueError(f"{text!r} is no range: its first number is the larger one")
    return lowest, highest


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _values(tensor: InputTensor, text: str) -> InputValues:
    try:
        ends = _ends(text)
    except ValueError as error:
        raise InputError(f"--input {tensor.name}: {error}") from None
    if _is_floating(tensor):
        return _numbers(tensor, ends)
    if _THOUSANDS.search(text):
        raise InputError(
            f"--input {tensor.name}={text}: {tensor.dtype} holds integers: write digits alone, such as 1000"
        )
    return _integers(tensor, ends)


def _is_floating(tensor: InputTensor) -> bool:
    """By the type's name, since NumPy counts bfloat16 among none of its kinds."""
    return tensor.dtype.startswith(("float", "bfloat"))


def _numbers(tensor: InputTensor, ends: tuple[int | float, int | float]) -> InputValues:
    largest = LARGEST_BFLOAT16 if tensor.dtype == "bfloat16" else float(np.finfo(tensor.dtype).max)
    if max(map(abs, ends)) > largest:
        raise _unfitting(tensor, ends, f"which holds numbers up to {largest:.5g}")
    return InputValues(tensor.name, float(ends[0]), float(ends[1]))


def _integers(tensor: InputTensor, ends: tuple[int | float, int | float]) -> InputValues:
    if any(end != end // 1 for end in ends):
        raise _unfitting(tensor, ends, "which holds integers")
    lowest, highest = int(ends[0]), int(ends[1])
    least, most = (0, 1) if tensor.dtype == "bool" else _limits(tensor.dtype)
    if lowest < least or highest > most:
        raise _unfitting(tensor, ends, f"which holds {least} to {most}")
    bound = tensor.integer_bound
    if bound is not None and (lowest < -bound or highest >= bound):
        raise InputError(
            f"--input {tensor.name}={_text(ends)}: the table that input {tensor.name!r} selects from has {bound} rows, "
            f"so write at most {bound - 1}"
        )
    return InputValues(tensor.name, lowest, highest)


def _limits(dtype: str) -> tuple[int, int]:
    try:
        limits = np.iinfo(dtype)
    except (TypeError, ValueError):
        raise InputError(f"--input cannot fill inputs of {dtype}, which NumPy does not have; leave it out") from None
    return int(limits.min), min(int(limits.max), _WIDEST_INTEGER)


def _unfitting(tensor: InputTensor, ends: tuple[int | float, int | float], why: str) -> InputError:
    return InputError(
        f"--input {tensor.name}={_text(ends)} does not fit input {tensor.name!r} of {tensor.dtype}, {why}"
    )


def _text(ends: tuple[int | float, int | float]) -> str:
    return f"{ends[0]}" if ends[0] == ends[1] else f"{ends[0]}..{ends[1]}"
