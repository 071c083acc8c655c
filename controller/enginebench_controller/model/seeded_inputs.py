"""Inputs for checking and calibrating models: random, seeded, inside the bounds that the model's tables set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import InputTensor


def seeded_inputs(inputs: Sequence[InputTensor], seed: int) -> dict[str, NDArray[Any]]:
    """An array for each input: floats are standard normal, integers lie below their bound, or in {0, 1}."""
    generator = np.random.default_rng(seed)
    return {item.name: _array(item, generator) for item in inputs}


def _array(item: InputTensor, generator: np.random.Generator) -> NDArray[Any]:
    dtype = np.dtype(item.dtype)
    if dtype.kind in "iub":
        bound = min(item.integer_bound or 2, np.iinfo(dtype).max) if dtype.kind != "b" else 2
        return generator.integers(0, bound, item.shape).astype(dtype)
    return generator.standard_normal(item.shape).astype(dtype)
