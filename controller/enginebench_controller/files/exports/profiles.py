"""Profiles for other programs: JSON, CSV, Parquet, a trace for Perfetto, and node data for Model Explorer.

What is unknown is never 0.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.files.csv_tables import COLUMN_TYPES, layer_rows, to_csv
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.new_file import kept, new_file
from enginebench_controller.files.profiles import profiles_document
from enginebench_controller.graph.roofline import Roofline, rooflines
from enginebench_controller.records import Layer, LayerState, Peak, Profile, ProfileNode
from enginebench_controller.stats import layers as figures
from enginebench_controller.store.statements import write_parquet
from enginebench_controller.verdicts.layers.profiles import ProfilePair, compare_profiles
from enginebench_controller.verdicts.layers.rows import LayerRow, RowSide, node_with_most_work
from enginebench_controller.verdicts.parity import engine_label

_NS_PER_US = 1000


def export_profiles(
    profiles: Sequence[Profile], peaks: Sequence[Peak], form: ExportFormat, path: Path | None, *, force: bool = False
) -> str | None:
    """Write whole profiles to `path`, or return the text where there is none; `peaks` are those of their targets.

    Raises `InputError` for a format that profiles do not have, or not these, and where the file cannot be written, is
    there already without `force`, or is needed: Parquet is no text.
    """
    if form not in PROFILE_FORMATS:
        raise InputError(f"profiles cannot be exported as {form}, only as {', '.join(PROFILE_FORMATS)}")
    if form is not ExportFormat.PARQUET:
        return kept(_TEXTS[form](profiles, peaks), path, force=force)
    if path is None:
        raise InputError("Parquet is no text: name a file with --output")
    with new_file(path, force=force) as partial:
        write_parquet(partial, COLUMN_TYPES, layer_rows(profiles, peaks))
    return None


def _to_json(profiles: Sequence[Profile], peaks: Sequence[Peak]) -> str:
    return json.dumps(profiles_document(profiles, peaks), allow_nan=False) + "\n"


def _times(profile: Profile) -> dict[str, float]:
    """Microseconds of an inference by node. What several nodes share stands at the one with most work, so that all of
    them add up to the time that was led back to nodes.
    """
    groups: dict[int, list[ProfileNode]] = defaultdict(list)
    for node in profile.nodes:
        if node.group is not None:
            groups[node.group].append(node)
    found: dict[str, float] = defaultdict(float)
    for layer in profile.layers:
        mean_ns = figures.mean_ns(layer)
        main = None if layer.group is None else node_with_most_work(groups[layer.group])
        if mean_ns is not None and main is not None:
            found[main.name] += mean_ns / _NS_PER_US
    return found


def _flops(profile: Profile) -> dict[str, float]:
    return {node.name: node.flops for node in profile.nodes if node.flops is not None}


def _node_data(what: str, values_of: Callable[[Profile], Mapping[str, float]], profiles: Sequence[Profile]) -> str:
    """One value a node of the model as given, for Google's Model Explorer, which colours nodes by it.

    The form is that of a single graph, applied to whichever is shown: `GraphNodeData` in
    https://github.com/google-ai-edge/model-explorer, src/server/package/src/model_explorer/node_data_builder.py. Nodes
    go by their ids, and of an ONNX model the adapter makes these of the nodes' names
    (https://github.com/justinchuby/model-explorer-onnx, src/model_explorer_onnx/main.py): what has no name in the file
    is found by nobody.
    """
    if len(profiles) != 1:
        raise InputError(f"Model Explorer shows one profile at a time, and these are {len(profiles)}; name one of them")
    (profile,) = profiles
    values = values_of(profile)
    if not values:
        why = f": {profile.unmatched_reason}" if profile.unmatched_reason else ""
        raise InputError(f"of profile {profile.id} no node of a model has a value for Model Explorer{why}")
    name = f"{what}, {profile.model_name} on {engine_label(profile)}"
    gradient = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e4572e"}]
    results = {node: {"value": value} for node, value in values.items()}
    return json.dumps({"name": name, "results": results, "gradient": gradient}, allow_nan=False) + "\n"


_REMARK = "layers are drawn one after the other in the order of execution: their beginnings were not measured"

Event = dict[str, Any]


def _to_trace(profiles: Sequence[Profile], peaks: Sequence[Peak]) -> str:
    """Profiles as a trace for Perfetto or `chrome://tracing`: a process a profile, a track an inference.

    Engines tell how long a layer took and in which order, not when it began: layers stand one after the other from 0
    on, which a remark in the trace says. A layer without a time is an instant event with its state, in the first track,
    never a slice of no length. Two profiles that have layers get a further process, in which layers that run the same
    part of the model begin together. The Trace Event Format is as Perfetto reads it: https://github.com/google/perfetto,
    docs/getting-started/other-formats.md; `ts` and `dur` are microseconds.
    """
    events = [event for process, profile in enumerate(profiles, start=1) for event in _events(process, profile, peaks)]
    if len(profiles) == 2 and all(one.layers for one in profiles):
        (pair,) = compare_profiles(profiles, peaks).pairs
        events += _aligned(len(profiles) + 1, pair)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"remark": _REMARK}}) + "\n"


@dataclass(frozen=True)
class _Drawn:
    layer: Layer
    arguments: Event


def _events(process: int, profile: Profile, peaks: Sequence[Peak]) -> Iterator[Event]:
    yield _naming("process_name", process, 0, _words(profile))
    layers = _drawn(profile, peaks)
    inferences = max((len(one.layer.time_ns) for one in layers), default=0)
    for inference in range(max(inferences, 1)):
        name = "mean inference" if profile.tells_means else f"inference {inference}"
        yield _naming("thread_name", process, inference, name)
        yield from _track(process, inference, layers)


def _track(process: int, inference: int, layers: Sequence[_Drawn]) -> Iterator[Event]:
    begin_ns = 0
    for one in layers:
        about = {"name": one.layer.name, "cat": one.layer.type or "layer", "args": one.arguments}
        if figures.mean_ns(one.layer) is None:
            if inference == 0:
                yield _instant(process, inference, begin_ns, about)
        elif inference < len(one.layer.time_ns):
            took_ns = one.layer.time_ns[inference]
            yield _slice(process, inference, begin_ns, took_ns, about)
            begin_ns += took_ns


def _aligned(process: int, pair: ProfilePair) -> Iterator[Event]:
    """Mean times, a track a side. A row lasts as long as its slower side, so that the next begins together again, and a
    layer that the other side has not at all faces a gap; what only the second has stands at the end.
    """
    yield _naming("process_name", process, 0, "side by side: the same layers begin together")
    for thread, profile in enumerate((pair.first, pair.second)):
        yield _naming("thread_name", process, thread, f"{'AB'[thread]}: {_words(profile)}")
    begin_ns = 0
    for row in pair.rows:
        for thread, side in enumerate((row.first, row.second)):
            about = {"name": row.name, "cat": row.operator or "layer", "args": _of_row(row, side)}
            if side.time_ns is not None:
                yield _slice(process, thread, begin_ns, side.time_ns, about)
            elif side.state is not LayerState.ABSENT:
                yield _instant(process, thread, begin_ns, about)
        begin_ns += row.slowest_ns


def _of_row(row: LayerRow, side: RowSide) -> Event:
    return {
        "state": side.state.value,
        "layers": list(side.layers),
        "types": list(side.types),
        "kernels": list(side.kernels),
        "precision": side.precision or None,
        "share": side.share,
        "source_nodes": list(side.nodes),
        "category": row.category.value,
        "second_to_first": row.ratio,
        "second_to_first_low": row.ratio_low,
        "second_to_first_high": row.ratio_high,
        "second_is": row.outcome,
        "exactly_the_same_nodes": row.exact,
    }


def _words(profile: Profile) -> str:
    return f"{profile.name}: {profile.model_name} on {engine_label(profile)}"


def _slice(process: int, thread: int, begin_ns: int, took_ns: int, about: Event) -> Event:
    return {"ph": "X", **_place(process, thread, begin_ns), "dur": took_ns / _NS_PER_US, **about}


def _instant(process: int, thread: int, at_ns: int, about: Event) -> Event:
    return {"ph": "i", "s": "t", **_place(process, thread, at_ns), **about}


def _place(process: int, thread: int, at_ns: int) -> Event:
    return {"ts": at_ns / _NS_PER_US, "pid": process, "tid": thread}


def _naming(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _drawn(profile: Profile, peaks: Sequence[Peak]) -> list[_Drawn]:
    total = figures.total_ns(profile.layers)
    places = zip(profile.layers, rooflines(profile, peaks), strict=True)
    drawn = [_Drawn(layer, _arguments(layer, total, place)) for layer, place in places]
    return sorted(drawn, key=lambda one: one.layer.order)


def _arguments(layer: Layer, total: float | None, place: Roofline | None) -> Event:
    mean = figures.mean_ns(layer)
    return {
        "type": layer.type,
        "state": layer.state.value,
        "order": layer.order,
        "mean_us": None if mean is None else mean / _NS_PER_US,
        "share": figures.share(layer, total),
        "kernel": layer.kernel or None,
        "precision": layer.precision or None,
        "category": layer.category or None,
        "group": layer.group,
        "flops": layer.flops,
        "data_bytes": layer.data_bytes,
        "share_of_attainable": place.share if place else None,
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "source_nodes": list(layer.source_nodes),
        "parameters": dict(layer.parameters),
    }


_TEXTS: Mapping[ExportFormat, Callable[[Sequence[Profile], Sequence[Peak]], str]] = {
    ExportFormat.JSON: _to_json,
    ExportFormat.CSV: to_csv,
    ExportFormat.PERFETTO: _to_trace,
    ExportFormat.MODEL_EXPLORER: lambda profiles, _: _node_data("time in µs", _times, profiles),
    ExportFormat.MODEL_EXPLORER_FLOPS: lambda profiles, _: _node_data("FLOPs", _flops, profiles),
}
PROFILE_FORMATS = (*_TEXTS, ExportFormat.PARQUET)
