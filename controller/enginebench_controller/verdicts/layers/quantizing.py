"""Rules on INT8: whether it is left unused, and what it made slower; and which layers only rearrange data."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from enginebench_controller.errors import InputError
from enginebench_controller.graph.matching.kinds import QUANTIZERS
from enginebench_controller.graph.matching.matched import ADDED, Join, LayerCategory, matched_profile
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.graph.roofline import layer_precision
from enginebench_controller.models.derive.equivalence import is_quantized
from enginebench_controller.models.library import INT8_PREFIX
from enginebench_controller.plan.int8 import beside_int8
from enginebench_controller.plan.plan import run_command
from enginebench_controller.records import Peak, PeakKind, Profile
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL
from enginebench_controller.stats.layers import ratio
from enginebench_controller.verdicts.layers.advice import Advice, AdvisedProfile, Severity, counted, percent
from enginebench_controller.verdicts.layers.rows import LayerVerdict, layer_rows
from enginebench_controller.verdicts.parity import engine_label
from enginebench_proto.agreed.words import DEFAULT_DEVICE

INT8_UNUSED = "int8-unused"
"""The rule whose remedy is a benchmark that pages start by themselves: `plan.int8.beside_int8`."""

INT8_INSTRUCTIONS = frozenset({"avx_vnni", "avx_vnni_int8", "avx512_vnni", "amx_int8", "asimddp", "i8mm", "svei8mm"})
"""Instructions that multiply 8-bit integers, in Linux's words."""

_FLOATING = frozenset({"f32", "bf16", "f16"})
_REARRANGES = frozenset({LayerCategory.REORDER.value, LayerCategory.CONVERT.value})
_CONVERTERS = QUANTIZERS | {"Cast"}
_LEAST_INT8_GAIN = 1.2
"""A machine whose INT8 peak is this many times its f32 peak is able to, whatever its instructions."""
_WORTHWHILE_FLOAT = 0.1
"""Floating products that take less of the time are no reason to quantize."""


def int8_unused(subject: AdvisedProfile) -> Iterator[Advice]:
    """The machine is made for INT8, and floating products take much of the time of a model that has none of it."""
    able = _ability(subject)
    if able is None or is_int8(subject):
        return
    floating = _floating_products(subject)
    share = subject.share(floating)
    if share is None or share < _WORTHWHILE_FLOAT or subject.is_overstated(floating):
        return
    why, evidence = able
    yield Advice(
        INT8_UNUSED,
        Severity.GAIN,
        f"the machine is made for INT8 ({why}), and {subject.share_words(floating)} of the time goes into floating "
        "products",
        _remedy(subject),
        subject.profile.id,
        {**evidence, "floating_products_share": share},
        subject.named(floating),
    )


def _remedy(subject: AdvisedProfile) -> str:
    """The commands that measure both versions side by side; the first makes one where there is none."""
    name, known = subject.profile.model_name, subject.int8_versions
    if subject.is_model_gone:
        return (
            f"the model {name} was removed, or is of another library: add its file again, as with `enginebench models "
            "add FILE`, to measure it beside an INT8 version"
        )
    which = f"there is one already, {known[0].name}" if known else "made where there is none"
    try:
        command = run_command(beside_int8(subject.profile, name, "int8"))
    except InputError:  # configured as no plan can be, as what was imported may say it was
        command = f"enginebench run {name} {INT8_PREFIX}{name} --name int8"
    return f"measure it beside its INT8 version ({which}): `{command}`, then `enginebench compare int8`"


def float_in_int8(subject: AdvisedProfile) -> Iterator[Advice]:
    """Convolutions or matrix products that kept to floating numbers in a quantized model."""
    if not is_int8(subject):
        return
    floating = _floating_products(subject)
    share = subject.share(floating)
    if floating and share is not None and not subject.is_overstated(floating):
        yield Advice(
            "float-in-int8",
            Severity.GAIN,
            f"{counted(len(floating), 'product')} of this INT8 model {_verb(floating, 'run')} in floats and "
            f"{_verb(floating, 'take')} {subject.share_words(floating)} of the time",
            "quantize these layers as well, or see whether the engine lacks an INT8 kernel for them",
            subject.profile.id,
            {"layers": len(floating), "time_share": share},
            subject.named(floating),
        )


def slower_in_int8(subject: AdvisedProfile) -> Iterator[Advice]:
    """Layers that INT8 made slower than they are in the floating profile, and what conversions cost."""
    if (floating := subject.against) is None:
        return
    joined = join(matched_profile(floating), matched_profile(subject.profile))
    if why := _why_not_against(subject, floating, joined):
        sentence = f"{floating.name} ({engine_label(floating)}) is not held against it: {why}"
        remedy = "hold it against a profile of the floating model, made with the same engine on equal terms"
        yield Advice(AGAINST_UNUSED, Severity.NOTE, sentence, remedy, subject.profile.id)
        return
    yield from _slower_layers(subject, floating, joined)
    yield from _conversions(subject, floating)


AGAINST_UNUSED = "against-unused"
"""The rule that says why another profile is of no use for the advice."""

_MOSTLY = 0.5
"""Of one model are two profiles that have more of their time than this in rows of both, conversions left aside."""

_EQUAL_TERMS: Mapping[str, Callable[[Profile], object]] = {
    "engine": lambda one: (one.engine.name, one.engine.version),
    "target": lambda one: one.target,
    "device": lambda one: one.configuration.device,
    "batch": lambda one: one.configuration.batch,
    "number of cores": lambda one: one.configuration.place,
}


def _why_not_against(subject: AdvisedProfile, floating: Profile, joined: Join) -> str | None:
    """Why a profile cannot be held against another as an INT8 version against its floating model; None if it can."""
    if not is_int8(subject):
        return "this one is of no INT8 model"
    if is_int8(AdvisedProfile(floating)):
        return "it is of an INT8 model itself"
    unlike = [name for name, value_of in _EQUAL_TERMS.items() if value_of(floating) != value_of(subject.profile)]
    if unlike:
        return f"it has another {' and another '.join(unlike)}"
    if min(_joined_shares(joined)) < _MOSTLY:
        return "it is of another model, most of whose time is in no layer of this one"
    return None


def _joined_shares(joined: Join) -> tuple[float, ...]:
    """The part of each side's time in rows of both, of all that is no conversion."""
    added = [row for row in joined.rows if row.category in ADDED and not row.is_joined]
    without = [sum(row.sides[side].time_ns or 0 for row in added) for side in range(len(joined.total_ns))]
    return tuple(
        ratio(own, total - less) or 0.0
        for own, total, less in zip(joined.joined_ns, joined.total_ns, without, strict=True)
    )


def _verb(layers: Sequence[object], plural: str) -> str:
    return f"{plural}s" if len(layers) == 1 else plural


def is_int8(subject: AdvisedProfile) -> bool:
    """Whether the model was quantized: a product ran in 8 bits, or the graph says so.

    What only moves or looks up bytes, such as those of a text or a picture, is no sign.
    """
    layers = subject.profile.layers
    if any(layer_precision(subject.profile, layers[at]) == "int8" for at in subject.products()):
        return True
    return is_quantized(node.op_type for node in subject.profile.nodes)


def _ability(subject: AdvisedProfile) -> tuple[str, dict[str, float | str]] | None:
    """Why the machine is able to do INT8 well: by instructions, or by what was measured there."""
    instructions = INT8_INSTRUCTIONS.intersection(subject.profile.host.isa)
    if instructions and subject.profile.configuration.device == DEFAULT_DEVICE:
        listed = ", ".join(sorted(instructions))
        return listed, {"instructions": listed}
    gain = ratio(_peak(subject, "int8"), _peak(subject, "f32"))
    if gain is not None and gain >= _LEAST_INT8_GAIN:
        return f"its measured INT8 peak is {gain:.1f} times that of f32", {"int8_peak_to_f32_peak": gain}
    return None


def _peak(subject: AdvisedProfile, precision: str) -> float | None:
    rates = (peak.rate.median_per_s for peak in subject.peaks if peak.rate and _fits(peak, subject.profile, precision))
    return max(rates, default=None)


def _fits(peak: Peak, profile: Profile, precision: str) -> bool:
    asked = profile.configuration
    return (
        peak.is_of(profile.target, profile.host.cpu_model)
        and (peak.engine, peak.device, peak.cores) == (profile.engine, asked.device, asked.cores)
        and profile.host.has_as_fastest(asked.cluster)
        and peak.kind is PeakKind.FLOPS
        and peak.precision == precision
        and not peak.may_be_winograd
    )


def _floating_products(subject: AdvisedProfile) -> tuple[int, ...]:
    """Layers that say they run in floating numbers; one whose precision is not told is not accused."""
    layers = subject.profile.layers
    return tuple(at for at in subject.products() if layer_precision(subject.profile, layers[at]) in _FLOATING)


def rearranging(subject: AdvisedProfile) -> tuple[int, ...]:
    """Layers the engine added to move or convert data, and those of nodes that only do that."""
    return tuple(
        at for at, layer, _ in subject.timed if layer.category in _REARRANGES or subject.runs_only(layer, _CONVERTERS)
    )


def _slower_layers(subject: AdvisedProfile, floating: Profile, joined: Join) -> Iterator[Advice]:
    """Those that a comparison calls worse: beyond noise, and beyond what is worth speaking of."""
    rows = layer_rows((floating, subject.profile), joined, {}, LAYERS_PRACTICAL)
    worse = [row for row in rows if row.verdict is LayerVerdict.WORSE]
    slower = [at for row in worse for at in joined.rows[row.order].sides[1].layers]
    lost_ns = sum(row.contribution_ns for row in worse)
    if slower:
        yield Advice(
            "slower-in-int8",
            Severity.GAIN,
            f"{counted(len(slower), 'layer')} {_verb(slower, 'take')} longer in INT8 than in the floating model, "
            f"{lost_ns / 1e6:.3f} ms in all",
            "leave what these layers run in floating numbers when quantizing, and compare again",
            subject.profile.id,
            {"layers": len(slower), "lost_ns": lost_ns},
            subject.named(slower),
        )


def _conversions(subject: AdvisedProfile, floating: Profile) -> Iterator[Advice]:
    other = AdvisedProfile(floating)
    here, there = rearranging(subject), rearranging(other)
    cost_ns = _time_ns(subject, here) - _time_ns(other, there)
    share = ratio(cost_ns, subject.total_ns)
    if share is not None and cost_ns > 0 and not subject.is_overstated(here):
        yield Advice(
            "int8-conversions",
            Severity.NOTE,
            f"reorders and converts cost this INT8 model {cost_ns / 1e6:.3f} ms more than the floating one, "
            f"{subject.bound_words(here)}{percent(share)} of its time",
            "conversions pay only where the layers between them gain more than this",
            subject.profile.id,
            {"cost_ns": cost_ns, "time_share": share, "layers": len(here), "layers_in_floating": len(there)},
            subject.named(here),
        )


def _time_ns(subject: AdvisedProfile, positions: tuple[int, ...]) -> float:
    wanted = set(positions)
    return sum(time for at, _, time in subject.timed if at in wanted)
