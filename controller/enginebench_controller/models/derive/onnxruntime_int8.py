"""INT8 children: ONNX Runtime's static quantizer, QDQ, calibrated on inputs of one's choice."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
    model: onnx.ModelProto,
    trials: Sequence[Item],
    calibration: Callable[[], Iterable[Item]],
    folder: Path,
    filled: Collection[str] = (),
) -> onnx.ModelProto:
    """The model with u8 activations and s8 weights, per channel; `folder` is for scratch files.

    Weights take 7 of their 8 bits: u8 × s8 products overflow on processors without VNNI instructions, and one file
    goes to all targets. Ranges are the minima and maxima over the inputs of `calibration`, arrays by the name of the
    input; `trials` are two on which the result is tried as well, where the model itself runs on them. Inputs that are
    `filled` as somebody said stay so in whatever is tried. Raises `QuantizationError`.
    """
    operators = {node.op_type for node in model.graph.node}
    if is_quantized(operators):
        raise QuantizationError("it is quantized already" + (" (dynamically)" if is_dynamic(operators) else ""))
    try:
        with _silenced():
            return _quantized(model, trials, calibration, folder, filled)
    except QuantizationError:
        raise
    except Exception as error:  # the quantizer raises whatever its parts raise
        why = cause(str(error)) or type(error).__name__
        raise QuantizationError(f"ONNX Runtime's quantizer says: {why}") from error


def _quantized(
    model: onnx.ModelProto,
    trials: Sequence[Item],
    calibration: Callable[[], Iterable[Item]],
    folder: Path,
    filled: Collection[str],
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
    _refuse_without_ranges(result)
    given = _largest_and_some(calibration(), filled)
    sessions = open_session(target), open_session(source)
    _refuse_lost_numbers(*sessions, trials[0], given[0])
    _refuse_dead(*sessions, given, trials, filled)
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


def _refuse_without_ranges(model: onnx.ModelProto) -> None:
    if not any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        raise QuantizationError("it has no layer that can be quantized")
    if wrong := [name for name, scales in _scales(model) if not (np.isfinite(scales) & (scales > 0)).all()]:
        raise QuantizationError(
            f"the calibration inputs give {len(wrong)} of its tensors no range, such as {wrong[0]!r}; {_OTHER_INPUTS}"
        )


def _refuse_lost_numbers(session: Any, source: Any, trial: Item, given: Item) -> None:
    """The result gives finite numbers where its source does: on the `trial`, or else on what is `given`."""
    item, expected = next(iter(_runs(source, [], [trial])), None) or (given, source.run(None, given))
    if any(map(_loses_numbers, session.run(None, item), expected)):
        raise QuantizationError("the quantized model gives numbers that are not finite")


_OTHER_INPUTS = "calibrate on other inputs, such as `--inputs FOLDER` with some of those that it is used with"


def _scales(model: onnx.ModelProto) -> Iterator[tuple[str, NDArray[Any]]]:
    """Each activation that is quantized, by its name, and the size of its steps."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[1] in constants:
            yield node.input[0], numpy_helper.to_array(constants[node.input[1]])


def _largest_and_some(items: Iterable[Item], filled: Collection[str]) -> Sequence[Item]:
    """The largest of the calibration inputs, and some others.

    The largest fills the ranges that were found: what others give may well be all one. Raises `QuantizationError` where
    there are no ranges, as all numbers that are not `filled` are zero, and no integers tell inputs apart.
    """
    some: list[Item] = []
    largest: Item = {}
    are_apart = False
    for item in items:
        some += [item] if len(some) < _TRIED else []
        largest = max((largest, item), key=lambda one: _magnitude(one, filled)) if largest else item
        are_apart = are_apart or not _are_equal(*(_integers(one) for one in (some[0], item)))
    if not are_apart and not _magnitude(largest, filled) and any(one.size for one in _floats(largest, filled).values()):
        raise QuantizationError(f"all numbers of the calibration inputs are zero; {_OTHER_INPUTS}")
    return (largest, *(one for one in some if one is not largest))


def _made_up(largest: Item, filled: Collection[str]) -> Sequence[Item]:
    """It backwards, and none of it: both are within the ranges."""
    floats = _floats(largest, filled)
    return [
        largest | {name: np.asarray(change(values)) for name, values in floats.items()}
        for change in (np.flip, np.zeros_like)
    ]


def _as_large(trial: Item, largest: Item, filled: Collection[str]) -> Item:
    """Random inputs are about 1, and pixels 255: with ranges for pixels they would all be nothing."""
    floats = _floats(trial, filled)
    times = {name: _largest_of(largest[name]) / (_largest_of(one) or 1.0) for name, one in floats.items()}
    return trial | {name: np.asarray(one * times[name], one.dtype) for name, one in floats.items()}


_TRIED = 6


def _floats(item: Item, filled: Collection[str]) -> Item:
    return {name: values for name, values in item.items() if values.dtype.kind == "f" and name not in filled}


def _integers(item: Item) -> Sequence[NDArray[Any]]:
    return [values for values in item.values() if values.dtype.kind != "f"]


def _magnitude(item: Item, filled: Collection[str]) -> float:
    return max(map(_largest_of, _floats(item, filled).values()), default=0.0)


def _largest_of(values: NDArray[Any]) -> float:
    return float(np.abs(values).max(initial=0.0))


Run = tuple[Item, Sequence[NDArray[Any]]]
"""Inputs, and what a model gives for them."""


def _runs(source: Any, given: Sequence[Item], made_up: Sequence[Item]) -> list[Run]:
    """Without what is made up that the source cannot run, or that changes nothing in it: this proves nothing."""
    runs: list[Run] = [(one, source.run(None, one)) for one in given]
    for one in made_up:
        with suppress(Exception):  # ONNX Runtime's exceptions share no other base
            outputs = source.run(None, one)
            if not any(_are_equal(outputs, known) for _, known in runs):
                runs.append((one, outputs))
    return runs


def _are_equal(some: Sequence[NDArray[Any]], others: Sequence[NDArray[Any]]) -> bool:
    return all(map(np.array_equal, some, others))


def _refuse_dead(
    session: Any, source: Any, given: Sequence[Item], trials: Sequence[Item], filled: Collection[str]
) -> None:
    """Raise `QuantizationError` where all inputs give the same, and clearly other things in the source.

    That is seen on the `given` inputs and what is made of the first, and on `trials` where the source makes no
    difference between those either.
    """
    large = [_as_large(one, given[0], filled) for one in trials]
    for runs in (_runs(source, *tried) for tried in ((given, _made_up(given[0], filled)), ((), large))):
        if len(runs) < _ENOUGH_TO_COMPARE:
            continue
        first, *others = (expected for _, expected in runs)
        found = [session.run(None, item) for item, _ in runs]
        varies = any(any(map(_differ_clearly, first, each)) for each in others)
        is_one = all(_are_equal(found[0], each) for each in found[1:])
        if is_one and (varies or any(map(_differ_by_far, found[0], first))):
            raise QuantizationError(
                f"calibrated on these inputs, it gives the same outputs whatever its own inputs are; {_OTHER_INPUTS}"
            )
        if varies:
            return


_ENOUGH_TO_COMPARE = 2


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
