"""`enginebench profile` and `profiles …`: the time of every layer, in a pass of its own, and those stored."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import (
    concluded,
    confirmed,
    print_export,
    print_json,
    print_table,
    remark,
)
from enginebench_controller.cli.options import ExportForm, Force, Json, Model, Output, Stores, Trust
from enginebench_controller.cli.plan_options import plan_options
from enginebench_controller.cli.progress import announcing, remind
from enginebench_controller.cli.tables import instant
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.profiles import export_profiles
from enginebench_controller.files.flops import LARGER_BRANCH
from enginebench_controller.files.profiles import import_profiles, profile_list_document, profiles_document
from enginebench_controller.files.reading import read_file
from enginebench_controller.graph.roofline import ABOVE_THE_ROOF, EXPLAINED_ABOVE, Note, Roofline, rooflines
from enginebench_controller.home import default_home, home_to_change, home_to_read
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.plan.sparsity import parse_sparsities
from enginebench_controller.records import Coverage, FailureKind, Layer, ModelWork, Peak, Profile, ProfileNode
from enginebench_controller.records.profile import is_at_most
from enginebench_controller.runs.profiling import ProfileOrder, run_profiles
from enginebench_controller.stats import layers as figures
from enginebench_controller.stats.layers import TypeTime
from enginebench_controller.store.naming import shortest
from enginebench_controller.verdicts.disturbances import beside_pass, beside_words, remedy
from enginebench_controller.verdicts.layers.disagreement import UNEVEN
from enginebench_controller.verdicts.layers.trust import distorted_words, distortion_remedy, uneven_words
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.soundness import soundness
from enginebench_controller.verdicts.words import UNKNOWN, failure_sentence, milliseconds, number, percent, short

ID_LENGTH = 12
_LISTED = [
    *[("id", False), ("name", False), ("created", False), ("target", False), ("model", False), ("engine", False)],
    *[("precision", False), ("batch", True), ("cores", True), ("zeros imposed", True), ("median ms", True)],
    *[("profiled ÷", True), ("Σ means ÷", True), ("matched %", True), ("status", False)],
]
_LAYERS = [
    *[("#", True), ("layer", False), ("type", False), ("kernel", False), ("precision", False), ("mean ms", True)],
    *[("%", True), ("FLOPs", True), ("GFLOP/s", True), ("of roof", True), ("bound by", False), ("matched", False)],
    ("state", False),
]
_UNDER_A_ROOF = [("of roof", True), ("bound by", False)]


def print_profiles(title: str, profiles: Sequence[Profile]) -> None:
    """A row a profile, each with the start of its id that commands take."""
    ids = shortest([profile.id for profile in profiles], ID_LENGTH)
    rows = [[start, *_listed(profile)] for start, profile in zip(ids, profiles, strict=True)]
    print_table(title, _LISTED, rows)


def print_summary(profile: Profile) -> None:
    """What a profile amounts to, a line a figure."""
    rows: list[list[object]] = [[name, value] for name, value in _summary(profile).items()]
    # Of few rows none needs to be short, and half a number is another number.
    print_table(_title(profile), [("figure", False), ("value", False)], rows, whole=True)
    if profile.failure:
        told, is_short = failure_sentence(profile.failure), profile.failure.kind is FailureKind.SHORTAGE
        remark(f"  {profile.status}: {told.rstrip('.') + ', then profile again' if is_short else told}")
    if profile.unmatched_reason:
        remark(f"  layers are not matched to source nodes: {profile.unmatched_reason}")
    if profile.effective.prepared:
        remark(f"  {profile.effective.preparation}")
    if costly := distorted_words(profile):
        remark(f"  {costly}: {distortion_remedy(profile)}")
    if use := beside_pass(profile):
        remark(f"  {beside_words(profile, use)}: {remedy(use)}, and profile again")
    if (found := figures.unevenness(profile)) is not None and found > UNEVEN:
        remark(f"  {uneven_words(found)}: profile again when it is quiet")


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
    shown = print_table("Layers, slowest first", columns, [[row[heading] for heading, _ in columns] for row in rows])
    has_intervals = any("±" in str(row["mean ms"]) for row in rows)
    interval = "± half of the mean's 95 % interval over the inferences of this pass; " if has_intervals else ""
    remark(f"{interval}FLOPs count zeros, and a MAC is 2")
    if any(_is_bound(places[id(layer)]) for layer in slowest[:most]):
        remark(LARGER_BRANCH)
    if "of roof" in shown:
        saves = any("*" in str(row["of roof"]) for row in rows)
        saved = "; *: counts work that Winograd or zeros save" if saves else ""
        remark(f"of roof: share of what this engine can attain here{saved}")
        _remark_notes([places[id(layer)] for layer in slowest[:most]])
    elif profile.work is not None and not has_roofs:
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
        profile.name,
        instant(profile.created_at_unix_ns),
        profile.target,
        profile.model_name,
        engine_label(profile),
        asked.precision,
        asked.batch,
        asked.place,
        UNKNOWN if profile.imposed_sparsity is None else f"{profile.imposed_sparsity:g}",
        milliseconds(profile.unprofiled_latency_ns),
        number(figures.profiled_to_unprofiled(profile)),
        number(figures.ratio(sum_ns, profile.unprofiled_latency_ns)),
        UNKNOWN if coverage is None else percent(coverage.share),
        f"{profile.status.value}, disturbed" if beside_pass(profile) else profile.status.value,
    ]


def _summary(profile: Profile) -> Mapping[str, str]:
    options = ", ".join(f"{name}={value}" for name, value in profile.configuration.options.items())
    return {
        "id": profile.id,
        "median latency without counters, ms": milliseconds(profile.unprofiled_latency_ns),
        "profiled ÷ unprofiled latency": number(figures.profiled_to_unprofiled(profile)),
        "Σ layers ÷ unprofiled latency": figures.layers_to_latency_words(profile) or UNKNOWN,
        "profiled inferences": UNKNOWN if profile.iterations is None else _inferences(profile),
        **_matched(profile.coverage),
        **_work(profile.work, profile.nodes),
        "model size, peak memory": f"{_bytes(profile.model_size_bytes)}, {_bytes(profile.peak_rss_bytes)}",
        **({"engine options": options} if options else {}),
    }


def _inferences(profile: Profile) -> str:
    return f"{profile.iterations}, told by their mean" if profile.tells_means else str(profile.iterations)


def _matched(coverage: Coverage | None) -> Mapping[str, str]:
    if coverage is None:
        return {"time matched to source nodes": UNKNOWN}
    return {
        "time matched to source nodes": f"{percent(coverage.share)} %",
        "largest group": f"{percent(coverage.largest_group_share)} % of the nodes",
    }


def _work(work: ModelWork | None, nodes: Sequence[ProfileNode]) -> Mapping[str, str]:
    if work is None:
        return {"FLOPs of an inference": UNKNOWN, "parameters": UNKNOWN}
    known = f", known for {percent(work.coverage)} % of the nodes" if work.coverage != 1 else ""
    operators = dict.fromkeys(node.op_type for node in nodes if node.macs is None)
    unknown = f"; {', '.join(operators)} may have most of them" if operators and work.flops is None else ""
    return {
        "FLOPs of an inference": f"{'≤ ' if is_at_most(nodes) else ''}{short(work.flops)}{known}{unknown}",
        "parameters": f"{short(work.parameters)}, {short(work.nonzero_parameters)} of them not zero",
    }


def _type_row(one: TypeTime) -> list[object]:
    precisions = ", ".join(f"{name or UNKNOWN} ×{count}" for name, count in sorted(one.precisions.items()))
    return [one.type, one.layers, milliseconds(one.time_ns), percent(one.share), precisions]


def _layer_row(layer: Layer, total: float | None, place: Roofline | None) -> Mapping[str, object]:
    mean = figures.mean_ns(layer)
    rate = place.flops_per_s if place else None
    bound = "≤ " if rate and _is_bound(place) else ""
    return {
        "#": layer.order,
        "layer": layer.name,
        "type": layer.type,
        "kernel": layer.kernel or UNKNOWN,
        "precision": layer.precision or UNKNOWN,
        "mean ms": milliseconds(mean) + _half_width(layer, mean),
        "%": percent(figures.share(layer, total)),
        "FLOPs": bound + short(layer.flops),
        "GFLOP/s": UNKNOWN if rate is None else bound + _giga(rate),
        "of roof": _of_roof(place),
        "bound by": place.bound or UNKNOWN if place else UNKNOWN,
        "matched": layer.category.replace("_", " ") or UNKNOWN,
        "state": layer.state.replace("_", " "),
    }


def _giga(rate: float) -> str:
    """In 10⁹; never 0.0 of something."""
    return f"{rate / 1e9:.1f}" if not rate or rate >= 1e9 else f"{rate / 1e9:.2g}"


def _remark_notes(places: Iterable[Roofline | None]) -> None:
    """Why layers lie above their roof, but for those with a star, whose remark stands already; or why none may."""
    placed = [place for place in places if place and place.share is not None]
    if busy := sum(Note.BUSY_CALIBRATION in place.notes for place in placed):
        remark(
            f"of roof: too much for {busy} of these layers, as their peaks were measured while the machine was busy: "
            "calibrate anew when it is quiet"
        )
    above = [place for place in placed if (place.share or 0) > EXPLAINED_ABOVE and not place.dense_equivalent]
    for note, layers in Counter(note for place in above for note in _explaining(place)).items():
        remark(f"!: {layers} of these layers {'is' if layers == 1 else 'are'} {ABOVE_THE_ROOF[note]}")


def _explaining(place: Roofline) -> Sequence[Note]:
    """A busy calibration explains only what nothing else does."""
    return [note for note in place.notes if note is not Note.BUSY_CALIBRATION] or place.notes


def _is_bound(place: Roofline | None) -> bool:
    return place is not None and Note.AT_MOST in place.notes


def _of_roof(place: Roofline | None) -> str:
    if place is None or place.share is None:
        return UNKNOWN
    mark = "*" if place.dense_equivalent else "!" if place.share > EXPLAINED_ABOVE else ""
    return f"{'≤ ' if _is_bound(place) else ''}{100 * place.share:.0f}%{mark}"


def _half_width(layer: Layer, mean: float | None) -> str:
    interval = figures.interval(layer)
    if interval is None or not mean:
        return ""
    return f" ±{100 * (interval.high - mean) / mean:.0f}%"  # its low end stops at 0, whatever the half width


def _bytes(size: int | None) -> str:
    return UNKNOWN if size is None else f"{short(size)}B"


@plan_options(
    *("engine", "target", "device", "batch", "cores", "precision", "warmup", "shape", "batch-axis", "option", "seed"),
    *("inputs", "input", "timeout", "wait-quiet"),
)
def profile(
    model: Model,
    *,
    sparsity: Annotated[
        str | None,
        typer.Option(metavar="S,T,…", help="A pass for each share of zeros imposed, such as 0,0.5,0.9: DeepSparse."),
    ] = None,
    iterations: Annotated[int, typer.Option(help="Profiled inferences.")] = 20,
    fields: dict[str, Any],
    name: Annotated[str | None, typer.Option(help="Name of the profiles; by default that of the model.")] = None,
    trust: Trust = False,
    most: Annotated[int, typer.Option(min=0, help="How many layers to print, slowest first.")] = 20,
    json: Json = False,
) -> None:
    """Time every layer of a model. Never mixed with measurements: counters cost time of their own."""
    given = {"models": [model], "iterations": iterations, **fields}
    plan = make_plan(given if name is None else {**given, "name": name}, "profile")
    order = ProfileOrder(plan, parse_sparsities(sparsity), trusted=trust)
    remind(default_home())
    with announcing() as announce:
        profiles = asyncio.run(run_profiles(default_home(), order, announce))
    peaks, judged = default_home().store.peaks(), soundness(profiles)
    if json:
        print_json({**profiles_document(profiles, peaks), "outcome": judged.document})
    else:
        _print(profiles, peaks, most)
    raise typer.Exit(concluded(judged))


def _print(profiles: Sequence[Profile], peaks: Sequence[Peak], most: int) -> None:
    for one in profiles:
        print_summary(one)
        if one.layers:
            print_types(one)
            print_layers(one, peaks, most)
    if len(profiles) > 1:
        print_profiles("All passes", profiles)
    for one in profiles:
        advised = f"; what to do about it: `enginebench advise {one.id}`" if one.layers else ""
        remark(f"look at it again with `enginebench profiles show {one.id}`{advised}")
    if len(layered := [one.id for one in profiles if one.layers]) > 1:
        remark(f"layer beside layer: `enginebench compare {' '.join(shortest(layered, ID_LENGTH))}`")


ProfileName = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id, start of an id, or name of a profile.", autocompletion=completion.profiles),
]

group = typer.Typer(no_args_is_help=True, help="The profiles that were made: per-layer times, matched and counted.")


class View(StrEnum):
    """What a profile is broken down by."""

    TYPE = "type"
    LAYER = "layer"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("profile")(profile)
    app.add_typer(group, name="profiles")


@group.command("list")
def list_(json: Json = False, stores: Stores = None) -> None:
    """List the profiles, newest first."""
    profiles = home_to_read(stores or ()).store.profiles()
    if json:
        print_json(profile_list_document(profiles))
        return
    print_profiles("Profiles", profiles)
    if not profiles:
        remark("no profiles yet; make one with `enginebench profile MODEL`")


@group.command("show")
def show(
    profile: ProfileName,
    most: Annotated[int, typer.Option(min=0, help="How many layers to print, slowest first.")] = 20,
    by: Annotated[View | None, typer.Option(help="Only this of the two tables.")] = None,
    json: Json = False,
    stores: Stores = None,
) -> None:
    """Show one profile: what it amounts to, the time by layer type, and the slowest layers."""
    store = home_to_read(stores or ()).store
    found = store.profile(profile)
    peaks = store.peaks(found.target)
    if json:
        print_json(profiles_document([found], peaks))
        return
    print_summary(found)
    if found.layers and by is not View.LAYER:
        print_types(found)
    if found.layers and by is not View.TYPE:
        print_layers(found, peaks, most)


@group.command("remove")
def remove(profile: ProfileName, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove a profile with its layers from the store."""
    store = home_to_change().store
    found = store.profile(profile)
    if yes or confirmed(f"remove profile {found.id} ({found.name}, {found.engine.name})?"):
        store.remove_profile(found.id)
        remark(f"removed {found.id}")


@group.command("export")
def export(
    profiles: Annotated[
        list[str],
        typer.Argument(metavar="ID…", help="Ids, starts of ids, or names.", autocompletion=completion.profiles),
    ],
    form: ExportForm = ExportFormat.JSON,
    output: Output = None,
    force: Force = False,
) -> None:
    """Export profiles for other programs. Unknown values are null, empty or left out, never 0."""
    store = home_to_read().store
    found = {one.id: one for one in map(store.profile, profiles)}
    print_export(export_profiles(list(found.values()), store.peaks(), form, output, force=force), output)


@group.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `profiles export` wrote as JSON.")],
) -> None:
    """Import exported profiles; what is already there stays as it is."""
    imported = import_profiles(default_home().store, read_file(file))
    noun = "profile" if len(imported) == 1 else "profiles"
    remark(f"imported {len(imported)} {noun}: {', '.join(imported) or 'all were there already'}")
