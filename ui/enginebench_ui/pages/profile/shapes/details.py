"""One layer in full: what it is, what it took, where it stands under its roofline, and what zeros would do to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from enginebench_controller.records import LayerState
from enginebench_controller.verdicts.pruning.estimate import Series, TimedPart
from enginebench_ui.pages.profile.shapes.layers import LayerView
from enginebench_ui.pages.profile.shapes.results import roof_text
from enginebench_ui.shared.charts import NEUTRAL, margins
from enginebench_ui.shared.text import UNKNOWN, magnitude, milliseconds_text, number, percent_text, shortened

STATES = {
    LayerState.EXECUTED: "executed",
    LayerState.NOT_EXECUTED: "not executed: the engine kept the layer and did not run it",
    LayerState.OPTIMIZED_AWAY: "optimized away: the engine made it part of others, or removed it",
    LayerState.ABSENT: "absent",
    LayerState.NO_DATA: "no data: the engine tells nothing of it",
}

_TITLE = 72
_NOTES = {
    "winograd": "Winograd: computed with fewer operations than are counted, so the rate is dense-equivalent",
    "sparse": "sparse: the engine leaves out products with zeros, so the rate is dense-equivalent",
    "at most": "at most: counted with the larger branch of an If, where the smaller one may have run",
    "in cache": "in cache: bytes came faster than data of this size should, from a nearer cache",
    "too short": "too short: only a few steps of the engine's counter",
    "busy calibration": "busy calibration: the peaks were measured on a busy machine and are too low",
    "unsteady calibration": "unsteady calibration: above a roof with a wide interval: the machine's speed changes",
    "unexplained": "beyond its roofline, and nothing explains it",
}


@dataclass(frozen=True)
class LayerDetails:
    """A layer's facts as (heading, value) pairs of raw text, grouped: what it is, its times and work, the engine's own
    words.
    """

    title: str
    identity: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, str], ...]
    engine: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]


def layer_details(layer: LayerView) -> LayerDetails:
    """Shape one layer; facts that do not apply are left out, unknown ones say so."""
    return LayerDetails(
        title=f"#{layer.depth} {shortened(layer.name, _TITLE)}",
        identity=_told(_identity(layer)),
        figures=_told((*_times(layer), *_work(layer), *_roofline(layer))),
        engine=tuple(sorted((name, value) for name, value in layer.details.items() if value)),
        nodes=layer.nodes,
    )


def sparsity_figure(layer: LayerView, series: Series, colour: str = NEUTRAL) -> go.Figure | None:
    """Draw the time of the layer's part of the model over the zeros imposed; None where it has none that were timed."""
    part = _part_of(layer, series)
    points = (
        []
        if part is None
        else [
            (100 * share, time / 1e6)
            for share, time in zip(series.sparsities, part.times_ns, strict=False)
            if time is not None
        ]
    )
    if len(points) < 2:
        return None
    share, time = zip(*points, strict=True)
    curve = go.Scatter(
        x=share,
        y=time,
        mode="lines+markers",
        line={"color": colour},
        hovertemplate="%{x:g} % zeros: %{y:,.3~r} ms<extra></extra>",
    )
    figure = go.Figure(curve)
    figure.update_xaxes(title="zeros imposed (%)", range=[-3, 103])
    figure.update_yaxes(title="ms", rangemode="tozero", automargin=True)
    return figure.update_layout(height=220, margin=margins(12), showlegend=False)


def part_size(layer: LayerView, series: Series) -> int:
    """Return how many nodes the part of the model has that the layer is compared by; 0 where there is none."""
    part = _part_of(layer, series)
    return 0 if part is None else len(part.nodes)


def _part_of(layer: LayerView, series: Series) -> TimedPart | None:
    names = {node.name: node.index for node in series.dense.nodes}
    wanted = {names[name] for name in layer.nodes if name in names}
    holding = [part for part in series.parts if wanted & set(part.nodes)]
    return max(holding, key=lambda part: len(wanted & set(part.nodes)), default=None)


def _identity(layer: LayerView) -> Sequence[tuple[str, str]]:
    return (
        ("Name", layer.name if len(layer.name) > _TITLE else ""),
        ("State", STATES[layer.state]),
        ("Type", layer.type or UNKNOWN),
        ("Origin", layer.made_by),
        ("ONNX id", ", ".join(layer.nodes) or ("none: no node of the model" if layer.made_by else UNKNOWN)),
        ("Weight", ", ".join(layer.weights)),
        ("Precision", layer.precision or UNKNOWN),
        ("Kernel", layer.kernel or UNKNOWN),
        ("Output shapes", ", ".join(map(_shape, layer.output_shapes))),
        ("Reads", ", ".join(layer.inputs)),
        ("Writes", ", ".join(layer.outputs)),
    )


def _times(layer: LayerView) -> Sequence[tuple[str, str]]:
    found = layer.interval
    interval = f", 95 % interval {number(found.low / 1e6)} to {number(found.high / 1e6)} ms" if found else ""
    calls = "" if layer.calls in (None, 1) else f"{layer.calls} in one inference"
    return (
        ("Mean time", f"{milliseconds_text(layer.time_ns)}{interval}" if layer.time_ns is not None else ""),
        ("Share of all layers", "" if layer.share is None else percent_text(layer.share)),
        ("Calls", calls),
    )


def _work(layer: LayerView) -> Sequence[tuple[str, str]]:
    return (
        ("FLOPs", magnitude(layer.flops, "FLOP")),
        ("Parameters", magnitude(layer.parameters)),
        ("Data moved", magnitude(layer.data_bytes, "B")),
    )


def _roofline(layer: LayerView) -> Sequence[tuple[str, str]]:
    place = layer.place
    if place is None:
        return ()
    return (
        ("Achieved", magnitude(place.flops_per_s, "FLOP/s")),
        ("Intensity", "" if place.intensity is None else magnitude(place.intensity, "FLOP/B")),
        (
            "Attainable",
            "" if place.attainable_flops_per_s is None else magnitude(place.attainable_flops_per_s, "FLOP/s"),
        ),
        ("Of its roofline", roof_text(layer) or f"{UNKNOWN}: no peaks for this engine, device and cores"),
        *(("Remark", _NOTES.get(note.value, note.value)) for note in place.notes),
    )


def _told(facts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((heading, value) for heading, value in facts if value)


def _shape(shape: tuple[int, ...] | None) -> str:
    return UNKNOWN if shape is None else "×".join(map(str, shape)) or "scalar"
