"""Profiles for other programs: JSON, CSV, Parquet, a trace for Perfetto, and node data for Model Explorer.

What is unknown is never 0.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from enginebench_controller.errors import InputError
from enginebench_controller.files.csv_tables import COLUMN_TYPES, layer_rows, to_csv
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.traces import NS_PER_US, to_trace
from enginebench_controller.files.new_file import kept, new_file
from enginebench_controller.files.profiles import profiles_document
from enginebench_controller.records import Peak, Profile, ProfileNode
from enginebench_controller.stats import layers as figures
from enginebench_controller.store.statements import write_parquet
from enginebench_controller.verdicts.layers.rows import node_with_most_work
from enginebench_controller.verdicts.parity import engine_label


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
            found[main.name] += mean_ns / NS_PER_US
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


_TEXTS: Mapping[ExportFormat, Callable[[Sequence[Profile], Sequence[Peak]], str]] = {
    ExportFormat.JSON: _to_json,
    ExportFormat.CSV: to_csv,
    ExportFormat.PERFETTO: to_trace,
    ExportFormat.MODEL_EXPLORER: lambda profiles, _: _node_data("time in µs", _times, profiles),
    ExportFormat.MODEL_EXPLORER_FLOPS: lambda profiles, _: _node_data("FLOPs", _flops, profiles),
}
PROFILE_FORMATS = (*_TEXTS, ExportFormat.PARQUET)
