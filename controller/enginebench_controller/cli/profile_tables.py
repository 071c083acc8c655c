"""Profiles as tables for the terminal. Times are shown in milliseconds; unknown is shown as –."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from enginebench_controller.cli.console import UNKNOWN, print_table, remark
from enginebench_controller.cli.flops_table import short
from enginebench_controller.cli.tables import failure_sentence, instant
from enginebench_controller.model.counted_model import is_at_most
from enginebench_controller.model.layer_rooflines import rooflines
from enginebench_controller.model.roofline import ABOVE_THE_ROOF, Roofline
from enginebench_controller.records import Coverage, Layer, ModelWork, Peak, Profile, ProfileNode
from enginebench_controller.stats import profiles as figures
from enginebench_controller.stats.profiles import TypeTime
from enginebench_controller.trust.parity import engine_label

ID_LENGTH = 12
_LISTED = [
    *[("id", False), ("name", False), ("created", False), ("target", False), ("model", False), ("engine", False)],
    *[("precision", False), ("batch", True), ("cores", True), ("zeros imposed", True), ("median ms", True)],
    *[("profiled ÷", True), ("Σ layers ÷", True), ("matched %", True), ("status", False)],
]
_LAYERS = [
    *[("#", True), ("layer", False), ("type", False), ("kernel", False), ("precision", False), ("mean ms", True)],
    *[("%", True), ("FLOPs", True), ("GFLOP/s", True), ("of roof", True), ("bound by", False), ("matched", False)],
    ("state", False),
]
_UNDER_A_ROOF = [("of roof", True), ("bound by", False)]


def print_profiles(title: str, profiles: Sequence[Profile]) -> None:
    """A row a profile."""
    print_table(title, _LISTED, [_listed(profile) for profile in profiles])


def print_summary(profile: Profile) -> None:
    """What a profile amounts to, a line a figure."""
    rows: list[list[object]] = [[name, value] for name, value in _summary(profile).items()]
    print_table(_title(profile), [("figure", False), ("value", False)], rows)
    if profile.failure:
        remark(f"  {profile.status}: {failure_sentence(profile.failure)}")
    if profile.unmatched_reason:
        remark(f"  layers are not matched to source nodes: {profile.unmatched_reason}")
    if profile.effective.prepared:
        remark(f"  {profile.effective.preparation}")


def print_types(profile: Profile) -> None:
    """A row a layer type, the one that takes most time first."""
    columns = [("type", False), ("layers", True), ("ms", True), ("%", True), ("precisions", False)]
    print_table("Time by layer type", columns, [_type_row(one) for one in figures.by_type(profile.layers)])


def print_layers(profile: Profile, peaks: Sequence[Peak], most: int) -> None:
    """A row a layer, slowest first; those without a time come last and say why. `peaks` are the target's."""
    places = dict(zip(map(id, profile.layers), rooflines(profile, peaks), strict=True))
    has_roofs = any(place and place.share is not None for place in places.values())
    total = figures.total_ns(profile.layers)
    slowest = figures.slowest_first(profile.layers)
    rows = [_layer_row(layer, total, places[id(layer)]) for layer in slowest[:most]]
    columns = [column for column in _LAYERS if has_roofs or column not in _UNDER_A_ROOF]
    print_table("Layers, slowest first", columns, [[row[heading] for heading, _ in columns] for row in rows])
    remark("± half of the mean's 95 % interval over the inferences of this pass; FLOPs count zeros, and a MAC is 2")
    if has_roofs:
        remark("of roof: share of what this engine can attain here; *: counts work that Winograd or zeros save")
        _remark_notes([places[id(layer)] for layer in slowest[:most]])
    elif profile.work is not None:
        remark("how near to this machine's peaks that is, is shown after `enginebench targets calibrate`")
    if len(slowest) > most:
        remark(f"{len(slowest) - most} more layers: --most shows them")


def _title(profile: Profile) -> str:
    asked = profile.configuration
    where = f"{asked.device}, {asked.size}, {asked.precision}"
    return f"{profile.name}: {profile.model_name} on {engine_label(profile)}, {where}"


def _listed(profile: Profile) -> list[object]:
    asked, coverage = profile.configuration, profile.coverage
    sum_ns = coverage.total_ns if coverage else figures.total_ns(profile.layers)
    return [
        profile.id[:ID_LENGTH],
        profile.name,
        instant(profile.created_at_unix_ns),
        profile.target,
        profile.model_name,
        engine_label(profile),
        asked.precision,
        asked.batch,
        asked.cores,
        UNKNOWN if profile.imposed_sparsity is None else f"{profile.imposed_sparsity:g}",
        _ms(profile.unprofiled_latency_ns),
        _number(figures.profiled_to_unprofiled(profile)),
        _number(figures.ratio(sum_ns, profile.unprofiled_latency_ns)),
        UNKNOWN if coverage is None else _percent(coverage.share),
        profile.status.value,
    ]


def _summary(profile: Profile) -> Mapping[str, str]:
    options = ", ".join(f"{name}={value}" for name, value in profile.configuration.options.items())
    return {
        "id": profile.id,
        "median latency without counters, ms": _ms(profile.unprofiled_latency_ns),
        "profiled ÷ unprofiled latency": _number(figures.profiled_to_unprofiled(profile)),
        "Σ layers ÷ unprofiled latency": _number(figures.layers_to_latency(profile)),
        "profiled inferences": UNKNOWN if profile.iterations is None else str(profile.iterations),
        **_matched(profile.coverage),
        **_work(profile.work, profile.nodes),
        "model size, peak memory": f"{_bytes(profile.model_size_bytes)}, {_bytes(profile.peak_rss_bytes)}",
        **({"engine options": options} if options else {}),
    }


def _matched(coverage: Coverage | None) -> Mapping[str, str]:
    if coverage is None:
        return {"time matched to source nodes": UNKNOWN}
    return {
        "time matched to source nodes": f"{_percent(coverage.share)} %",
        "largest group": f"{_percent(coverage.largest_group_share)} % of the nodes",
    }


def _work(work: ModelWork | None, nodes: Sequence[ProfileNode]) -> Mapping[str, str]:
    if work is None:
        return {"FLOPs of an inference": UNKNOWN, "parameters": UNKNOWN}
    known = f", known for {_percent(work.coverage)} % of the nodes" if work.coverage != 1 else ""
    operators = dict.fromkeys(node.op_type for node in nodes if node.macs is None)
    unknown = f"; {', '.join(operators)} may have most of them" if operators and work.flops is None else ""
    return {
        "FLOPs of an inference": f"{'≤ ' if is_at_most(nodes) else ''}{short(work.flops)}{known}{unknown}",
        "parameters": f"{short(work.parameters)}, {short(work.nonzero_parameters)} of them not zero",
    }


def _type_row(one: TypeTime) -> list[object]:
    precisions = ", ".join(f"{name or UNKNOWN} ×{count}" for name, count in sorted(one.precisions.items()))
    return [one.type, one.layers, _ms(one.time_ns), _percent(one.share), precisions]


def _layer_row(layer: Layer, total: float | None, place: Roofline | None) -> Mapping[str, object]:
    mean = figures.mean_ns(layer)
    rate = place.flops_per_s if place else None
    return {
        "#": layer.order,
        "layer": layer.name,
        "type": layer.type,
        "kernel": layer.kernel or UNKNOWN,
        "precision": layer.precision or UNKNOWN,
        "mean ms": _ms(mean) + _half_width(layer, mean),
        "%": _percent(figures.share(layer, total)),
        "FLOPs": short(layer.flops),
        "GFLOP/s": UNKNOWN if rate is None else f"{rate / 1e9:.1f}",
        "of roof": _of_roof(place),
        "bound by": place.bound or UNKNOWN if place else UNKNOWN,
        "matched": layer.category.replace("_", " ") or UNKNOWN,
        "state": layer.state.replace("_", " "),
    }


def _remark_notes(places: Iterable[Roofline | None]) -> None:
    """Why layers lie above their roof, but for those with a star, whose remark stands already."""
    above = [place for place in places if place and (place.share or 0) > 1 and not place.dense_equivalent]
    notes = Counter(note for place in above for note in place.notes)
    for note, layers in notes.items():
        remark(f"!: {layers} of these layers {'is' if layers == 1 else 'are'} {ABOVE_THE_ROOF[note]}")


def _of_roof(place: Roofline | None) -> str:
    if place is None or place.share is None:
        return UNKNOWN
    mark = "*" if place.dense_equivalent else "!" if place.share > 1 else ""
    return f"{100 * place.share:.0f}%{mark}"


def _half_width(layer: Layer, mean: float | None) -> str:
    interval = figures.interval(layer)
    if interval is None or not mean:
        return ""
    return f" ±{50 * (interval.high - interval.low) / mean:.0f}%"


def _ms(value_ns: float | None) -> str:
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def _bytes(size: int | None) -> str:
    return UNKNOWN if size is None else f"{short(size)}B"
