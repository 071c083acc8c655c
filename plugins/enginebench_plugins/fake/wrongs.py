"""Wrong outputs on request, each a mistake that makes real engines fast: a check of outputs must find every one.

Arrays are not spelled out: this module is also imported where there is no NumPy.
"""

from enum import StrEnum
from typing import Any

from enginebench_plugins import spec

SCALE = 1.1


class Wrong(StrEnum):
    """The mistakes, as values of the option "wrong"."""

    NONE = "none"
    SCALED = "scaled"
    """Every floating output is `SCALE` times what it should be."""
    IGNORED_INPUT = "ignored_input"
    """The first of the model's inputs is taken from the first inference ever, whatever is given."""
    LOST_BATCH = "lost_batch"
    """Only the first item of the batch comes out."""
    REPEATED_ITEM = "repeated_item"
    """Every item of the batch comes out like the first one."""


def spoil_inputs(wrong: Wrong, inputs: spec.Tensors, first_seen: spec.Tensors) -> spec.Tensors:
    """What the engine is to compute with, instead of the inputs given."""
    if wrong is not Wrong.IGNORED_INPUT:
        return inputs
    ignored = next(iter(first_seen))
    return {**inputs, ignored: first_seen[ignored]}


def spoil_outputs(wrong: Wrong, outputs: spec.Outputs) -> spec.Outputs:
    """What the engine is to return, instead of the outputs computed."""
    spoil = _SPOILED.get(wrong)
    return outputs if spoil is None else {name: spoil(each) for name, each in outputs.items()}


def _scaled(values: Any) -> Any:
    return (values * SCALE).astype(values.dtype) if values.dtype.kind == "f" else values


def _first_item(values: Any) -> Any:
    return values[:1].copy() if values.ndim else values


def _first_item_repeated(values: Any) -> Any:
    return values[:1].repeat(len(values), axis=0) if values.ndim else values


_SPOILED = {Wrong.SCALED: _scaled, Wrong.LOST_BATCH: _first_item, Wrong.REPEATED_ITEM: _first_item_repeated}
