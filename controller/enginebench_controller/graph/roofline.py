"""The layers of a profile under the roofs of the machine they ran on.

A layer of F operations that moves Q bytes cannot be done in less than max(F ÷ peak, Q ÷ bandwidth) seconds. Which of
the two is larger says whether it is bound by computing or by memory; their ratio to the time taken is its share of the
attainable. Put as in the source: attainable operations a second = min(peak, intensity × bandwidth), with the intensity
F ÷ Q. Source: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures", Communications of the ACM 52 (4), 2009.

Peaks are measured, not taken from data sheets, and so is the bandwidth at the size of the data of a layer: what fits a
cache has the cache's. A roof is the upper end of a peak's interval: one in the middle would be exceeded half the time.
Bytes count each weight and activation once, as if nothing was in a register or cache before.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from enginebench_controller.graph.flops.counters import BODIES
from enginebench_controller.records import EngineRef, Layer, Peak, PeakKind, Profile, ProfileNode, Rate
from enginebench_controller.records.profile import is_at_most
from enginebench_controller.stats.layers import mean_ns
from enginebench_proto.agreed.words import INTEGER_PRODUCTS

EXPLAINED_ABOVE = 1.05
"""A share of the attainable beyond this needs an explanation; below, it is the peaks' own uncertainty."""

LEAST_READINGS = 20
"""A time of fewer steps of its counter than this may be wrong by more than 5 %."""

STEADY_UP_TO = 1.1
"""An interval whose ends differ by more is of a machine whose speed changes, and may be faster still at other times."""

BUSY_UP_TO = 1.3
"""What else ran during a calibration may have taken this from it; a share beyond it has another reason."""

WINOGRAD_FROM = 1.2
"""So much faster than all else, a 3×3 convolution is computed by Winograd's trick, which saves at least 2.25-fold
multiplications and pays for it with additions; 1.6 to 2.2 times were seen. What is nearer is just a good kernel."""

_PRECISIONS = {
    "f32": ("f32", "fp32", "float", "float32", "tensor(float)"),
    "bf16": ("bf16", "bfloat16", "tensor(bfloat16)"),
    "f16": ("f16", "fp16", "float16", "half", "tensor(float16)"),
    "int8": ("int8", "uint8", "i8", "u8", "s8", "tensor(int8)", "tensor(uint8)"),
}
_ROOF_OF = {word: precision for precision, words in _PRECISIONS.items() for word in words}


class Bound(StrEnum):
    """What held a layer back."""

    COMPUTE = "compute"
    MEMORY = "memory"


class Note(StrEnum):
    """What to know of a layer's place, above all where it lies beyond the roof."""

    WINOGRAD = "winograd"
    """Operations are those of the plain convolution, which Winograd's trick does in fewer."""
    SPARSE = "sparse"
    """Operations are those of the dense weights; the engine leaves out products with zeros."""
    AT_MOST = "at most"
    """Operations are those of the larger branch of an If; the smaller one may have run."""
    IN_CACHE = "in cache"
    """It moved bytes faster than data of its size, but no faster than smaller data: a nearer cache held them."""
    TOO_SHORT = "too short"
    """Its time is only a few steps of the engine's counter."""
    BUSY_CALIBRATION = "busy calibration"
    """Its roof is too low, and its share too high: the machine did something else while peaks were measured."""
    UNSTEADY_CALIBRATION = "unsteady calibration"
    """Beyond the roof, whose own interval is wide: the machine's speed changes, and it was faster in this run."""
    UNEXPLAINED = "unexplained"
    """Beyond the roof, and nothing here says why."""


ABOVE_THE_ROOF: Mapping[Note, str] = {
    Note.WINOGRAD: "counted as plain convolutions, which Winograd's trick does in fewer operations",
    Note.SPARSE: "counted with the zeros that the engine leaves out",
    Note.AT_MOST: "counted with the larger branch of an If, where the smaller one may have run",
    Note.IN_CACHE: "faster than data of their size are moved: a nearer cache held them",
    Note.TOO_SHORT: "so short that the engine's counter tells their rate in a few steps only",
    Note.BUSY_CALIBRATION: "under a roof that was measured while the machine was busy, and is too low: calibrate anew",
    Note.UNSTEADY_CALIBRATION: "above a roof whose own interval is wide: the machine's speed changes",
    Note.UNEXPLAINED: "above the roof for reasons unknown",
}
"""What a remark says of layers with this note."""


@dataclass(frozen=True)
class Roofs:
    """What an engine can reach on one device with so many cores, in one precision; None where it was not measured.

    `bandwidths` are bytes a second by the size of a working set in bytes, smallest first. `winograd_flops_per_s` is
    what a 3×3 convolution of stride 1 reached, counted in full, where the engine computes it by Winograd's trick.
    `disturbed`: some peak of operations in this precision is from a busy machine; `disturbed_sets` are the working sets
    whose bandwidth is. `unsteady`: the peak that makes `flops_per_s` has a wide interval.
    """

    precision: str
    flops_per_s: float | None
    bandwidths: tuple[tuple[int, float], ...]
    winograd_flops_per_s: float | None = None
    disturbed: bool = False
    unsteady: bool = False
    disturbed_sets: frozenset[int] = frozenset()

    def bandwidth(self, data_bytes: int) -> float | None:
        """Bytes a second for data of this size: of the largest measured set that is no larger, or of the smallest.

        More data are never faster: a larger set that was measured as faster raises the roof of all smaller ones. So
        this is a bound also between two sizes, where the truth lies in between.
        """
        return max((rate for _, rate in self._sets(data_bytes)), default=None)

    def is_disturbed(self, data_bytes: int) -> bool:
        """Whether what makes the `bandwidth` for data of this size, or should have made it, is from a busy machine."""
        sets = self._sets(data_bytes)
        fastest = max(sets, key=lambda one: one[1], default=None)
        return fastest is not None and not self.disturbed_sets.isdisjoint({sets[0][0], fastest[0]})

    def _sets(self, data_bytes: int) -> Sequence[tuple[int, float]]:
        """The measured sets from the one on in which data of this size lie."""
        smaller = sum(size <= data_bytes for size, _ in self.bandwidths)
        return self.bandwidths[max(smaller - 1, 0) :]

    @property
    def fastest_bandwidth(self) -> float | None:
        """Bytes a second of the nearest cache measured."""
        return max((rate for _, rate in self.bandwidths), default=None)


@dataclass(frozen=True)
class LayerWork:
    """What a layer, or a group of layers, had to do in one inference; None where unknown.

    `flops` count a multiplication and an addition as two, and every weight as if none were zero. `data_bytes` are
    weights and activations, each once. `kernel` is the engine's own word. `plain_3x3`: a 3×3 convolution of stride and
    dilation 1, which Winograd's trick fits. `sparse`: the engine leaves out products with zeros. `at_most`: of branches
    between which the data decide the larger counts.
    """

    flops: int | None
    data_bytes: int | None
    kernel: str = ""
    plain_3x3: bool = False
    sparse: bool = False
    at_most: bool = False


@dataclass(frozen=True)
class Roofline:
    """A layer's place under its roofs. Rates are per second; None where something they need is unknown.

    `intensity` is in operations a byte. `share` of the attainable is never cut off at 1: `notes` explain one beyond
    `EXPLAINED_ABOVE`, and `dense_equivalent` says that the operations are more than those really done.
    """

    flops_per_s: float | None
    bytes_per_s: float | None
    intensity: float | None
    attainable_flops_per_s: float | None
    share: float | None
    bound: Bound | None
    dense_equivalent: bool = False
    notes: tuple[Note, ...] = ()


def roof_precision(words: str) -> str | None:
    """The precision of the peaks that a layer's precision, in its engine's words, is held against; None for others."""
    return _ROOF_OF.get(words.strip().lower())


def roofs_of(peaks: Iterable[Peak], engine: EngineRef, device: str, cores: int, precision: str) -> Roofs | None:
    """The roofs that the peaks of one target make for a run; None where such a run was never calibrated.

    `precision` is one of peaks (`roof_precision`). Only the very version of the engine counts: another has its own.
    """
    subject = (engine, device, cores)
    found = [peak for peak in peaks if peak.rate is not None and (peak.engine, peak.device, peak.cores) == subject]
    if not found:
        return None
    in_full, winograd = _operations(found, precision)
    return Roofs(
        precision=precision,
        flops_per_s=None if in_full is None else in_full.high_per_s,
        winograd_flops_per_s=None if winograd is None else winograd.high_per_s,
        bandwidths=_bandwidths(found),
        disturbed=any(_is_disturbed(peak) for peak in found if peak.precision == precision),
        unsteady=in_full is not None and in_full.high_per_s > STEADY_UP_TO * in_full.low_per_s,
        disturbed_sets=frozenset(
            peak.working_set_bytes for peak in found if peak.working_set_bytes and _is_disturbed(peak)
        ),
    )


def place(work: LayerWork, time_ns: float | None, roofs: Roofs | None, resolution_ns: int | None = None) -> Roofline:
    """A layer's place, from its time in one inference in nanoseconds and, where known, the step of its counter."""
    if not time_ns:
        return Roofline(None, None, _intensity(work), None, None, None)
    seconds = time_ns / 1e9
    flops_per_s = None if work.flops is None else work.flops / seconds
    bytes_per_s = None if work.data_bytes is None else work.data_bytes / seconds
    least = _least_seconds(work, roofs)
    share = None if least is None else max(least) / seconds
    winograd = _is_winograd(work, flops_per_s, roofs)
    return Roofline(
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        intensity=_intensity(work),
        attainable_flops_per_s=_attainable(work, least),
        share=share,
        bound=None if least is None else Bound.COMPUTE if least[0] >= least[1] else Bound.MEMORY,
        dense_equivalent=winograd or work.sparse,
        notes=_notes(work, share, bytes_per_s, roofs, winograd=winograd, steps=_steps(time_ns, resolution_ns)),
    )


def resolution_ns(times_ns: Sequence[int]) -> int | None:
    """The step of the counter that many times came from: what divides them all; None without a time above zero."""
    return math.gcd(*times_ns) or None


def _operations(peaks: Sequence[Peak], precision: str) -> tuple[Rate | None, Rate | None]:
    """The peak of what is computed in full, and that of Winograd's trick where the engine uses it."""
    fitting = [peak for peak in peaks if peak.kind is PeakKind.FLOPS and peak.precision == precision]
    in_full = _best(peak for peak in fitting if not peak.may_be_winograd)
    plain_3x3 = _best(peak for peak in fitting if peak.may_be_winograd)
    if in_full is None or plain_3x3 is None:
        return in_full, None
    # By medians: intervals of a machine whose speed changes overlap whatever the kernels do.
    if plain_3x3.median_per_s > WINOGRAD_FROM * in_full.median_per_s:
        return in_full, plain_3x3
    return max(in_full, plain_3x3, key=_high_per_s), None


def _is_disturbed(peak: Peak) -> bool:
    return peak.rate is not None and peak.rate.disturbed


def _best(peaks: Iterable[Peak]) -> Rate | None:
    return max((peak.rate for peak in peaks if peak.rate is not None), key=_high_per_s, default=None)


def _high_per_s(rate: Rate) -> float:
    return rate.high_per_s


def _bandwidths(peaks: Iterable[Peak]) -> tuple[tuple[int, float], ...]:
    best: dict[int, float] = {}
    for peak in peaks:
        if peak.kind is PeakKind.BANDWIDTH and peak.working_set_bytes and peak.rate is not None:
            size = peak.working_set_bytes
            best[size] = max(best.get(size, 0.0), peak.rate.high_per_s)
    return tuple(sorted(best.items()))


def _intensity(work: LayerWork) -> float | None:
    return work.flops / work.data_bytes if work.flops is not None and work.data_bytes else None


def _least_seconds(work: LayerWork, roofs: Roofs | None) -> tuple[float, float] | None:
    """The least time for the operations, and that for the bytes; None where either is unknown."""
    if roofs is None or work.flops is None or work.data_bytes is None:
        return None
    bandwidth = roofs.bandwidth(work.data_bytes)
    if roofs.flops_per_s is None or bandwidth is None:
        return None
    return work.flops / roofs.flops_per_s, work.data_bytes / bandwidth


def _attainable(work: LayerWork, least: tuple[float, float] | None) -> float | None:
    """min(peak, intensity × bandwidth), which is the operations over the longer of the two least times."""
    return work.flops / max(least) if least is not None and work.flops and max(least) > 0 else None


def _is_winograd(work: LayerWork, flops_per_s: float | None, roofs: Roofs | None) -> bool:
    """Whether the kernel says so; or a convolution that Winograd's trick fits is faster than any product can be, on an
    engine whose calibration saw the same.
    """
    if "wino" in work.kernel.lower():
        return True
    if not work.plain_3x3 or flops_per_s is None or roofs is None or roofs.flops_per_s is None:
        return False
    return roofs.winograd_flops_per_s is not None and flops_per_s > EXPLAINED_ABOVE * roofs.flops_per_s


def _steps(time_ns: float, resolution: int | None) -> float:
    return math.inf if resolution is None else time_ns / resolution


def _notes(
    work: LayerWork,
    share: float | None,
    bytes_per_s: float | None,
    roofs: Roofs | None,
    *,
    winograd: bool,
    steps: float,
) -> tuple[Note, ...]:
    notes = [Note.WINOGRAD] * winograd + [Note.SPARSE] * work.sparse + [Note.AT_MOST] * work.at_most
    notes += [Note.TOO_SHORT] * (steps < LEAST_READINGS)
    if share is None:
        return tuple(notes)
    busy = [Note.BUSY_CALIBRATION] * _is_roof_of_busy(work, roofs)
    if share <= EXPLAINED_ABOVE or notes:
        return (*notes, *busy)
    if _is_in_cache(work, bytes_per_s, roofs):
        return (Note.IN_CACHE, *busy)
    if busy and share <= BUSY_UP_TO:
        return tuple(busy)
    return (Note.UNSTEADY_CALIBRATION if _is_of_changing_speed(work, roofs) else Note.UNEXPLAINED, *busy)


def _is_roof_of_busy(work: LayerWork, roofs: Roofs | None) -> bool:
    """Whether the lower of the two roofs was measured on a busy machine."""
    least = _least_seconds(work, roofs)
    if roofs is None or least is None or work.data_bytes is None:
        return False
    return roofs.disturbed if least[0] >= least[1] else roofs.is_disturbed(work.data_bytes)


def _is_of_changing_speed(work: LayerWork, roofs: Roofs | None) -> bool:
    """Whether the roof exceeded is that of operations, and was itself measured at changing speeds."""
    least = _least_seconds(work, roofs)
    return roofs is not None and roofs.unsteady and least is not None and least[0] >= least[1]


def _is_in_cache(work: LayerWork, bytes_per_s: float | None, roofs: Roofs | None) -> bool:
    """Whether only the bandwidth is exceeded, and not by more than the nearest cache allows."""
    least = _least_seconds(work, roofs)
    fastest = None if roofs is None else roofs.fastest_bandwidth
    if least is None or bytes_per_s is None or fastest is None or work.data_bytes is None:
        return False
    seconds = work.data_bytes / bytes_per_s
    return least[0] <= EXPLAINED_ABOVE * seconds and bytes_per_s <= EXPLAINED_ABOVE * fastest


_PLAIN_CONVOLUTIONS = frozenset({"Conv", "FusedConv"})

_TELLS_OUTPUTS = "onnxruntime"
"""The engine whose older profiles have the type of an output as the precision of a product of integers."""

_TORCH = "torch"
_VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_VIEWS_OF_TORCH = _VIEWS | {"Expand", "Slice", "Split", "Transpose"}
"""What an engine may do without moving a byte, so that no bandwidth bounds it. PyTorch strides over its tensors."""

_RUNS_BODIES = frozenset({name for _, name in BODIES} | {"TensorIterator"})
"""Types of layers that run graphs of their own. TensorIterator is OpenVINO's word for a Loop and a Scan."""


def fitting_peaks(profile: Profile, peaks: Iterable[Peak]) -> list[Peak]:
    """Those of the machine that the profile is of; none for one on slower cores than calibrations run on."""
    if not profile.host.has_as_fastest(profile.configuration.cluster):
        return []
    return [peak for peak in peaks if peak.is_of(profile.target, profile.host.cpu_model)]


def rooflines(profile: Profile, peaks: Sequence[Peak]) -> tuple[Roofline | None, ...]:
    """The place of each layer in the profile's order; None for one without a time, or whose work is unknown.

    `peaks` are those of the profile's target. Without fitting ones a place has rates but no share of the attainable.
    """
    fitting, groups = fitting_peaks(profile, peaks), _groups(profile.nodes)
    resolution = resolution_ns([time for layer in profile.layers for time in layer.time_ns])
    roofs: dict[str | None, Roofs | None] = {None: None}
    places: list[Roofline | None] = []
    for layer in profile.layers:
        precision = layer_precision(profile, layer)
        if precision is not None and precision not in roofs:
            asked = profile.configuration
            roofs[precision] = roofs_of(fitting, profile.engine, asked.device, asked.cores, precision)
        time = mean_ns(layer)
        known = time is not None and (layer.flops is not None or layer.data_bytes is not None)
        work = _work(profile, layer, groups.get(layer.group, ()))
        places.append(place(work, time, roofs[precision], resolution) if known else None)
    return tuple(places)


def layer_precision(profile: Profile, layer: Layer) -> str | None:
    """The precision of the peaks that a layer is held against: its own, or that of the run where it tells none.

    A layer with bodies tells the type of its condition or counter, so that of the run counts. None for those without.
    """
    if profile.engine.name == _TELLS_OUTPUTS and layer.type in INTEGER_PRODUCTS:
        return "int8"
    if layer.precision and layer.type not in _RUNS_BODIES:
        return roof_precision(layer.precision)
    effective = profile.effective.precision
    return None if effective is None else roof_precision(str(effective.value))


def _groups(nodes: Sequence[ProfileNode]) -> Mapping[int | None, Sequence[ProfileNode]]:
    """The nodes that compute, by their group."""
    groups: defaultdict[int | None, list[ProfileNode]] = defaultdict(list)
    for node in nodes:
        if node.group is not None and not node.folded:
            groups[node.group].append(node)
    return groups


def _work(profile: Profile, layer: Layer, nodes: Sequence[ProfileNode]) -> LayerWork:
    """The work of a layer that stands for these nodes."""
    return LayerWork(
        layer.flops,
        None if _may_be_a_view(profile, nodes) else layer.data_bytes,
        layer.kernel,
        plain_3x3=any(map(_is_plain_3x3, nodes)),
        sparse=bool(profile.imposed_sparsity),
        at_most=is_at_most(nodes),
    )


def _may_be_a_view(profile: Profile, nodes: Sequence[ProfileNode]) -> bool:
    views = _VIEWS_OF_TORCH if profile.engine.name == _TORCH else _VIEWS
    return bool(nodes) and views.issuperset(node.op_type for node in nodes)


def _is_plain_3x3(node: ProfileNode) -> bool:
    """A 3×3 convolution of stride and dilation 1 that is not grouped: what Winograd's trick fits."""
    said: Mapping[str, object] = node.attributes
    return (
        node.op_type in _PLAIN_CONVOLUTIONS
        and said.get("kernel_shape") == (3, 3)
        and set(_numbers(said.get("strides"))) | set(_numbers(said.get("dilations"))) <= {1}
        and said.get("group", 1) == 1
    )


def _numbers(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()
