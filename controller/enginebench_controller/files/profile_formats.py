"""Profiles for other programs: JSON, CSV, Parquet, and a trace for Perfetto; what is unknown is never 0.

A process a profile, a track an inference. Engines tell how long a layer took and in which order, not when it began:
layers stand one after the other from 0 on, which a remark in the trace says. A layer without a time is an instant
event with its state, in the first track, never a slice of no length.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.files.csv_tables import COLUMN_TYPES, layer_rows, to_csv
from enginebench_controller.files.new_file import new_file
from enginebench_controller.files.profiles import profiles_document
from enginebench_controller.graph.roofline import Roofline, rooflines
from enginebench_controller.records import Layer, Peak, Profile
from enginebench_controller.stats import layers as figures
from enginebench_controller.store.statements import write_parquet
from enginebench_controller.verdicts.parity import engine_label

NS_PER_US = 1000
REMARK = "layers are drawn one after the other in the order of execution: their beginnings were not measured"

Event = dict[str, Any]


def to_trace(profiles: Sequence[Profile], peaks: Sequence[Peak] = ()) -> str:
    """The text of the trace. Times are microseconds, as the format has it."""
    events = [event for process, profile in enumerate(profiles, start=1) for event in _events(process, profile, peaks)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"remark": REMARK}}) + "\n"


@dataclass(frozen=True)
class _Drawn:
    layer: Layer
    arguments: Event


def _events(process: int, profile: Profile, peaks: Sequence[Peak]) -> Iterator[Event]:
    yield _naming("process_name", process, 0, f"{profile.name}: {profile.model_name} on {engine_label(profile)}")
    layers = _drawn(profile, peaks)
    inferences = max((len(one.layer.time_ns) for one in layers), default=0)
    for inference in range(max(inferences, 1)):
        yield _naming("thread_name", process, inference, f"inference {inference}")
        yield from _track(process, inference, layers)


def _track(process: int, inference: int, layers: Sequence[_Drawn]) -> Iterator[Event]:
    begin_ns = 0
    for one in layers:
        if figures.mean_ns(one.layer) is None:
            if inference == 0:
                yield {"ph": "i", "s": "t", **_place(process, inference, begin_ns), **_of(one)}
        elif inference < len(one.layer.time_ns):
            took_ns = one.layer.time_ns[inference]
            yield {"ph": "X", **_place(process, inference, begin_ns), "dur": took_ns / NS_PER_US, **_of(one)}
            begin_ns += took_ns


def _place(process: int, inference: int, at_ns: int) -> Event:
    return {"ts": at_ns / NS_PER_US, "pid": process, "tid": inference}


def _of(one: _Drawn) -> Event:
    return {"name": one.layer.name, "cat": one.layer.type or "layer", "args": one.arguments}


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
        "mean_us": None if mean is None else mean / NS_PER_US,
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


class ExportFormat(StrEnum):
    """What a profile can be exported as."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    TRACE = "trace"


def export_profiles(
    profiles: Sequence[Profile], peaks: Sequence[Peak], form: ExportFormat, path: Path | None, *, force: bool = False
) -> str | None:
    """Write whole profiles to `path`, or return the text where there is none; `peaks` are those of their targets.

    Raises `InputError` where the file cannot be written, is there already without `force`, or is needed: Parquet is
    no text.
    """
    if path is None and form is ExportFormat.PARQUET:
        raise InputError("Parquet is no text: name a file with --output")
    if path is None:
        return _TEXTS[form](profiles, peaks)
    with new_file(path, force=force) as partial:
        if form is ExportFormat.PARQUET:
            write_parquet(partial, COLUMN_TYPES, layer_rows(profiles, peaks))
        else:
            partial.write_text(_TEXTS[form](profiles, peaks), encoding="utf-8", newline="")
    return None


def _to_json(profiles: Sequence[Profile], peaks: Sequence[Peak]) -> str:
    return json.dumps(profiles_document(profiles, peaks), allow_nan=False) + "\n"


_TEXTS: Mapping[ExportFormat, Callable[[Sequence[Profile], Sequence[Peak]], str]] = {
    ExportFormat.JSON: _to_json,
    ExportFormat.CSV: to_csv,
    ExportFormat.TRACE: to_trace,
}


__all__ = ["ExportFormat", "export_profiles"]
