"""Whether engines computed the same: a fast wrong answer is no result. Who is compared with whom, and how closely.

Compared are measurements of the same model at the same batch on the same inputs, on whichever targets. A version
that only changes how weights are stored or computed (INT8, FP16 weights, another batch) counts as the same model, a
pruned one does not.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from enginebench_controller.records import REBATCHED, Load, Measurement, ModelVersion, OutputCheck
from enginebench_controller.trust.output_difference import Difference, difference, own_problem
from enginebench_controller.trust.parity import engine_label

QUANTIZED = 1e-1
"""The tolerance between engines that run the same INT8 model."""

QUANTIZATION = 2e-1
"""The tolerance between an INT8 model and the one it was made from. With random weights MobileNetV2 needs 0.14."""

TOLERANCES = {"f32": 1e-3, "f64": 1e-3, "bf16": 5e-2, "f16": 5e-2, "i8": QUANTIZED, "u8": QUANTIZED, "int8": QUANTIZED}
"""The largest error that rounding explains, relative to the largest value, by the precision executed."""

UNKNOWN_PRECISION = 5e-2
"""The tolerance where nobody says what was executed: an engine may choose bf16 by itself."""

_STORED_DIFFERENTLY = {"int8": QUANTIZED, "OpenVINO IR, FP16": 5e-2, REBATCHED: 0.0}
"""How derivations begin that keep what a model computes, with the tolerance each asks for."""

_TRUSTED_ENGINE = "onnxruntime"

Models = Mapping[str, ModelVersion]


def check_outputs(measurements: Sequence[Measurement], models: Iterable[ModelVersion] = ()) -> dict[str, OutputCheck]:
    """Check the outputs of every measurement that captured any, by measurement id.

    `models` tell what a model was derived from; without them each digest is a model of its own, and a name with "int8"
    tells a quantized one. The reference of a group is the measurement with which most engines agree; among equals ONNX
    Runtime's of the model as given, in f32, under sync load. One engine against all others is therefore wrong whichever
    it is. The reference itself has only what shows without one.
    """
    by_digest = {model.digest: model for model in models}
    groups: dict[object, list[Measurement]] = defaultdict(list)
    for one in measurements:
        if one.captured_outputs:
            groups[_work(one, by_digest)].append(one)
    return {id_: check for group in groups.values() for id_, check in _checks(group, by_digest)}


def tolerance(one: Measurement, other: Measurement, models: Models) -> float:
    """The largest relative error that the rounding of either explains."""
    rounding = max(_tolerance(one, models), _tolerance(other, models))
    return QUANTIZATION if rounding == QUANTIZED and one.model_digest != other.model_digest else rounding


def _work(measurement: Measurement, models: Models) -> tuple[object, ...]:
    family = list(_lineage(measurement.model_digest, models))[-1]
    return family, measurement.configuration.batch, measurement.input_set_sha256


def _lineage(digest: str, models: Models) -> Iterator[str]:
    """The digest and those of the versions it was made from, as long as these compute the same."""
    yield digest
    model = models.get(digest)
    if model and model.parent_digest and (model.derivation or "").startswith(tuple(_STORED_DIFFERENTLY)):
        yield from _lineage(model.parent_digest, models)


def _tolerance(measurement: Measurement, models: Models) -> float:
    effective = measurement.effective.precision
    precision = str(effective.value) if effective else measurement.configuration.precision
    named = QUANTIZED if "int8" in measurement.model_name.lower() else 0.0
    lineage = (
        models[digest].derivation or "" for digest in _lineage(measurement.model_digest, models) if digest in models
    )
    derived = (bound for text in lineage for begin, bound in _STORED_DIFFERENTLY.items() if text.startswith(begin))
    return max(TOLERANCES.get(precision, UNKNOWN_PRECISION), named, *derived)


def _checks(group: Sequence[Measurement], models: Models) -> Iterator[tuple[str, OutputCheck]]:
    problems = {one.id: own_problem(one.captured_outputs, _inputs(one)) for one in group}
    reference = _reference([one for one in group if not problems[one.id]] or group, models)
    for one in group:
        if one is reference:
            yield one.id, OutputCheck(None, None, None, None, None, problems[one.id])
        else:
            yield one.id, _against(reference, one, problems, models)


def _against(reference: Measurement, one: Measurement, problems: Mapping[str, str], models: Models) -> OutputCheck:
    found = _difference(reference, one, models)
    return OutputCheck(
        reference=reference.id,
        max_absolute_error=found.max_absolute_error,
        max_relative_error=found.max_relative_error,
        cosine=found.cosine,
        tolerance=tolerance(reference, one, models),
        problem=problems[one.id] or found.problem,
    )


def _difference(reference: Measurement, one: Measurement, models: Models) -> Difference:
    return difference(
        reference.captured_outputs,
        one.captured_outputs,
        name=engine_label(reference),
        batch=one.configuration.batch,
        tolerance=tolerance(reference, one, models),
    )


def _reference(group: Sequence[Measurement], models: Models) -> Measurement:
    """The measurement with which most engines agree; `_preference` decides between equals."""
    candidates: dict[object, Measurement] = {}
    for one in sorted(group, key=lambda one: _preference(one, models)):
        candidates.setdefault((engine_label(one), one.model_digest, _precision(one)), one)
    ranked = list(candidates.values())
    if len({engine_label(one) for one in ranked}) < 3:
        return ranked[0]
    return max(ranked, key=lambda one: _agreeing_engines(one, ranked, models))


def _agreeing_engines(reference: Measurement, others: Iterable[Measurement], models: Models) -> int:
    return len({engine_label(one) for one in others if not _difference(reference, one, models).problem})


def _preference(one: Measurement, models: Models) -> tuple[object, ...]:
    """What sorts first is the better reference."""
    derived = len(list(_lineage(one.model_digest, models))) + ("int8" in one.model_name.lower())
    asked = one.configuration
    return (
        derived,
        _precision(one) != "f32",
        one.engine.name != _TRUSTED_ENGINE,
        asked.load is not Load.SYNC,
        engine_label(one),
        one.model_digest,
        one.id,
    )


def _precision(one: Measurement) -> str:
    effective = one.effective.precision
    return str(effective.value) if effective else one.configuration.precision


def _inputs(one: Measurement) -> Sequence[object]:
    """Given inputs by their contents; random ones are taken to differ."""
    return [tuple(file.sha256 for file in item) for item in one.configuration.input_set.items]
