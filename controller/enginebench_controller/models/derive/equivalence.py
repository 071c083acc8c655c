"""Proof that a rewritten model computes the same: ONNX Runtime runs both, and the items of a batch are compared."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.models.formats.skeleton import load_skeleton
from enginebench_controller.models.inputs.values import seeded_inputs
from enginebench_controller.records import InputTensor, InputValues
from enginebench_controller.records.cause import cause

Arrays = dict[str, NDArray[Any]]

_TOLERANCE = 1e-4
_TOLERANCE_HALF = 5e-3
_TOLERANCE_QUANTIZED = 2e-2
"""Of the largest output: a value on the edge between two quantization steps may fall to either side."""

_SILENT = 4


class DifferenceError(Exception):
    """The two models cannot be shown to be equal; the text says how they differ."""


def open_session(path: Path) -> Any:
    """An ONNX Runtime session that computes what the file says: no fusions, no messages."""
    import onnxruntime  # noqa: PLC0415  # a quarter of a second, and most plans need no rewritten model

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _SILENT
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def compare_item_by_item(
    source: Path,
    derived: Path,
    source_inputs: Sequence[InputTensor],
    derived_inputs: Sequence[InputTensor],
    values: Sequence[InputValues] = (),
) -> None:
    """Run both models on the same seeded items, filled with `values` where they tell, and compare every output.

    Inputs tell which of their dimensions is the batch. The source runs as often as its batch needs; places
    left over hold other random items, and it runs once more with its items in reverse, so that a model which mixes the
    items of a batch is found out, be it a sequence that is read from its beginning. Raises `DifferenceError`.
    """
    source_batch, batch = _batch(source_inputs), _batch(derived_inputs)
    items = seeded_inputs(derived_inputs, 1, values)
    try:
        expected_session, session = open_session(source), open_session(derived)
        found = dict(zip(_output_names(session), session.run(None, items), strict=True))
        axes = _axes(source_inputs)
        chunks = _chunks(items, seeded_inputs(source_inputs, 2, values), axes, source_batch, batch)
        reverse = {
            name: array if axes[name] is None else np.flip(array, axes[name]) for name, array in chunks[0].items()
        }
        *runs, backwards = (
            dict(zip(_output_names(expected_session), expected_session.run(None, chunk), strict=True))
            for chunk in (*chunks, reverse)
        )
    except Exception as error:  # ONNX Runtime's exceptions share no other base
        raise DifferenceError(f"ONNX Runtime cannot run it: {_why(error)}") from error
    operators = (node.op_type for node in load_skeleton(source).graph.node)
    tolerance = _TOLERANCE_QUANTIZED if is_quantized(operators) else _TOLERANCE
    for name, value in found.items():
        axis = _compare_output(name, value, [run[name] for run in runs], batch, source_batch, tolerance)
        if axis is not None:
            _compare_values(name, np.flip(backwards[name], axis), runs[0][name], tolerance)


def _chunks(
    items: Arrays, fillers: Arrays, axes: Mapping[str, int | None], source_batch: int, batch: int
) -> list[Arrays]:
    """The items in portions of the source's batch, the last filled up with `fillers`; then the fillers alone."""
    portions = [
        {name: _portion(array, fillers[name], axes[name], start, source_batch) for name, array in items.items()}
        for start in range(0, batch, source_batch)
    ]
    return [*portions, fillers]


def _portion(array: NDArray[Any], filler: NDArray[Any], axis: int | None, start: int, size: int) -> NDArray[Any]:
    if axis is None:
        return array
    rows = np.arange(start, min(start + size, array.shape[axis]))
    rest = np.arange(size - rows.size)
    return np.concatenate([np.take(array, rows, axis), np.take(filler, rest, axis)], axis)


def _compare_output(
    name: str, found: NDArray[Any], runs: list[NDArray[Any]], batch: int, source_batch: int, tolerance: float
) -> int | None:
    """Compare item by item; an output without a place for every item must be the same whatever the items are.

    Returns which dimension holds the items, None for none.
    """
    first = runs[0]
    if (axis := _axis_of(first.shape, found.shape, source_batch, batch)) is not None:
        _compare_values(name, found, np.take(np.concatenate(runs, axis), np.arange(batch), axis), tolerance)
    elif found.shape == first.shape:
        for expected in runs:
            _compare_values(name, found, expected, tolerance)
    else:
        raise DifferenceError(f"output {name!r} came out as {found.shape}, which has no place for every item")
    return axis


def _axis_of(first: tuple[int, ...], found: tuple[int, ...], source_batch: int, batch: int) -> int | None:
    """The only dimension in which an output of the two models differs, where that is the batch."""
    unlike = [axis for axis, sizes in enumerate(zip(first, found, strict=False)) if sizes[0] != sizes[1]]
    is_batch = len(first) == len(found) and len(unlike) == 1
    return unlike[0] if is_batch and (first[unlike[0]], found[unlike[0]]) == (source_batch, batch) else None


def _compare_values(name: str, found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    if found.dtype.kind != "f":
        equal = bool(np.array_equal(found, expected))
    else:
        relative = max(tolerance, _TOLERANCE_HALF) if found.dtype.itemsize < 4 else tolerance
        scale = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
        equal = bool(np.allclose(found, expected, rtol=0.0, atol=relative * scale + 1e-6, equal_nan=True))
    if not equal:
        raise DifferenceError(f"output {name!r} differs from what the source gives for each item alone")


def _batch(inputs: Sequence[InputTensor]) -> int:
    return next(item.items for item in inputs if item.items is not None)


def _axes(inputs: Sequence[InputTensor]) -> dict[str, int | None]:
    return {item.name: item.batch_axis if item.items is not None else None for item in inputs}


def _output_names(session: Any) -> list[str]:
    return [output.name for output in session.get_outputs()]


def is_quantized(operators: Iterable[str]) -> bool:
    """Whether a model of these operators computes in 8 bits, be it by QDQ, by QLinear… or dynamically."""
    operators = set(operators)
    return any("Quantize" in one or one.startswith("QLinear") for one in operators) or is_dynamic(operators)


def is_dynamic(operators: Iterable[str]) -> bool:
    """Whether ranges are found at every inference, as `quantize_dynamic` makes it, so that nothing is calibrated."""
    return any("Integer" in one or one.startswith("DynamicQuantize") for one in operators)


def _why(error: Exception) -> str:
    return cause(str(error)) or type(error).__name__
