"""The advisor: plain rules over a profile, each with the numbers it goes by and the layers it is about."""

from collections.abc import Callable, Iterator, Sequence

from enginebench_controller.errors import InputError
from enginebench_controller.graph.matching.kinds import QUANTIZERS
from enginebench_controller.graph.matching.matched import LayerCategory
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.graph.roofline import roof_precision, rooflines
from enginebench_controller.models.derive.equivalence import is_quantized
from enginebench_controller.models.library import INT8_PREFIX
from enginebench_controller.plan.int8 import beside_int8
from enginebench_controller.plan.plan import run_command
from enginebench_controller.records import ModelVersion, Peak, PeakKind, Profile
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL
from enginebench_controller.stats.layers import layers_to_latency, profiled_to_unprofiled, ratio, unevenness
from enginebench_controller.verdicts import disturbances
from enginebench_controller.verdicts.disturbances import beside_pass, beside_words
from enginebench_controller.verdicts.layers.advice import Advice, AdvisedProfile, Severity, percent
from enginebench_controller.verdicts.parity import requested_is_not_effective
from enginebench_controller.verdicts.pruning.prospects import PruningOutcome, prospects_of
from enginebench_proto.agreed.words import DEFAULT_DEVICE

_TRUSTWORTHY_COVERAGE = 0.95
"""Time led back to source nodes below this share is to be read with care."""


def low_coverage(subject: AdvisedProfile) -> Iterator[Advice]:
    """Much of the time is not led back to the model, or none of it."""
    profile = subject.profile
    share = profile.coverage.share if profile.coverage else None
    if share is None:
        if profile.layers and profile.unmatched_reason:
            yield _warning(
                subject,
                "low-coverage",
                f"no layer is led back to the model: {profile.unmatched_reason}",
                "compare layers by the engine's own names only",
            )
        return
    if share < _TRUSTWORTHY_COVERAGE:
        unmatched = [at for at, layer, _ in subject.timed if layer.group is None]
        yield _warning(
            subject,
            "low-coverage",
            f"only {percent(share)} of the time is led back to the model's nodes",
            "read figures per node with care: the time of the layers named here is missing from them",
            {"matched_share": share, "layers": len(unmatched)},
            unmatched,
        )


def other_settings(subject: AdvisedProfile) -> Iterator[Advice]:
    """What ran is not what was asked for."""
    for sentence in requested_is_not_effective(subject.profile):
        yield _warning(
            subject,
            "other-settings",
            sentence,
            "compare only with what really ran alike, or ask for what the engine has",
        )


_DISTORTION = 1.2
"""Profiled ÷ unprofiled latency: beyond this, counters cost too much."""


def distorted(subject: AdvisedProfile) -> Iterator[Advice]:
    """Counters made the model a good deal slower."""
    found = profiled_to_unprofiled(subject.profile)
    if found is not None and found > _DISTORTION:
        yield _warning(
            subject,
            "distorted",
            f"with counters the model takes {found:.2f} times as long as without",
            "trust shares more than times, above all of short layers",
            {"profiled_to_unprofiled": found},
        )


_SUM_OFF = 0.1
"""Σ layers ÷ latency may be so far from 1."""


def sum_is_off(subject: AdvisedProfile) -> Iterator[Advice]:
    """The layers do not add up to the latency."""
    found = layers_to_latency(subject.profile)
    if found is None or abs(found - 1) <= _SUM_OFF:
        return
    counted = profiled_to_unprofiled(subject.profile)
    if counted is not None and counted < 1 - _SUM_OFF:
        why = f"with counters the model took {counted:.2f} times as long as without, so the machine was slower without"
    elif found < 1:
        why = "there is time outside of layers"
    else:
        why = "layers overlap, or counters and other levels cost time"
    yield _warning(
        subject,
        "sum-is-off",
        f"the layers' times add up to {found:.2f} times the latency without counters: {why}",
        "do not read a layer's time as its part of the latency",
        {"layers_to_latency": found},
    )


def disturbed(subject: AdvisedProfile) -> Iterator[Advice]:
    """Others used the machine while the pass went on."""
    if use := beside_pass(subject.profile):
        remedy = f"{disturbances.remedy(use)}, and profile again; shares suffer less than times"
        evidence: dict[str, float | int | str] = {"others_share": use.share}
        yield _warning(subject, "disturbed", beside_words(subject.profile, use), remedy, evidence)


UNEVEN = 0.25
"""The middle half of the inferences of a pass may lie apart by this share of their median."""


def uneven(subject: AdvisedProfile) -> Iterator[Advice]:
    """The inferences of the pass took unlike times, so that something else decided over them."""
    found = unevenness(subject.profile)
    if found is not None and found > UNEVEN:
        yield _warning(
            subject,
            "uneven",
            uneven_words(found),
            "profile again when the machine is quiet; shares suffer less than times",
            {"unevenness": found},
        )


def uneven_words(found: float) -> str:
    """That the inferences of a pass differ by so much."""
    return (
        f"the middle half of the inferences of this pass differs by {percent(found)} of their median, as where a "
        "machine does other things meanwhile"
    )


def _warning(
    subject: AdvisedProfile,
    rule: str,
    sentence: str,
    remedy: str,
    evidence: dict[str, float | int | str] | None = None,
    layers: list[int] | None = None,
) -> Advice:
    named = subject.named(layers or [])
    return Advice(rule, Severity.WARNING, sentence, remedy, subject.profile.id, evidence or {}, named)


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
    if share is None or share < _WORTHWHILE_FLOAT:
        return
    why, evidence = able
    yield Advice(
        INT8_UNUSED,
        Severity.GAIN,
        f"the machine is made for INT8 ({why}), and {percent(share)} of the time goes into floating products",
        _remedy(subject),
        subject.profile.id,
        {**evidence, "floating_products_share": share},
        subject.named(floating),
    )


def _remedy(subject: AdvisedProfile) -> str:
    """The commands that measure both versions side by side; the first makes one where there is none."""
    name, known = subject.profile.model_name, subject.int8_versions
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


_MUCH_REARRANGING = 0.1
"""Reorders and converts may take this share of the time. WB's advisor had the same 10 %."""


def much_rearranging(subject: AdvisedProfile) -> Iterator[Advice]:
    """Reorders and converts, which compute nothing, take much of the time."""
    positions = _rearranging(subject)
    share = subject.share(positions)
    if share is not None and share > _MUCH_REARRANGING:
        yield Advice(
            "much-rearranging",
            Severity.GAIN,
            f"{len(positions)} reorders and converts take {percent(share)} of the time",
            "look at the layers around them: a neighbour in another layout or precision makes the engine convert twice",
            subject.profile.id,
            {"layers": len(positions), "time_share": share},
            subject.named(positions),
        )


def slower_in_int8(subject: AdvisedProfile) -> Iterator[Advice]:
    """Layers that INT8 made slower than they are in the floating profile, and what conversions cost."""
    floating = subject.against
    if floating is None or not is_int8(subject) or is_int8(AdvisedProfile(floating)):
        return
    yield from _slower_layers(subject, floating)
    yield from _conversions(subject, floating)


def is_int8(subject: AdvisedProfile) -> bool:
    """Whether the model was quantized: a product ran in 8 bits, or the graph says so.

    What only moves or looks up bytes, such as those of a text or a picture, is no sign.
    """
    if any(roof_precision(subject.profile.layers[at].precision) == "int8" for at in subject.products()):
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
    return tuple(at for at in subject.products() if roof_precision(layers[at].precision) in _FLOATING)


def _rearranging(subject: AdvisedProfile) -> tuple[int, ...]:
    """Layers the engine added to move or convert data, and those of nodes that only do that."""
    return tuple(
        at for at, layer, _ in subject.timed if layer.category in _REARRANGES or subject.runs_only(layer, _CONVERTERS)
    )


def _slower_layers(subject: AdvisedProfile, floating: Profile) -> Iterator[Advice]:
    # A comparison ends with advice, so its room imports this one.
    from enginebench_controller.graph.matching.matched import matched_profile  # noqa: PLC0415

    slower: list[int] = []
    lost_ns = 0.0
    for row in join(matched_profile(floating), matched_profile(subject.profile)).rows:
        before, now = (side.time_ns for side in row.sides)
        if before and now is not None and now > before * (1 + LAYERS_PRACTICAL):
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


def _conversions(subject: AdvisedProfile, floating: Profile) -> Iterator[Advice]:
    other = AdvisedProfile(floating)
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


def _time_ns(subject: AdvisedProfile, positions: tuple[int, ...]) -> float:
    return sum(time for at, _, time in subject.timed if at in positions)


_DOMINANT_LAYER = 0.2
"""A single layer beyond this share of the time is worth a word."""


def dominant_layer(subject: AdvisedProfile) -> Iterator[Advice]:
    """A single layer takes much of the time."""
    for position, layer, time in subject.timed:
        share = ratio(time, subject.total_ns)
        if share is None or share <= _DOMINANT_LAYER or len(subject.timed) == 1:
            return
        yield Advice(
            "dominant-layer",
            Severity.NOTE,
            f"the layer {layer.name} ({layer.type}) alone takes {percent(share)} of the time",
            "look at this layer first: its kernel, its precision and its place under the roofline",
            subject.profile.id,
            {"time_share": share, "mean_ns": time},
            subject.named([position]),
        )


_LOW_ROOFLINE, _RELEVANT_LAYER = 0.3, 0.05
"""A layer below the first, of what its roofline allows, that takes more than the second of the time."""


def far_below_roofline(subject: AdvisedProfile) -> Iterator[Advice]:
    """Layers that take time and reach little of what the machine was measured to be capable of."""
    for position, layer, time in subject.timed:
        place = subject.places[position] if subject.places else None
        share = ratio(time, subject.total_ns)
        if place is None or place.share is None or share is None:
            continue
        if share > _RELEVANT_LAYER and place.share < _LOW_ROOFLINE:
            bound = f", bound by {place.bound.value}" if place.bound else ""
            yield Advice(
                "far-below-roofline",
                Severity.GAIN,
                f"the layer {layer.name} reaches {percent(place.share)} of what its roofline allows{bound}, and takes "
                f"{percent(share)} of the time",
                "try another engine, batch or layout for it: compare this profile with theirs, layer by layer",
                subject.profile.id,
                {"roofline_share": place.share, "time_share": share, "mean_ns": time},
                subject.named([position]),
            )


_WORTHWHILE_PRUNING = 1.2
"""The speed-up from which on imposed sparsity is worth a word."""


def pruning_pays(subject: AdvisedProfile) -> Iterator[Advice]:
    """Passes with sparsity imposed on this model promise a speed-up."""
    if not subject.imposed:
        return
    try:
        found = prospects_of(subject.imposed)
    except ValueError:  # they do not belong together, so they tell nothing
        return
    best = max(found.outcomes, key=_promise, default=None)
    if best is None or _promise(best) < _WORTHWHILE_PRUNING or best.sparsity is None:
        return
    known = "measured on a pruned copy" if best.measured_speedup is not None else "with zeros imposed"
    yield Advice(
        "pruning-pays",
        Severity.GAIN,
        f"with {percent(best.sparsity)} of the weights zero the model ran {_promise(best):.2f} times as fast ({known})",
        f"see `enginebench prospects show {found.series.dense.id}`; whether the model's answers survive it takes a "
        "retraining to say",
        subject.profile.id,
        {"sparsity": best.sparsity, "speedup": _promise(best), "known_from": known},
    )


def _promise(outcome: PruningOutcome) -> float:
    """What was seen, never what was only estimated."""
    return outcome.measured_speedup or outcome.imposed_speedup or 0.0


Rule = Callable[[AdvisedProfile], Iterator[Advice]]

RULES: tuple[Rule, ...] = (
    other_settings,
    distorted,
    sum_is_off,
    disturbed,
    uneven,
    low_coverage,
    int8_unused,
    float_in_int8,
    slower_in_int8,
    much_rearranging,
    far_below_roofline,
    pruning_pays,
    dominant_layer,
)
"""In the order of what to know first: what the numbers are worth, what there is to gain, where time goes."""


def advise(
    profile: Profile,
    against: Profile | None = None,
    peaks: Sequence[Peak] = (),
    imposed: Sequence[Profile] = (),
    int8_versions: Sequence[ModelVersion] = (),
) -> tuple[Advice, ...]:
    """All that the rules have to say of a profile; nothing of one without layers.

    `against` is another profile of the model, such as the floating one of an INT8 version; `peaks` are those of the
    target; `imposed` are passes over the same model with sparsity imposed, the dense one and pruned copies included;
    `int8_versions` are those made of it already, newest first.
    """
    if not profile.layers:
        return ()
    places = rooflines(profile, peaks) if peaks else ()
    subject = AdvisedProfile(profile, against, tuple(peaks), places, tuple(imposed), tuple(int8_versions))
    return tuple(advice for rule in RULES for advice in rule(subject))
