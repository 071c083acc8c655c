"""What came out of an inference, in a form small enough to keep: so that engines' outputs can be compared later."""

import math
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from enginebench_agent.worker.output_tensors import STRINGS, dtype_name
from enginebench_plugins.spec import Outputs
from enginebench_proto.v1.measurement_pb2 import CapturedOutput

MAX_VALUES = 4096
"""Values kept of one output tensor for one input."""

MAX_INPUTS = 64
"""Inputs of a set whose outputs are kept."""


def capture(input_index: int, outputs: Outputs) -> list[CapturedOutput]:
    """The outputs for one input of the set, by name in sorted order; none for inputs beyond the first `MAX_INPUTS`.

    Values become float32, so that integers beyond 2^24 lose digits. Complex numbers have one dimension more, of two:
    the real and the imaginary part. Of a string it is a digest of 24 bits, which float32 holds: equal or not is all
    that can be asked. Types that NumPy can neither name nor convert are left out.
    """
    if input_index >= MAX_INPUTS:
        return []
    return [each for name in sorted(outputs) for each in _captured(input_index, name, outputs[name])]


def stride(shape: tuple[int, ...]) -> int:
    """The step that keeps at most `MAX_VALUES` elements of an array.

    It shares no divisor with any dimension: otherwise it would see only some columns, channels or items.
    """
    step = max(1, math.ceil(math.prod(shape) / MAX_VALUES))
    while any(size > 0 and math.gcd(step, size) > 1 for size in shape):
        step += 1
    return step


def _captured(input_index: int, name: str, values: NDArray[Any]) -> Iterator[CapturedOutput]:
    values = _as_real(values)
    step = stride(values.shape)
    kept = values.flat[::step]  # of a view, this copies what is kept only
    if (numbers := _to_float32(kept)) is not None:
        yield CapturedOutput(
            input_index=input_index,
            name=name,
            dtype=dtype_name(values),
            shape=values.shape,
            values=numbers.tobytes(),
            stride=step,
        )


def _as_real(values: NDArray[Any]) -> NDArray[Any]:
    return np.stack([values.real, values.imag], axis=-1) if values.dtype.kind == "c" else values


def _to_float32(values: NDArray[Any]) -> NDArray[np.float32] | None:
    if values.dtype.kind in STRINGS:
        if not all(isinstance(each, str | bytes) for each in values):
            return None
        return np.array(
            [crc32(each if isinstance(each, bytes) else each.encode()) >> 8 for each in values], dtype="<f4"
        )
    # "V" are types NumPy does not know itself, such as bfloat16; some can be converted.
    if values.dtype.kind not in "biufV":
        return None
    try:
        with np.errstate(over="ignore"):  # a float64 too large becomes infinite, here as in every other engine
            return values.astype("<f4")
    except (TypeError, ValueError):
        return None
