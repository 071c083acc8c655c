"""Whether engines computed the same: a fast wrong answer is no result. Who is compared with whom, and how closely.

Compared are measurements of the same model at the same batch on the same inputs, on whichever targets. A version
that only changes how weights are stored or computed (INT8, FP16 weights, another batch) counts as the same model, a
pruned one does not.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enginebench_controller.records import DerivationKind, Load, Measurement, ModelVersion, OutputCheck, OutputNoise
from enginebench_controller.records.model import lineage
from enginebench_controller.verdicts.output_alone import (
    has_masked,
    largest_magnitude,
    masked_remark,
    outputs_are_alike,
    own_problem,
)
from enginebench_controller.verdicts.output_difference import (
    Batch,
    Difference,
    Tolerated,
    difference,
    same_infinities,
)
from enginebench_controller.verdicts.parity import engine_label

QUANTIZED = 1e-1
"""The tolerance between engines that run the same INT8 model."""

QUANTIZATION = 2e-1
"""The tolerance between an INT8 model and the one it was made from. With random weights MobileNetV2 needs 0.14."""

TOLERANCES = {"f32": 1e-3, "f64": 1e-3, "bf16": 5e-2, "f16": 5e-2, "i8": QUANTIZED, "u8": QUANTIZED, "int8": QUANTIZED}
"""The largest error that rounding explains, relative to the largest value, by the precision executed."""

UNKNOWN_PRECISION = 5e-2
"""The tolerance where nobody says what was executed: an engine may choose bf16 by itself."""

_NARROW = "f16"
"""The one precision with less than the range of f32: any number beyond 65,504 is infinite."""

_STORED_DIFFERENTLY = {
    DerivationKind.QUANTIZED: QUANTIZED,
    DerivationKind.CONVERTED: 5e-2,
    DerivationKind.REBATCHED: 0.0,
    DerivationKind.TRANSLATED: 0.0,
}
"""The derivations that keep what a model computes, with the tolerance each asks for."""

_TRUSTED_ENGINE = "onnxruntime"

_NO_INPUTS = hashlib.sha256().hexdigest()
"""The digest of an input set without a single array."""

Models = Mapping[str, ModelVersion]
Noise = Mapping[str, OutputNoise]


def check_outputs(measurements: Sequence[Measurement], models: Iterable[ModelVersion] = ()) -> dict[str, OutputCheck]:
    """Check the outputs of every measurement that captured any, by measurement id.

    `models` tell what a model was derived from; without them each digest is a model of its own. The reference of a
    group is the measurement with which most engines agree; among equals ONNX Runtime's of the model as given, in f32,
    under sync load. One engine against all others is therefore wrong whichever it is. The reference itself has only
    what shows without one.
    """
    by_digest = {model.digest: model for model in models}
    groups: dict[object, list[Measurement]] = defaultdict(list)
    for one in measurements:
        if one.captured_outputs:
            groups[_work(one, by_digest)].append(one)
    return {id_: check for group in groups.values() for id_, check in _checks(group, by_digest)}


def checks_against(
    given: Sequence[Measurement], others: Iterable[Measurement], models: Iterable[ModelVersion]
) -> dict[str, OutputCheck]:
    """How far the outputs of others are from those of a model as `given`, by measurement id, whatever was done to it.

    Compared are those with the batch and the inputs of a given one; of several of these ONNX Runtime's in f32 under
    sync load comes first.
    """
    known = _Known({model.digest: model for model in models}, _noise(given))
    by_inputs: dict[object, Measurement] = {}
    for one in sorted(given, key=lambda one: _preference(one, known.models)):
        if one.captured_outputs:
            by_inputs.setdefault((one.configuration.batch, one.input_set_sha256), one)
    found = {}
    for one in others:
        reference = by_inputs.get((one.configuration.batch, one.input_set_sha256))
        if reference is not None and one.captured_outputs:
            found[one.id] = _against(reference, one, {one.id: ""}, known)
    return found


def works(one: Measurement, models: Iterable[ModelVersion]) -> tuple[object, object]:
    """What measurements are compared by, equal for those that are; and what tells apart those worth comparing."""
    by_digest = {model.digest: model for model in models}
    return _work(one, by_digest), (engine_label(one), one.model_digest, _precision(one))


def tolerance(one: Measurement, other: Measurement, models: Models) -> float:
    """The largest relative error that the rounding of either explains."""
    rounding = max(_tolerance(one, models), _tolerance(other, models))
    return QUANTIZATION if rounding == QUANTIZED and one.model_digest != other.model_digest else rounding


def _work(measurement: Measurement, models: Models) -> tuple[object, ...]:
    family = list(_lineage(measurement.model_digest, models))[-1]
    return family, measurement.configuration.batch, measurement.input_set_sha256


def _lineage(digest: str, models: Models) -> Iterator[str]:
    """The digest and those of the versions it was made from, as long as these compute the same."""
    for passed in lineage(digest, models):
        yield passed
        model = models.get(passed)
        if not (model and model.derivation and model.derivation.kind in _STORED_DIFFERENTLY):
            return


def _tolerance(measurement: Measurement, models: Models) -> float:
    effective = measurement.effective.precision
    precision = str(effective.value) if effective else measurement.configuration.precision
    lineage = (models[digest] for digest in _lineage(measurement.model_digest, models) if digest in models)
    derived = (_STORED_DIFFERENTLY.get(one.derivation.kind, 0.0) for one in lineage if one.derivation)
    return max(TOLERANCES.get(precision, UNKNOWN_PRECISION), 0.0, *derived)


@dataclass(frozen=True)
class _Known:
    """What the measurements of a group are judged by: derivations, and the noise of outputs by the model."""

    models: Models
    noise: Mapping[str, Noise]

    def tolerated(self, one: Measurement, other: Measurement) -> Tolerated:
        """What two may differ by; as quantized count engines that run one model in INT8, too.

        They take one step of eight bits or the next, or choose the steps themselves, from one file in f32.
        """
        both = {**self.noise.get(one.model_digest, {}), **self.noise.get(other.model_digest, {})}
        relative = tolerance(one, other, self.models)
        return Tolerated(relative, both, is_quantized=relative >= QUANTIZED)


def _noise(group: Iterable[Measurement]) -> dict[str, Noise]:
    """The noise of outputs by name, by the digest of the model; of those measurements that had it found."""
    return {one.model_digest: {n.name: n for n in one.grounds.noise} for one in group if one.grounds.noise}


def _checks(group: Sequence[Measurement], models: Models) -> Iterator[tuple[str, OutputCheck]]:
    known = _Known(models, _noise(group))
    problems = {one.id: _own_problem(one, known) for one in group}
    for one in _masked_by_the_model(group, problems):
        problems[one.id] = _own_problem(one, known, masked=True)
    for one in _ignored_by_the_model(group, problems, known):
        problems[one.id] = _changed(one, known)
    reference = _reference([one for one in group if not problems[one.id]] or group, known)
    for one in group:
        if one is reference:
            problem = problems[one.id]
            yield one.id, OutputCheck(None, None, None, None, None, problem, _own_remark(one, known, problem))
        else:
            yield one.id, _against(reference, one, problems, known)


def _against(reference: Measurement, one: Measurement, problems: Mapping[str, str], known: _Known) -> OutputCheck:
    found = _difference(reference, one, known)
    problem, remark = problems[one.id] or found.problem, found.remark
    if drawn := one.grounds.random_operators or reference.grounds.random_operators:
        problem = problems[one.id]
        remark = f"the model has {_listed(drawn)}, so its outputs differ each time and are not compared"
    elif found.problem and one.grounds.noise_unknown:
        remark = f"how far rounding alone moves these outputs is unknown: {one.grounds.noise_unknown}"
    return OutputCheck(
        reference=reference.id,
        max_absolute_error=found.max_absolute_error,
        max_relative_error=found.max_relative_error,
        cosine=found.cosine,
        tolerance=tolerance(reference, one, known.models) if found.tolerance is None else found.tolerance,
        problem=problem,
        remark=remark or _own_remark(one, known, problem),
        largest_relative_error=found.largest_relative_error,
        error_of=found.error_of,
    )


def _difference(reference: Measurement, one: Measurement, known: _Known) -> Difference:
    return difference(
        reference.captured_outputs,
        one.captured_outputs,
        name=engine_label(reference),
        batch=Batch(one.configuration.batch, one.configuration.output_batch_axis),
        tolerated=known.tolerated(reference, one),
    )


def _own_problem(one: Measurement, known: _Known, *, masked: bool = False) -> str:
    return own_problem(one.captured_outputs, _inputs(one), masked=masked) or _changed(one, known)


def _masked_by_the_model(group: Sequence[Measurement], problems: Mapping[str, str]) -> list[Measurement]:
    """Those whose infinities another engine has at the very same places: the model makes them.

    Where no other engine can tell, −inf is taken for a mask; +inf may as well be too large a number. So may both in
    f16: it takes somebody, oneself too, with the same infinities in another precision.
    """
    infinite = [one for one in group if has_masked(one.captured_outputs)]
    able = {one.id for one in infinite} | {id_ for id_, problem in problems.items() if not problem}
    found = []
    for one in infinite:
        others = [each for each in group if each.id in able and each.engine.name != one.engine.name]
        if not others and not any(np.isposinf(each.values).any() for each in one.captured_outputs):
            others = infinite
        alike = [each for each in infinite if same_infinities(each.captured_outputs, one.captured_outputs)]
        is_seen = any(same_infinities(each.captured_outputs, one.captured_outputs) for each in others)
        if is_seen and any(_precision(each) != _NARROW for each in alike):
            found.append(one)
    return found


def _ignored_by_the_model(
    group: Sequence[Measurement], problems: Mapping[str, str], known: _Known
) -> list[Measurement]:
    """Those that give the same numbers for every input as another engine does, too, but for rounding: the model does.

    An engine that has a problem bears witness only if it gives the same for all inputs itself.
    """
    alike = {
        one.id
        for one in group
        if problems[one.id]
        and outputs_are_alike(one.captured_outputs)
        and all(np.isfinite(output.values).all() for output in one.captured_outputs)
    }
    witnesses = [one for one in group if one.id in alike or not problems[one.id]]
    return [
        one
        for one in group
        if one.id in alike
        and any(
            other.engine.name != one.engine.name and not _difference(other, one, known).problem for other in witnesses
        )
    ]


def _changed(one: Measurement, known: _Known) -> str:
    """What is wrong with outputs that did not stay as they were captured while warming up."""
    late, repeat = _largest_change(one, "late_difference"), _largest_change(one, "repeat_difference")
    tolerated = max(known.tolerated(one, one).of(name, largest) for name, largest in _sizes(one).items())
    if repeat > tolerated:
        if one.grounds.random_operators == ():
            return (
                f"the outputs differ by {repeat:.2g} of their largest value between two inferences of one input, "
                "and nothing in the model is random"
            )
    elif late > tolerated:
        return (
            f"the outputs changed during the measurement: those of the same inputs differ by {late:.2g} of their "
            "largest value from what came out while warming up"
        )
    return ""


def _own_remark(one: Measurement, known: _Known, problem: str) -> str:
    repeat = _largest_change(one, "repeat_difference")
    if one.grounds.random_operators and repeat > 0:
        return f"the model has {_listed(one.grounds.random_operators)}, so its outputs differ each time"
    if one.grounds.random_operators is None and repeat > tolerance(one, one, known.models):
        return "the outputs differ between two inferences of one input, and nobody can tell whether the model is random"
    return "" if problem else masked_remark(one.captured_outputs)


def _listed(operators: Sequence[str]) -> str:
    return ", ".join(operators)


def _largest_change(one: Measurement, which: str) -> float:
    known = (getattr(process.afterwards, which) for process in one.processes if process.afterwards)
    return max((change for change in known if change is not None), default=0.0)


def _sizes(one: Measurement) -> dict[str, float]:
    """The largest magnitude of each output."""
    sizes: dict[str, float] = {}
    for each in one.captured_outputs:
        sizes[each.name] = max(sizes.get(each.name, 0.0), largest_magnitude(each))
    return sizes


def _reference(group: Sequence[Measurement], known: _Known) -> Measurement:
    """The measurement with which most engines agree; `_preference` decides between equals."""
    candidates: dict[object, Measurement] = {}
    for one in sorted(group, key=lambda one: _preference(one, known.models)):
        candidates.setdefault((engine_label(one), one.model_digest, _precision(one)), one)
    ranked = list(candidates.values())
    if len({engine_label(one) for one in ranked}) < 3:
        return ranked[0]
    return max(ranked, key=lambda one: _agreeing_engines(one, ranked, known))


def _agreeing_engines(reference: Measurement, others: Iterable[Measurement], known: _Known) -> int:
    return len({engine_label(one) for one in others if not _difference(reference, one, known).problem})


def _preference(one: Measurement, models: Models) -> tuple[object, ...]:
    """What sorts first is the better reference."""
    derived = len(list(_lineage(one.model_digest, models)))
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
    """Given inputs by their contents; random ones are taken to differ; what takes no input has the same each time."""
    asked = one.configuration
    if one.input_set_sha256 == _NO_INPUTS or asked.input_set.is_constant(asked.inputs):
        return [()] * len(one.captured_outputs)
    return [tuple(file.sha256 for file in item) for item in one.configuration.input_set.items]
