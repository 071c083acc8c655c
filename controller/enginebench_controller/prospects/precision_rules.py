"""Rules about INT8: able but unused, half done, and what it costs."""

from collections.abc import Iterator

from enginebench_controller.model.matching import LayerCategory, join
from enginebench_controller.model.matching.words import QUANTIZERS
from enginebench_controller.model.roofline import roof_precision
from enginebench_controller.prospects.advice import Advice, Severity, Subject, percent
from enginebench_controller.records import Peak, PeakKind, Profile
from enginebench_controller.stats.profiles import ratio

INT8_INSTRUCTIONS = frozenset({"avx_vnni", "avx_vnni_int8", "avx512_vnni", "amx_int8", "asimddp", "i8mm", "svei8mm"})
"""Instructions that multiply 8-bit integers, in Linux's words."""

_FLOATING = frozenset({"f32", "bf16", "f16"})
_REARRANGES = frozenset({LayerCategory.REORDER.value, LayerCategory.CONVERT.value})
_CONVERTERS = QUANTIZERS | {"Cast"}


def int8_unused(subject: Subject) -> Iterator[Advice]:
    """The machine is made for INT8, and floating products take much of the time of a model that has none of it."""
    able = _ability(subject)
    if able is None or is_int8(subject):
        return
    floating = _floating_products(subject)
    share = subject.share(floating)
    if share is None or share < subject.thresholds.worthwhile_float:
        return
    why, evidence = able
    yield Advice(
        "int8-unused",
        Severity.GAIN,
        f"the machine is made for INT8 ({why}), and {percent(share)} of the time goes into floating products",
        _remedy(subject),
        subject.profile.id,
        {**evidence, "floating_products_share": share},
        subject.named(floating),
    )


def _remedy(subject: Subject) -> str:
    """The commands that measure both versions side by side; making one only where there is none."""
    name, engine = subject.profile.model_name, subject.profile.engine.name
    if subject.int8_versions:
        known = subject.int8_versions[0].name
        return (
            f"there is an INT8 version already, {known}; measure and compare both: "
            f"`enginebench run {name} {known} --engine {engine} --name int8`, then `enginebench compare int8`"
        )
    return f"make an INT8 version, then measure and compare both: `enginebench models quantize {name}`"


def float_in_int8(subject: Subject) -> Iterator[Advice]:
    """Convolutions or matrix products that kept to floating numbers in a quantized model."""
    if not is_int8(subject):
        return
    floating = _floating_products(subject)
    share = subject.share(floating)
    if floating and share is not None:
        yield Advice(
            "float-in-int8",
            Severity.GAIN,
            f"{len(floating)} products of this INT8 model run in floats and take {percent(share)} of the time",
            "quantize these layers as well, or see whether the engine lacks an INT8 kernel for them",
            subject.profile.id,
            {"layers": len(floating), "time_share": share},
            subject.named(floating),
        )


def much_rearranging(subject: Subject) -> Iterator[Advice]:
    """Reorders and converts, which compute nothing, take much of the time."""
    positions = _rearranging(subject)
    share = subject.share(positions)
    if share is not None and share > subject.thresholds.much_rearranging:
        yield Advice(
            "much-rearranging",
            Severity.GAIN,
            f"{len(positions)} reorders and converts take {percent(share)} of the time",
            "look at the layers around them: a neighbour in another layout or precision makes the engine convert twice",
            subject.profile.id,
            {"layers": len(positions), "time_share": share},
            subject.named(positions),
        )


def slower_in_int8(subject: Subject) -> Iterator[Advice]:
    """Layers that INT8 made slower than they are in the floating profile, and what conversions cost."""
    floating = subject.against
    if floating is None or not is_int8(subject) or is_int8(Subject(floating, subject.thresholds)):
        return
    yield from _slower_layers(subject, floating)
    yield from _conversions(subject, floating)


def is_int8(subject: Subject) -> bool:
    """Whether the model was quantized: a product ran in 8 bits, or the graph says so.

    What only moves or looks up bytes, such as those of a text or a picture, is no sign.
    """
    if any(roof_precision(subject.profile.layers[at].precision) == "int8" for at in subject.products()):
        return True
    return any(node.op_type in QUANTIZERS or node.op_type.startswith("QLinear") for node in subject.profile.nodes)


def _ability(subject: Subject) -> tuple[str, dict[str, float | str]] | None:
    """Why the machine is able to do INT8 well: by instructions, or by what was measured there."""
    instructions = INT8_INSTRUCTIONS.intersection(subject.profile.host.get("isa") or ())
    if instructions and subject.profile.configuration.device == "CPU":
        listed = ", ".join(sorted(instructions))
        return listed, {"instructions": listed}
    gain = ratio(_peak(subject, "int8"), _peak(subject, "f32"))
    if gain is not None and gain >= subject.thresholds.least_int8_gain:
        return f"its measured INT8 peak is {gain:.1f} times that of f32", {"int8_peak_to_f32_peak": gain}
    return None


def _peak(subject: Subject, precision: str) -> float | None:
    rates = (peak.rate.median_per_s for peak in subject.peaks if peak.rate and _fits(peak, subject.profile, precision))
    return max(rates, default=None)


def _fits(peak: Peak, profile: Profile, precision: str) -> bool:
    asked = profile.configuration
    return (
        (peak.target, peak.engine, peak.device, peak.cores)
        == (profile.target, profile.engine, asked.device, asked.cores)
        and peak.kind is PeakKind.FLOPS
        and peak.precision == precision
        and not peak.may_be_winograd
    )


def _floating_products(subject: Subject) -> tuple[int, ...]:
    """Layers that say they run in floating numbers; one whose precision is not told is not accused."""
    layers = subject.profile.layers
    return tuple(at for at in subject.products() if roof_precision(layers[at].precision) in _FLOATING)


def _rearranging(subject: Subject) -> tuple[int, ...]:
    """Layers the engine added to move or convert data, and those of nodes that only do that."""
    return tuple(
        at for at, layer, _ in subject.timed if layer.category in _REARRANGES or subject.runs_only(layer, _CONVERTERS)
    )


def _slower_layers(subject: Subject, floating: Profile) -> Iterator[Advice]:
    # A comparison ends with advice, so its room imports this one.
    from enginebench_controller.model.stored_graph import matched_profile  # noqa: PLC0415

    slower: list[int] = []
    lost_ns = 0.0
    for row in join(matched_profile(floating), matched_profile(subject.profile)).rows:
        before, now = (side.time_ns for side in row.sides)
        if before and now is not None and now > before * (1 + subject.thresholds.slower):
            slower += row.sides[1].layers
            lost_ns += now - before
    if slower:
        yield Advice(
            "slower-in-int8",
            Severity.GAIN,
            f"{len(slower)} layers take longer in INT8 than in the floating model, {lost_ns / 1e6:.3f} ms in all",
            "leave these layers in floating numbers when quantizing, and compare again",
            subject.profile.id,
            {"layers": len(slower), "lost_ns": lost_ns},
            subject.named(slower),
        )


def _conversions(subject: Subject, floating: Profile) -> Iterator[Advice]:
    other = Subject(floating, subject.thresholds)
    here, there = _rearranging(subject), _rearranging(other)
    cost_ns = _time_ns(subject, here) - _time_ns(other, there)
    share = ratio(cost_ns, subject.total_ns)
    if share is not None and cost_ns > 0:
        yield Advice(
            "int8-conversions",
            Severity.NOTE,
            f"reorders and converts cost this INT8 model {cost_ns / 1e6:.3f} ms more than the floating one, "
            f"{percent(share)} of its time",
            "conversions pay only where the layers between them gain more than this",
            subject.profile.id,
            {"cost_ns": cost_ns, "time_share": share, "layers": len(here), "layers_in_floating": len(there)},
            subject.named(here),
        )


def _time_ns(subject: Subject, positions: tuple[int, ...]) -> float:
    return sum(time for at, _, time in subject.timed if at in positions)
