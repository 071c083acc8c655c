"""The roofline chart: what each layer did with every byte, under the roofs that a calibration measured.

After Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures",
Communications of the ACM 52 (4), 2009.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from enginebench_controller.graph.roofline import (
    ABOVE_THE_ROOF,
    Bound,
    Note,
    Roofline,
    Roofs,
    fitting_peaks,
    layer_precision,
    roofs_of,
)
from enginebench_controller.records import Peak, Profile
from enginebench_controller.records.target import in_environment
from enginebench_ui.pages.profile.shapes.layers import LayerView
from enginebench_ui.shared.charts import NOISE, SERIES, margins
from enginebench_ui.shared.text import count_of, drawn_text, magnitude, milliseconds_text, percent_text, shortened

MOST_POINTS = 500
"""Layers that are drawn, the slowest: each point costs its drawing."""

HEIGHT_PX = 520
_MOST_LABELS = 24
_COLOURS = {Bound.COMPUTE: SERIES[1], Bound.MEMORY: SERIES[0], None: NOISE}
_NAMES = {Bound.COMPUTE: "compute-bound", Bound.MEMORY: "memory-bound", None: "roof unknown"}
_DENSE_EQUIVALENT = "diamond-open"


@dataclass(frozen=True)
class RooflineView:
    """The chart, and in sentences what it leaves out. `is_calibrated`: there are peaks to draw roofs from."""

    figure: go.Figure | None
    remarks: tuple[str, ...]
    is_calibrated: bool


def roofline_view(profile: Profile, layers: Sequence[LayerView], peaks: Sequence[Peak]) -> RooflineView:
    """Draw the layers whose operations and bytes are known; the figure is None where none are."""
    placed = [layer for layer in layers if _intensity(layer) and _rate(layer)]
    shown = sorted(placed, key=lambda layer: -(layer.time_ns or 0.0))[:MOST_POINTS]
    roofs = _roofs(profile, shown, peaks)
    remarks = tuple(_remarks(layers, placed, shown))
    if not shown:
        return RooflineView(None, remarks, bool(roofs))
    low, high = _span(shown, roofs)
    figure = go.Figure([*_roof_lines(roofs, low, high), *_points(shown)])
    figure.update_xaxes(
        type="log", title="arithmetic intensity (FLOP/byte)", range=[math.log10(low), math.log10(high)], dtick=1
    )
    figure.update_yaxes(type="log", title="achieved (FLOP/s)", exponentformat="SI", dtick=1, automargin=True)
    legend = {"orientation": "h", "yanchor": "top", "y": -0.16, "x": 0}
    figure.update_layout(height=HEIGHT_PX, margin=margins(24), legend=legend)
    return RooflineView(figure, remarks, bool(roofs))


def calibration_command(profile: Profile) -> str:
    """The command that measures the peaks of this engine here."""
    target = "" if profile.target == "local" else f"{profile.target} "
    engine = profile.engine
    chosen = in_environment(engine.name, engine.environment)
    return f"enginebench targets calibrate {target}--engine {chosen} --cores {profile.configuration.cores}"


def _roofs(profile: Profile, layers: Sequence[LayerView], peaks: Sequence[Peak]) -> tuple[Roofs, ...]:
    """One for each precision that layers ran in, or the whole run where they do not tell."""
    own = fitting_peaks(profile, peaks)
    of_layers = (layer_precision(profile, profile.layers[one.position]) for one in layers)
    precisions = dict.fromkeys(filter(None, of_layers))
    asked = profile.configuration
    found = [roofs_of(own, profile.engine, asked.device, asked.cores, precision) for precision in precisions]
    return tuple(roofs for roofs in found if roofs is not None and roofs.flops_per_s and roofs.bandwidths)


def _span(layers: Sequence[LayerView], roofs: Sequence[Roofs]) -> tuple[float, float]:
    """The intensities from which to which the chart reaches: all points, and where roofs meet."""
    points = [intensity for layer in layers if (intensity := _intensity(layer))]
    meet = [roofs.flops_per_s / rate for roofs in roofs for _, rate in roofs.bandwidths if roofs.flops_per_s]
    return min([*points, *meet]) / 3, max([*points, *meet]) * 3


def _roof_lines(roofs: Sequence[Roofs], low: float, high: float) -> Iterator[go.Scatter]:
    """For each precision the peak over the bandwidth of memory, and the same over that of the nearest cache."""
    dashes = ("solid", "dash", "dot", "dashdot")
    for one, dash in zip(roofs, dashes, strict=False):
        peak = one.flops_per_s or 0.0
        memory, cache = one.bandwidths[-1][1], one.fastest_bandwidth or one.bandwidths[-1][1]
        name = f"{one.precision}: {magnitude(peak, 'FLOP/s')}, memory {magnitude(memory, 'B/s')}"
        yield _roof(name, peak, memory, (low, high), {"color": "#888888", "width": 2, "dash": dash})
        if cache > memory:
            name = f"{one.precision}: nearest cache {magnitude(cache, 'B/s')}"
            yield _roof(name, peak, cache, (low, high), {"color": "#bbbbbb", "width": 1.5, "dash": dash})


def _roof(name: str, peak: float, bandwidth: float, span: tuple[float, float], line: dict[str, object]) -> go.Scatter:
    low, high = span
    ridge = min(max(peak / bandwidth, low), high)
    x = [low, ridge, high]
    y = [min(peak, at * bandwidth) for at in x]
    return go.Scatter(x=x, y=y, mode="lines", line=line, name=name, hovertemplate=f"{name}<extra></extra>")


def _points(layers: Sequence[LayerView]) -> Iterator[go.Scatter]:
    """A series a bound; open diamonds are rates that count operations which were not really done."""
    most = max((layer.time_ns or 0.0 for layer in layers), default=0.0) or 1.0
    labelled = sum(bool(_label(layer)) for layer in layers)
    for bound, colour in _COLOURS.items():
        own = [layer for layer in layers if (layer.place.bound if layer.place else None) is bound]
        if own:
            yield go.Scatter(
                x=[_intensity(layer) for layer in own],
                y=[_rate(layer) for layer in own],
                mode="markers+text" if labelled <= _MOST_LABELS else "markers",
                text=[_label(layer) for layer in own],
                textposition="top center",
                textfont={"size": 10},
                name=_NAMES[bound],
                marker={
                    "color": colour,
                    "size": [7 + 17 * math.sqrt((layer.time_ns or 0.0) / most) for layer in own],
                    "symbol": [_symbol(layer) for layer in own],
                    "opacity": 0.85,
                },
                customdata=[_hover(layer) for layer in own],
                hovertemplate="%{customdata}<extra></extra>",
            )


def _symbol(layer: LayerView) -> str:
    return _DENSE_EQUIVALENT if layer.place is not None and layer.place.dense_equivalent else "circle"


def _label(layer: LayerView) -> str:
    """Why a point may lie above its roof; names stand in the hover and the table."""
    notes = layer.place.notes if layer.place else ()
    return ", ".join(note.value for note in notes if note in (Note.WINOGRAD, Note.SPARSE))


def _hover(layer: LayerView) -> str:
    place: Roofline | None = layer.place
    if place is None:
        return ""
    notes = f"<br>{', '.join(note.value for note in place.notes)}" if place.notes else ""
    share = f"<br>{percent_text(place.share, 0)} of what it could attain" if place.share is not None else ""
    return (
        f"<b>#{layer.depth} {drawn_text(shortened(layer.name, 48))}</b><br>{drawn_text(shortened(layer.type))}, "
        f"{milliseconds_text(layer.time_ns)}<br>{magnitude(place.flops_per_s, 'FLOP/s')} at "
        f"{magnitude(place.intensity, 'FLOP/byte')}{share}{notes}"
    )


def _remarks(layers: Sequence[LayerView], placed: Sequence[LayerView], shown: Sequence[LayerView]) -> Iterator[str]:
    timed = [layer for layer in layers if layer.time_ns]
    absent = len(timed) - len(placed)
    if absent:
        yield f"{absent} of {len(timed)} timed layers are not drawn: they do no operations, or their work is unknown."
    places = [layer.place for layer in placed if layer.place]
    notes = Counter(
        note for place in places for note in place.notes if (place.share or 0) > 1 or note is Note.BUSY_CALIBRATION
    )
    for note, number in notes.items():
        if note not in (Note.WINOGRAD, Note.SPARSE):  # these stand at their points
            yield f"{count_of(number, 'layer')} {ABOVE_THE_ROOF[note]}."
    if len(shown) < len(placed):
        part = sum(layer.time_ns or 0.0 for layer in shown) / (sum(layer.time_ns or 0.0 for layer in placed) or 1.0)
        yield f"The slowest {len(shown)} of {len(placed)} layers are drawn, {percent_text(part)} of their time."


def _intensity(layer: LayerView) -> float | None:
    return layer.place.intensity if layer.place else None


def _rate(layer: LayerView) -> float | None:
    return layer.place.flops_per_s if layer.place else None
