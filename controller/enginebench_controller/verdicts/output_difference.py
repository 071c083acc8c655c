"""How the captured outputs of two runs differ: numbers and sentences.

Engines keep every `stride`-th element of an output; two strides meet at their least common multiple.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import CapturedOutput, ErrorOf, OutputNoise
from enginebench_controller.verdicts.output_alone import Outputs
from enginebench_controller.verdicts.output_slices import Elements, counted_outputs, far_outside, lost_slices

NOISE_FACTOR = 2.0
"""Two engines may each be as far off as rounding moves outputs, and in opposite directions."""

ELEMENTS = 1e-2
"""Where not more is tolerated of values, so many of an output's integers may differ: ties may fall either way."""

UNSTEADY_ELEMENTS = 5e-1
"""At most so many where rounding alone changes any of them, as where boxes are put in order: most stay the same."""

_CHANCE_SDS = 3.0
"""Of how many elements rounding happens to change, a Poisson count as a first guess: few ties fall so or so."""

_FEW_BITS = 16

_STEPS = 2.0
"""By so much a number of things that INT8 found may be off; a label of few classes may be as near to the right one."""

_FEWEST_MERGED = 2
"""One item may have the number of all others in INT8 by chance; that two have it, a lost batch axis explains better."""

STRINGS = "str"
"""The element type of outputs of which digests are compared: equal or not."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How outputs differ from a reference's: the errors as in `OutputCheck`, and a sentence where something is wrong.

    The errors are None where shapes leave nothing to compare. `tolerance` is that of the output farthest beyond, or
    nearest to, its own, and `max_relative_error` its error; `largest_relative_error` is that of any output, None where
    one could not be compared; `error_of` tells what they are shares of. `remark` says of outputs what is no fault of an
    engine.
    """

    max_absolute_error: float | None = None
    max_relative_error: float | None = None
    largest_relative_error: float | None = None
    cosine: float | None = None
    tolerance: float | None = None
    problem: str = ""
    remark: str = ""
    error_of: ErrorOf = ErrorOf.LARGEST_VALUE


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
    """What outputs may differ by: as a share of the largest value of each, and by name what is noise.

    What `is_quantized` may have lost slices.
    """

    relative: float
    noise: Mapping[str, OutputNoise] = field(default_factory=dict)
    is_quantized: bool = False

    def of(self, output: str, largest: float) -> float:
        """The error tolerated of one output, relative to its largest value."""
        noise = self.noise.get(output, _NO_NOISE).absolute
        if noise is None:
            return math.inf
        return max(self.relative, NOISE_FACTOR * noise / largest if largest else 0.0)

    def of_elements(self, output: str, count: int) -> float:
        """The share of an output's elements that may differ, where they are integers; `count` it has for an input."""
        noise = self.noise.get(output, _NO_NOISE)
        if noise.absolute is None:
            return math.inf
        unsteady = UNSTEADY_ELEMENTS if noise.absolute else 0.0
        if noise.elements is not None and count:
            share = NOISE_FACTOR * max(noise.elements, 0.0)  # of an imported one it may be anything
            unsteady = min(unsteady, share + _CHANCE_SDS * math.sqrt(share / count))
        return max(self.usual(is_share=True), unsteady)

    def usual(self, *, is_share: bool) -> float:
        """What is tolerated of an output without noise."""
        return max(self.relative, ELEMENTS) if is_share else self.relative

    def shape_is_open(self, output: str) -> bool:
        """Whether rounding alone changes the output's shape."""
        return self.noise.get(output, _NO_NOISE).absolute is None


_NO_NOISE = OutputNoise("", 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class _Pair:
    """One output of both runs for one input: the elements captured by both and finite in both, float64 (elements,).

    `item` tells of which item of the batch each is, int64 (elements,); None where no dimension is known to hold them.
    `whole` if every element of the output, of this `shape`, is there; `places` tell which are, int64 (elements,).
    `bits` are those of its integers; None where it has other numbers.
    """

    reference: Numbers
    other: Numbers
    item: NDArray[np.int64] | None
    whole: bool
    shape: tuple[int, ...]
    places: NDArray[np.int64]
    bits: int | None


@dataclass(frozen=True)
class _Judged:
    """How far an output is off: the share of its elements that differ, or the largest error; and what is tolerated.

    `may_count`: they may be labels, of which too many are others, or numbers of things, which are hardly off.
    """

    error: float
    tolerance: float
    is_share: bool
    may_count: bool = False

    @property
    def beyond(self) -> float:
        """More than 1 for what is wrong."""
        return self.error / self.tolerance


def same_infinities(some: Outputs, others: Outputs) -> bool:
    """Whether both have the same ones at the same places."""
    couples, missing = _coupled(some, others)
    comparable = couples and not missing and all(one.shape == other.shape for one, other in couples)
    return bool(comparable) and not _infinite_elsewhere(couples, "")


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
    counted = counted_outputs(couples) if unlike and tolerated.is_quantized else frozenset[str]()
    free = {one.name for one, _ in unlike if one.name in counted or tolerated.shape_is_open(one.name)}
    if wrong := next((one for one in unlike if one[0].name not in free), None):
        return Difference(problem=_shapes_differ(*wrong, name, batch))
    strayed = _strayed([one for one in couples if one[0].name in counted & free], name, tolerated)
    remark = ""
    if unlike and not strayed:
        first = unlike[0][0].name
        remark = _not_compared(first, name) if tolerated.shape_is_open(first) else _not_judged(first, name)
    couples = [one for one in couples if one[0].shape == one[1].shape and one[0].name not in counted & free]
    if texts := [couple for couple in couples if couple[0].dtype == STRINGS]:
        couples = [couple for couple in couples if couple[0].dtype != STRINGS]
        if problem := _strings_differ(texts, name):
            return Difference(problem=problem)
    elsewhere = (
        _infinite_elsewhere([one for one in couples if not tolerated.shape_is_open(one[0].name)], name) or strayed
    )
    compared = {output: pairs for output, pairs in _pairs(couples, batch).items() if pairs}
    judged = {output: _judged(output, pairs, tolerated) for output, pairs in compared.items()}
    wrong_ones = {output: pairs for output, pairs in compared.items() if judged[output].beyond > 1}
    lost = _lost_batch(wrong_ones, name, batch, judged)
    if few := [output for output in wrong_ones if judged[output].may_count and not lost]:
        compared = {output: pairs for output, pairs in compared.items() if output not in few}
        remark = remark or _label_or_number(few[0], name)
    if not compared:
        return Difference(problem=elsewhere, remark=remark)
    worst = max(compared, key=lambda output: (judged[output].beyond, judged[output].error))
    farthest = max(compared, key=lambda output: judged[output].error)
    if judged[farthest].error > tolerated.usual(is_share=judged[farthest].is_share):
        remark = remark or _within_noise(farthest, judged[farthest], name)
    values = {output: pairs for output, pairs in compared.items() if not judged[output].is_share}
    differences = (_largest(pair.other - pair.reference) for pairs in values.values() for pair in pairs)
    return Difference(
        max_absolute_error=max(differences, default=None),
        max_relative_error=judged[worst].error,
        largest_relative_error=None if unlike or few else judged[farthest].error,
        cosine=min((_cosine(pairs) for pairs in values.values()), default=None),
        tolerance=judged[worst].tolerance,
        problem=lost
        or elsewhere
        or _wrong_values(worst, judged[worst], name)
        or _lost_slices(compared, name, tolerated),
        remark=remark,
        error_of=_error_of(judged[output] for output in compared),
    )


def _judged(output: str, pairs: Sequence[_Pair], tolerated: Tolerated) -> _Judged:
    """By its values, or by the share that differs where these are labels or indices: 7 is no nearer to 8 than to 80.

    Few bits may be either: a map of classes, or numbers in steps, which rounding moves by one; so the milder counts.
    One integer an item may be a label, or a number of things, of which INT8 finds one more or one less.
    """
    error, bits = max(float(one.max()) for one in _errors(pairs)), pairs[0].bits
    by_value = _Judged(error, tolerated.of(output, _scale(pairs)), False)
    if bits is None:
        return by_value
    off = np.concatenate([pair.other - pair.reference for pair in pairs])
    count = prod(pairs[0].shape)
    by_share = _Judged(float(np.mean(off != 0)), tolerated.of_elements(output, count), True)
    if 1 < bits <= _FEW_BITS:
        return min(by_share, by_value, key=lambda one: one.beyond)
    items = 1 if pairs[0].item is None else int(pairs[0].item.max()) + 1
    is_near = _largest(off) <= _STEPS and error <= tolerated.relative
    return replace(by_share, may_count=bits > 1 and count == items and tolerated.is_quantized and is_near)


def _error_of(judged: Iterable[_Judged]) -> ErrorOf:
    kinds = {one.is_share for one in judged}
    if len(kinds) > 1:
        return ErrorOf.EITHER
    return ErrorOf.ELEMENTS if True in kinds else ErrorOf.LARGEST_VALUE


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


def _strayed(couples: Iterable[tuple[CapturedOutput, CapturedOutput]], name: str, tolerated: Tolerated) -> str:
    """What is wrong with the values of outputs of which there is another number, in whichever order: a sentence."""
    by_name: dict[str, list[tuple[CapturedOutput, CapturedOutput]]] = {}
    for one in couples:
        by_name.setdefault(one[0].name, []).extend([] if one[0].dtype == STRINGS else [one])
    return next(filter(None, (_far_outside(its, name, tolerated) for its in by_name.values() if its)), "")


def _far_outside(couples: Sequence[tuple[CapturedOutput, CapturedOutput]], name: str, tolerated: Tolerated) -> str:
    ours, theirs = (np.concatenate([_every(one.stride, one) for one in side]) for side in zip(*couples, strict=True))
    are_integers = all(_bits(one.dtype) for couple in couples for one in couple)
    free_share = tolerated.usual(is_share=True) if are_integers else 0.0
    return far_outside(ours, theirs, output=couples[0][1].name, name=name, free_share=free_share)


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
    places = (np.arange(both, dtype=np.int64) * step)[finite]
    item, axis = None, batch.axis(reference)
    if axis is not None:
        item = places // max(prod(reference.shape[axis + 1 :]), 1) % reference.shape[axis]
    bits = [_bits(one.dtype) for one in (reference, other)]
    of_integers = None if None in bits else min(one for one in bits if one is not None)
    whole = step == 1 and bool(finite.all())
    return _Pair(ours[finite], theirs[finite], item, whole, reference.shape, places, of_integers)


def _bits(dtype: str) -> int | None:
    """Of an element of this type of integers, 1 of booleans; None of other types."""
    if dtype == "bool":
        return 1
    kind, digits = dtype.rstrip("0123456789"), dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if kind in {"int", "uint"} and digits else None


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


def _lost_batch(compared: Mapping[str, Sequence[_Pair]], name: str, batch: Batch, judged: Mapping[str, _Judged]) -> str:
    for output, pairs in compared.items():
        may_count = judged[output].may_count
        if _repeats_one_item(pairs, batch.size) and not (may_count and _merged(pairs) < _FEWEST_MERGED):
            return f"all items of a batch have the same output {output!r}, unlike {name}'s: the batch axis is lost"
        if not may_count and _only_first_is_right(pairs, judged[output]):
            return f"only the first item of a batch has the output {output!r} of {name}: the batch axis is lost"
    return ""


def _merged(pairs: Sequence[_Pair]) -> int:
    """How many numbers more than one the reference has for each input, all together."""
    return sum(np.unique(pair.reference).size - 1 for pair in pairs)


def _lost_slices(compared: Mapping[str, Sequence[_Pair]], name: str, tolerated: Tolerated) -> str:
    for output, pairs in compared.items():
        if tolerated.is_quantized and pairs[0].bits is None and not tolerated.shape_is_open(output):
            elements = [Elements(pair.reference, pair.other, pair.places, pair.shape) for pair in pairs]
            if lost := lost_slices(elements, output, name):
                return lost
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


def _only_first_is_right(pairs: Sequence[_Pair], judged: _Judged) -> bool:
    wrong: dict[int, bool] = {}
    for pair, errors in zip(pairs, _errors(pairs), strict=True):
        if pair.item is None:
            return False
        wrongs = pair.other != pair.reference if judged.is_share else errors
        for item in np.unique(pair.item):
            its = wrongs[pair.item == item]
            found = bool((its.mean() if judged.is_share else its.max()) > judged.tolerance)
            wrong[int(item)] = wrong.get(int(item), False) or found
    return len(wrong) > 1 and not wrong.pop(0, True) and all(wrong.values())


def _wrong_values(output: str, judged: _Judged, name: str) -> str:
    if judged.beyond <= 1:
        return ""
    if judged.is_share:
        return f"{_elements_differ(output, judged, name)}; {_percent(judged.tolerance)} is tolerated"
    return (
        f"the outputs differ from those of {name} by up to {judged.error:.2g} of its largest value; "
        f"{judged.tolerance:.3g} is tolerated"
    )


def _elements_differ(output: str, judged: _Judged, name: str) -> str:
    return f"{_percent(judged.error)} of the elements of output {output!r} differ from those of {name}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _not_compared(output: str, name: str) -> str:
    return f"output {output!r} cannot be compared with that of {name}: rounding alone changes its shape"


def _not_judged(output: str, name: str) -> str:
    return (
        f"output {output!r} cannot be judged: how much of it there is depends on the input, and for some it is another "
        f"number than that of {name}"
    )


def _label_or_number(output: str, name: str) -> str:
    return (
        f"output {output!r} cannot be judged: it is one integer an item, off from that of {name} by no more than "
        f"{_STEPS:g}, and may be a label, or a number of things that were found"
    )


def _within_noise(output: str, judged: _Judged, name: str) -> str:
    """What to know of outputs that differ by more than the usual, and by no more than rounding can make of them."""
    if judged.beyond > 1:
        return ""
    if math.isinf(judged.tolerance):
        return _not_compared(output, name)
    if judged.is_share:
        return (
            f"{_elements_differ(output, judged, name)}: rounding alone changes elements of it, so up to "
            f"{_percent(judged.tolerance)} is tolerated"
        )
    return (
        f"output {output!r} differs from that of {name} by {judged.error:.2g} of its largest value, which is within "
        f"the noise of this model: rounding alone moves it by up to {judged.tolerance / NOISE_FACTOR:.2g}"
    )


def _strings_differ(couples: Iterable[tuple[CapturedOutput, CapturedOutput]], name: str) -> str:
    for reference, other in couples:
        step = lcm(reference.stride, other.stride)
        ours, theirs = _every(step, reference), _every(step, other)
        if differing := int(np.count_nonzero(ours != theirs)):
            return f"{differing:,} of {ours.size:,} strings of output {other.name!r} differ from those of {name}"
    return ""
