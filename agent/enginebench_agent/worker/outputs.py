"""What came out of an inference: checked against the contract, for each input of the set, small enough to keep."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.loads.closed import closed_load
from enginebench_plugins.spec import InferRequest, Load, OnDone, Outputs, Tensors
from enginebench_proto.v1.measurement_pb2 import CapturedOutput, OutputTensor

STRINGS = "OSU"
"""Kinds of NumPy arrays that hold strings, or else are refused: `object`, bytes and Unicode."""


def describe_outputs(outputs: Any) -> list[OutputTensor]:
    """Name, element type and shape of each output.

    Raises `BrokenOutputError` unless all are named arrays, of numbers or of strings.
    """
    if not isinstance(outputs, Mapping) or not outputs:
        raise BrokenOutputError(f"infer() returned {type(outputs).__name__} instead of a mapping of named arrays")
    for name, values in outputs.items():
        if not isinstance(values, np.ndarray):
            raise BrokenOutputError(f"infer() returned {type(values).__name__} instead of an array as '{name}'")
        if values.dtype.kind == "O" and (other := _no_string(values)) is not None:
            raise BrokenOutputError(
                f"infer() returned an array of Python objects as '{name}', one of them {other}; an output is an array "
                "of numbers or of strings"
            )
    return [OutputTensor(name=name, dtype=dtype_name(each), shape=each.shape) for name, each in outputs.items()]


def dtype_name(values: "np.ndarray[Any, Any]") -> str:
    """NumPy's name of the element type; "str" for strings of any kind."""
    return "str" if values.dtype.kind in STRINGS else values.dtype.name


def _no_string(values: "np.ndarray[Any, Any]") -> str | None:
    return next((type(each).__name__ for each in values.flat if not isinstance(each, str | bytes)), None)


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


def run_each_input(
    load: Load, requests: Sequence[InferRequest], inputs: Sequence[Tensors]
) -> tuple[list[CapturedOutput], int]:
    """Run every request and every input at least once; returns the outputs by input, and the number of inferences.

    Outputs belong to the input their own request was started with, so an engine that mixes up requests in flight is
    caught. Raises the first error of an inference, and `BrokenOutputError` for outputs that are no named arrays.
    """
    captured: dict[int, list[CapturedOutput]] = {}
    positions = {id(tensors): index for index, tensors in enumerate(inputs)}
    capturing = [_CapturingRequest(request, positions, captured) for request in requests]
    timed = closed_load(load, capturing, inputs)
    timed.block(0, max(len(inputs), len(requests)))
    timed.drain()
    outputs = [output for index in sorted(captured) for output in captured[index]]
    return outputs, sum(request.inferences for request in capturing)


class _CapturingRequest(InferRequest):
    """A request whose outputs are noted before it counts as done, since it may reuse their memory afterwards."""

    def __init__(
        self, request: InferRequest, positions: dict[int, int], captured: dict[int, list[CapturedOutput]]
    ) -> None:
        self._request = request
        self._positions = positions
        self._captured = captured
        self.inferences = 0

    def infer(self, inputs: Tensors) -> Outputs:
        """As the request itself."""
        outputs = self._request.infer(inputs)
        self._note(inputs, outputs)
        return outputs

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        """As the request itself."""

        def note_then_done(outputs: Outputs | None, error: BaseException | None) -> None:
            if error is None:
                try:
                    self._note(inputs, outputs)
                except BaseException as broken:  # on an engine's thread: carried to the one that waits
                    outputs, error = None, broken
            on_done(outputs, error)

        self._request.start(inputs, note_then_done)

    def _note(self, inputs: Tensors, outputs: Outputs | None) -> None:
        self.inferences += 1
        index = self._positions[id(inputs)]
        if index not in self._captured:
            describe_outputs(outputs)
            self._captured[index] = capture(index, outputs or {})
