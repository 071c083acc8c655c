"""INT8 children: ONNX Runtime's static quantizer, QDQ, calibrated on inputs of one's choice."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper, version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from enginebench_controller.models.derive.equivalence import is_dynamic, is_quantized, open_session
from enginebench_controller.records.cause import cause

Item = dict[str, NDArray[Any]]

_PER_CHANNEL_OPSET = 13
_MATRIX_OPERATORS = ["Conv", "Gemm", "MatMul"]
_SILENT = 4


class QuantizationError(Exception):
    """The model cannot be quantized; the text says why."""


def quantized(
    model: onnx.ModelProto, trials: Sequence[Item], calibration: Callable[[], Iterable[Item]], folder: Path
) -> onnx.ModelProto:
    """The model with u8 activations and s8 weights, per channel; `folder` is for scratch files.

    Weights take 7 of their 8 bits: u8 × s8 products overflow on processors without VNNI instructions, and one file
    goes to all targets. Ranges are the minima and maxima over the inputs of `calibration`, arrays by the name of the
    input; `trials` are two on which the result is tried as well. Raises `QuantizationError`.
    """
    operators = {node.op_type for node in model.graph.node}
    if is_quantized(operators):
        raise QuantizationError("it is quantized already" + (" (dynamically)" if is_dynamic(operators) else ""))
    try:
        with _silenced():
            return _quantized(model, trials, calibration, folder)
    except QuantizationError:
        raise
    except Exception as error:  # the quantizer raises whatever its parts raise
        why = cause(str(error)) or type(error).__name__
        raise QuantizationError(f"ONNX Runtime's quantizer says: {why}") from error


def _quantized(
    model: onnx.ModelProto, trials: Sequence[Item], calibration: Callable[[], Iterable[Item]], folder: Path
) -> onnx.ModelProto:
    source, target = folder / "folded.onnx", folder / "quantized.onnx"
    constant = _with_constant_weights(_with_opset(model))
    onnx.save(_with_folded_constants(constant, folder), source)
    quantize_static(
        source,
        target,
        _Reader(calibration()),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=_operators(model),
        per_channel=_opset(onnx.load(source, load_external_data=False)) >= _PER_CHANNEL_OPSET,
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    result = onnx.load(target)
    _keep_used_domains(result)
    onnx.save(result, target)
    _check(result, target, source, trials)
    _refuse_dead(target, source, _telling_inputs(calibration()), trials)
    return result


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # its package has no types
    """Hands out inputs, one after the other."""

    def __init__(self, items: Iterable[dict[str, Any]]) -> None:
        self._items = iter(items)

    def get_next(self) -> dict[str, Any] | None:
        """The next input, or None at the end."""
        return next(self._items, None)


def _operators(model: onnx.ModelProto) -> list[str] | None:
    """Convolutional networks stay in INT8 from end to end; transformers only multiply their matrices in it.

    The parts of a LayerNorm do not survive 8 bits: BERT-tiny is 30 % off with them and 3 % without.
    """
    kinds = [node.op_type for node in model.graph.node]
    return None if kinds.count("Conv") > kinds.count("MatMul") else _MATRIX_OPERATORS


def _opset(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), 1)


def _with_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Per-channel scales need opset 13; where the converter cannot get there, one scale a tensor has to do."""
    if _opset(model) >= _PER_CHANNEL_OPSET:
        return model
    try:
        return version_converter.convert_version(model, _PER_CHANNEL_OPSET)
    except RuntimeError:
        return model


def _with_constant_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights that are inputs as well, as every weight was before IR version 4, could change and are not folded."""
    constant = onnx.ModelProto()
    constant.CopyFrom(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del constant.graph.input[:]
    constant.graph.input.extend(inputs)
    constant.ir_version = max(model.ir_version, 4)
    return constant


def _with_folded_constants(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Batch normalization folded into convolutions: an engine cannot do it across quantization steps.

    ONNX Runtime's own preprocessing adds operator sets that other engines refuse; those it does not need go again.
    """
    source, target = folder / "source.onnx", folder / "optimized.onnx"
    onnx.save(model, source)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = _SILENT
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    folded = onnx.load(target)
    _keep_used_domains(folded)
    foreign = {entry.domain for entry in folded.opset_import} - {entry.domain for entry in model.opset_import}
    return model if foreign else folded


def _keep_used_domains(model: onnx.ModelProto) -> None:
    """Drop imports of operator sets that no node uses (nodes of subgraphs and functions included)."""
    used = {"", *_domains(model.graph.node)}
    for function in model.functions:
        used |= {function.domain, *_domains(function.node)}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _domains(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield node.domain
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _domains(graph.node)


def _check(model: onnx.ModelProto, path: Path, source: Path, trials: Sequence[Item]) -> None:
    """Something was quantized, and the result runs and gives finite numbers where its source does."""
    if not any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        raise QuantizationError("it has no layer that can be quantized")
    if wrong := [name for name, scales in _scales(model) if not (np.isfinite(scales) & (scales > 0)).all()]:
        raise QuantizationError(
            f"the calibration inputs give {len(wrong)} of its tensors no range, such as {wrong[0]!r}; {_OTHER_INPUTS}"
        )
    outputs, expected = (open_session(each).run(None, trials[0]) for each in (path, source))
    if any(map(_loses_numbers, outputs, expected)):
        raise QuantizationError("the quantized model gives numbers that are not finite")


_OTHER_INPUTS = "calibrate on other inputs, such as `--inputs FOLDER` with some of those that it is used with"


def _scales(model: onnx.ModelProto) -> Iterator[tuple[str, NDArray[Any]]]:
    """Each activation that is quantized, by its name, and the size of its steps."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[1] in constants:
            yield node.input[0], numpy_helper.to_array(constants[node.input[1]])


def _telling_inputs(items: Iterable[Item]) -> Sequence[Item]:
    """The largest of the calibration inputs, it backwards, none of it, and some others.

    They are within the ranges that were found, and the largest fills them: what others give may well be all one.
    Raises `QuantizationError` where there are no ranges, as all numbers are zero.
    """
    items = iter(items)
    some = list(itertools.islice(items, _TRIED))
    largest = max(itertools.chain(some, items), key=_magnitude)
    if not _magnitude(largest) and any(one.dtype.kind == "f" and one.size for one in largest.values()):
        raise QuantizationError(f"all numbers of the calibration inputs are zero; {_OTHER_INPUTS}")
    floats = {name: values for name, values in largest.items() if values.dtype.kind == "f"}
    backwards = largest | {name: np.flip(values) for name, values in floats.items()}
    return (largest, backwards, largest | {name: np.zeros_like(values) for name, values in floats.items()}, *some)


def _as_large(trial: Item, largest: Item) -> Item:
    """Random inputs are about 1, and pixels 255: with ranges for pixels they would all be nothing."""
    floats = {name: one for name, one in trial.items() if one.dtype.kind == "f"}
    times = {name: _magnitude({name: largest[name]}) / (_magnitude({name: one}) or 1.0) for name, one in floats.items()}
    return trial | {name: (one * times[name]).astype(one.dtype) for name, one in floats.items()}


_TRIED = 6


def _magnitude(item: Item) -> float:
    return max((float(np.abs(one).max(initial=0.0)) for one in item.values() if one.dtype.kind == "f"), default=0.0)


def _refuse_dead(path: Path, source: Path, inputs: Sequence[Item], trials: Sequence[Item]) -> None:
    """Raise `QuantizationError` where all inputs give the same, and clearly other things in the source.

    That is seen on the calibration `inputs`, and on `trials` where the source makes no difference between those either.
    """
    sessions = [open_session(each) for each in (path, source)]
    for tried in (inputs, [_as_large(one, inputs[0]) for one in trials]):
        found, expected = ([session.run(None, one) for one in tried] for session in sessions)
        varies = any(any(map(_differ_clearly, expected[0], each)) for each in expected[1:])
        is_one = all(all(map(np.array_equal, found[0], each)) for each in found[1:])
        if is_one and (varies or any(map(_differ_by_far, found[0], expected[0]))):
            raise QuantizationError(
                f"calibrated on these inputs, it gives the same outputs whatever its own inputs are; {_OTHER_INPUTS}"
            )
        if varies:
            return


_CLEARLY = 0.05
"""Of the largest output: what differs by less may be within one and the same step of 8 bits."""


_BY_FAR = 0.2
"""What an INT8 version may be off its source, as `compare` has it."""


def _differ_clearly(one: NDArray[Any], other: NDArray[Any], share: float = _CLEARLY) -> bool:
    if one.dtype.kind != "f" or one.shape != other.shape:
        return False
    values = [np.nan_to_num(each.astype(np.float64), posinf=0.0, neginf=0.0) for each in (one, other)]
    largest = max(float(np.abs(each).max(initial=0.0)) for each in values)
    return float(np.abs(values[0] - values[1]).max(initial=0.0)) > share * largest


def _differ_by_far(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    return _differ_clearly(found, expected, _BY_FAR)


def _loses_numbers(values: NDArray[Any], expected: NDArray[Any]) -> bool:
    if values.dtype.kind != "f":
        return False
    where = np.isfinite(expected) if expected.shape == values.shape else np.True_
    return not np.isfinite(values).all(where=where)


@contextmanager
def _silenced() -> Iterator[None]:
    """The quantizer advises, through the root logger, to do the preprocessing that is done here already."""
    root = logging.getLogger()
    root.addFilter(_refuse_all)
    try:
        yield
    finally:
        root.removeFilter(_refuse_all)


def _refuse_all(_: logging.LogRecord) -> bool:
    return False
