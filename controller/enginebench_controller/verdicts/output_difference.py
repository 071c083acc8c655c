"""How the captured outputs of two runs differ, and what is wrong with those of one: numbers and sentences.

Engines keep every `stride`-th element of an output; two strides meet at their least common multiple.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import CapturedOutput

NOISE_FACTOR = 2.0
"""Two engines may each be as far off as rounding moves outputs, and in opposite directions."""

STRINGS = "str"
"""The element type of outputs of which digests are compared: equal or not."""

Outputs = Sequence[CapturedOutput]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How outputs differ from a reference's: the errors as in `OutputCheck`, and a sentence where something is wrong.

    The errors are None where shapes leave nothing to compare. `tolerance` is that of the output farthest beyond, or
    nearest to, its own, and `max_relative_error` its error; `largest_relative_error` is that of any output, None where
    one could not be compared. `remark` says of outputs what is no fault of an engine.
    """

    max_absolute_error: float | None = None
    max_relative_error: float | None = None
    largest_relative_error: float | None = None
    cosine: float | None = None
    tolerance: float | None = None
    problem: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Batch:
    """How many items an inference has, and which dimension of an output, by its name and shape, holds them."""

    size: int
    axis_of: Callable[[str, tuple[int, ...]], int | None]

    def axis(self, output: CapturedOutput) -> int | None:
        """The dimension of the items; None where there is only one, or where nobody can tell."""
        return self.axis_of(output.name, output.shape) if self.size > 1 else None


@dataclass(frozen=True)
class Tolerated:
    """What outputs may differ by: as a share of the largest value of each; by name, as a value, what is noise.

    Noise of None is that of an output whose very shape depends on rounding.
    """

    relative: float
    noise: Mapping[str, float | None] = field(default_factory=dict)

    def of(self, output: str, largest: float) -> float:
        """The error tolerated of one output, relative to its largest value."""
        noise = self.noise.get(output, 0.0)
        if noise is None:
            return math.inf
        return max(self.relative, NOISE_FACTOR * noise / largest if largest else 0.0)

    def shape_is_open(self, output: str) -> bool:
        """Whether rounding alone changes the output's shape."""
        return output in self.noise and self.noise[output] is None


@dataclass(frozen=True, eq=False)
class _Pair:
    """One output of both runs for one input: the elements captured by both and finite in both, float64 (elements,).

    `item` tells of which item of the batch each is, int64 (elements,); None where no dimension is known to hold them.
    `whole` if every element of the output is there.
    """

    reference: Numbers
    other: Numbers
    item: NDArray[np.int64] | None
    whole: bool


def own_problem(outputs: Outputs, inputs: Sequence[object], *, masked: bool = False) -> str:
    """What is wrong with outputs by themselves: a sentence, or empty.

    `inputs` has a value for each input of the set, equal for equal inputs; none where the model takes no input. Values
    that are no numbers are wrong, and so are outputs that are the same for different inputs – unless all are integers,
    since a class may well stay the same. Infinities are right where they are known to be `masked`.
    """
    broken = sum(int(np.count_nonzero(~np.isfinite(one.values))) for one in outputs)
    if broken and not masked:
        return f"{broken:,} of {sum(one.values.size for one in outputs):,} captured output values are NaN or infinite"
    if same := _inputs_without_effect(outputs, inputs):
        return f"the outputs are the same for {same} different inputs, as if the input were ignored"
    return ""


def has_masked(outputs: Outputs) -> bool:
    """Whether there are infinities, each beside finite values of its output, and nothing else that is no number.

    So a model puts aside what is not to be chosen: words behind the end of a text, moves against the rules.
    """
    finite = {one.name for one in outputs if np.isfinite(one.values).any()}
    infinite = {one.name for one in outputs if np.isinf(one.values).any()}
    return bool(infinite) and infinite <= finite and not any(np.isnan(one.values).any() for one in outputs)


def same_infinities(some: Outputs, others: Outputs) -> bool:
    """Whether both have the same ones at the same places."""
    couples, missing = _coupled(some, others)
    comparable = couples and not missing and all(one.shape == other.shape for one, other in couples)
    return bool(comparable) and not _infinite_elsewhere(couples, "")


def masked_remark(outputs: Outputs) -> str:
    """How many infinities there are; empty for none."""
    infinite = sum(int(np.count_nonzero(np.isinf(one.values))) for one in outputs)
    total = sum(one.values.size for one in outputs)
    return f"{infinite:,} of {total:,} captured output values are infinite, as a mask makes them" if infinite else ""


def difference(reference: Outputs, other: Outputs, *, name: str, batch: Batch, tolerated: Tolerated) -> Difference:
    """Compare outputs with those of the reference, which a person knows by `name`, on the inputs that both have.

    Outputs go together by name; where no name is common and both have equally many, in the order of their names.
    """
    couples, missing = _coupled(reference, other)
    if missing:
        return Difference(problem=f"output {missing[0]!r}, which {name} has, is missing")
    if strings := next((one for one in couples if (one[0].dtype == STRINGS) != (one[1].dtype == STRINGS)), None):
        return Difference(problem=f"output {strings[1].name!r} is {strings[1].dtype}, {name} has {strings[0].dtype}")
    unlike = [couple for couple in couples if couple[0].shape != couple[1].shape]
    if wrong := next((one for one in unlike if not tolerated.shape_is_open(one[0].name)), None):
        return Difference(problem=_shapes_differ(*wrong, name, batch))
    remark = _not_compared(unlike[0][0].name, name) if unlike else ""
    couples = [couple for couple in couples if couple[0].shape == couple[1].shape]
    if texts := [couple for couple in couples if couple[0].dtype == STRINGS]:
        couples = [couple for couple in couples if couple[0].dtype != STRINGS]
        if problem := _strings_differ(texts, name):
            return Difference(problem=problem)
    elsewhere = _infinite_elsewhere([one for one in couples if not tolerated.shape_is_open(one[0].name)], name)
    compared = {output: pairs for output, pairs in _pairs(couples, batch).items() if pairs}
    if not compared:
        return Difference(problem=elsewhere, remark=remark)
    tolerances = {output: tolerated.of(output, _scale(pairs)) for output, pairs in compared.items()}
    relative = {output: max(float(one.max()) for one in _errors(pairs)) for output, pairs in compared.items()}
    worst = max(compared, key=lambda output: (relative[output] / tolerances[output], relative[output]))
    farthest = max(compared, key=lambda output: relative[output])
    if relative[farthest] > tolerated.relative:
        remark = remark or _within_noise(farthest, relative[farthest], tolerances[farthest], name)
    wrong_ones = {output: pairs for output, pairs in compared.items() if relative[output] > tolerances[output]}
    return Difference(
        max_absolute_error=max(_largest(pair.other - pair.reference) for pairs in compared.values() for pair in pairs),
        max_relative_error=relative[worst],
        largest_relative_error=None if unlike else relative[farthest],
        cosine=min(_cosine(pairs) for pairs in compared.values()),
        tolerance=tolerances[worst],
        problem=_lost_batch(wrong_ones, name, batch, tolerances)
        or elsewhere
        or _wrong_values(relative[worst], name, tolerances[worst]),
        remark=remark,
    )


def outputs_are_alike(outputs: Outputs) -> bool:
    """Whether all inputs have the very same outputs."""
    by_input: dict[int, list[tuple[str, bytes]]] = {}
    for one in outputs:
        by_input.setdefault(one.input_index, []).append((one.name, one.values.tobytes()))
    return len({tuple(sorted(one)) for one in by_input.values()}) == 1


def largest_magnitude(output: CapturedOutput) -> float:
    """Of the finite values captured; 0 without any."""
    finite = output.values[np.isfinite(output.values)]
    return float(np.abs(finite).max(initial=0.0))


def _inputs_without_effect(outputs: Outputs, inputs: Sequence[object]) -> int:
    """How many different inputs there are, if all of them have the very same outputs; else 0."""
    different = {_input(inputs, one.input_index) for one in outputs}
    continuous = any(one.dtype.startswith(("float", "bfloat", "complex")) for one in outputs)
    return len(different) if len(different) > 1 and continuous and outputs_are_alike(outputs) else 0


def _input(inputs: Sequence[object], index: int) -> object:
    return inputs[index] if index < len(inputs) else index


def _coupled(reference: Outputs, other: Outputs) -> tuple[list[tuple[CapturedOutput, CapturedOutput]], list[str]]:
    """The outputs of both for the same input and of the same name; and the names that the other lacks."""
    partner = _partners(_names(reference), _names(other))
    found = {(one.input_index, one.name): one for one in other}
    inputs = {one.input_index for one in other}
    missing = [name for name, its in partner.items() if its is None]
    couples = [
        (one, found[one.input_index, its])
        for one in reference
        if one.input_index in inputs and (its := partner[one.name]) is not None
    ]
    return couples, missing


def _names(outputs: Outputs) -> list[str]:
    return sorted({one.name for one in outputs})


def _partners(reference: Sequence[str], other: Sequence[str]) -> Mapping[str, str | None]:
    if set(reference).isdisjoint(other) and len(reference) == len(other):
        return dict(zip(reference, other, strict=True))
    return {name: name if name in other else None for name in reference}


def _shapes_differ(reference: CapturedOutput, other: CapturedOutput, name: str, batch: Batch) -> str:
    sentence = f"output {other.name!r} has the shape {other.shape}, {name} has {reference.shape}"
    axis = batch.axis(reference)
    if axis is None:
        return sentence
    before, after = reference.shape[:axis], reference.shape[axis + 1 :]
    if other.shape in {(*before, *after), (*before, 1, *after)}:
        return f"{sentence}: the batch axis is lost"
    return sentence


def _pairs(couples: Iterable[tuple[CapturedOutput, CapturedOutput]], batch: Batch) -> dict[str, list[_Pair]]:
    """The pairs of each output by its name, those without anything to compare left out."""
    by_name: dict[str, list[_Pair]] = {}
    for reference, other in couples:
        pair = _pair(reference, other, batch)
        by_name.setdefault(reference.name, []).extend([pair] if pair.reference.size else [])
    return by_name


def _pair(reference: CapturedOutput, other: CapturedOutput, batch: Batch) -> _Pair:
    step = lcm(reference.stride, other.stride)
    ours, theirs = _every(step, reference), _every(step, other)
    both = min(ours.size, theirs.size)
    ours, theirs = ours[:both], theirs[:both]
    finite = np.isfinite(ours) & np.isfinite(theirs)
    item, axis = None, batch.axis(reference)
    if axis is not None:
        within = max(prod(reference.shape[axis + 1 :]), 1)
        item = (np.arange(both, dtype=np.int64) * step // within % reference.shape[axis])[finite]
    return _Pair(ours[finite], theirs[finite], item, step == 1 and bool(finite.all()))


def _infinite_elsewhere(couples: Iterable[tuple[CapturedOutput, CapturedOutput]], name: str) -> str:
    for reference, other in couples:
        step = lcm(reference.stride, other.stride)
        ours, theirs = _every(step, reference), _every(step, other)
        known = ~(np.isnan(ours) | np.isnan(theirs))
        if places := int(np.count_nonzero((ours != theirs) & (np.isinf(ours) | np.isinf(theirs)) & known)):
            return (
                f"output {other.name!r} and that of {name} are infinite at different places: {places:,} of "
                f"{ours.size:,} captured values"
            )
    return ""


def _every(step: int, output: CapturedOutput) -> Numbers:
    return output.values[:: step // output.stride].astype(np.float64)


def _errors(pairs: Sequence[_Pair]) -> list[Numbers]:
    """The absolute differences for each input ÷ the reference's largest magnitude, or the other's if that is 0."""
    return [np.abs(pair.other - pair.reference) / (_scale(pairs) or 1.0) for pair in pairs]


def _scale(pairs: Sequence[_Pair]) -> float:
    """The reference's largest magnitude; the other's if that is 0."""
    return max(_largest(pair.reference) for pair in pairs) or max(_largest(pair.other) for pair in pairs)


def _largest(values: Numbers) -> float:
    return float(np.abs(values).max())


def _cosine(pairs: Sequence[_Pair]) -> float:
    one = np.concatenate([pair.reference for pair in pairs])
    other = np.concatenate([pair.other for pair in pairs])
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    if not lengths:
        return 1.0 if np.array_equal(one, other) else 0.0
    return min(1.0, max(-1.0, float(np.dot(one, other)) / lengths))


def _lost_batch(
    compared: Mapping[str, Sequence[_Pair]], name: str, batch: Batch, tolerances: Mapping[str, float]
) -> str:
    for output, pairs in compared.items():
        if _repeats_one_item(pairs, batch.size):
            return f"all items of a batch have the same output {output!r}, unlike {name}'s: the batch axis is lost"
        if _only_first_is_right(pairs, tolerances[output]):
            return f"only the first item of a batch has the output {output!r} of {name}: the batch axis is lost"
    return ""


def _repeats_one_item(pairs: Sequence[_Pair], batch: int) -> bool:
    if not all(pair.whole and pair.item is not None for pair in pairs):
        return False
    reference_alike = all(_alike(_by_item(pair, pair.reference, batch)) for pair in pairs)
    return not reference_alike and all(_alike(_by_item(pair, pair.other, batch)) for pair in pairs)


def _by_item(pair: _Pair, values: Numbers, batch: int) -> Numbers:
    """The values of a whole output with a row for each item."""
    return values if pair.item is None else values[np.argsort(pair.item, kind="stable")].reshape(batch, -1)


def _alike(rows: Numbers) -> bool:
    return bool((rows == rows[:1]).all())


def _only_first_is_right(pairs: Sequence[_Pair], tolerance: float) -> bool:
    wrong: dict[int, bool] = {}
    for pair, errors in zip(pairs, _errors(pairs), strict=True):
        if pair.item is None:
            return False
        for item in np.unique(pair.item):
            found = bool((errors[pair.item == item] > tolerance).any())
            wrong[int(item)] = wrong.get(int(item), False) or found
    return len(wrong) > 1 and not wrong.pop(0, True) and all(wrong.values())


def _wrong_values(relative: float, name: str, tolerance: float) -> str:
    if relative <= tolerance:
        return ""
    return (
        f"the outputs differ from those of {name} by up to {relative:.2g} of its largest value; "
        f"{tolerance:.3g} is tolerated"
    )


def _not_compared(output: str, name: str) -> str:
    return f"output {output!r} cannot be compared with that of {name}: rounding alone changes its shape"


def _within_noise(output: str, relative: float, tolerance: float, name: str) -> str:
    """What to know of outputs that differ by more than the usual, and by no more than rounding can make of them."""
    if relative > tolerance:
        return ""
    if math.isinf(tolerance):
        return _not_compared(output, name)
    return (
        f"output {output!r} differs from that of {name} by {relative:.2g} of its largest value, which is within the "
        f"noise of this model: rounding alone moves it by up to {tolerance / NOISE_FACTOR:.2g}"
    )


def _strings_differ(couples: Iterable[tuple[CapturedOutput, CapturedOutput]], name: str) -> str:
    for reference, other in couples:
        step = lcm(reference.stride, other.stride)
        ours, theirs = _every(step, reference), _every(step, other)
        if differing := int(np.count_nonzero(ours != theirs)):
            return f"{differing:,} of {ours.size:,} strings of output {other.name!r} differ from those of {name}"
    return ""
