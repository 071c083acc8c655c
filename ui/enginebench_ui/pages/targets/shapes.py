"""What engines reach at best on a target, as calibrations measured it: two small charts, each with its table."""

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Peak, PeakKind
from enginebench_controller.records.target import best_peaks
from enginebench_proto.agreed.words import DEFAULT_DEVICE, DEFAULT_ENVIRONMENT
from enginebench_ui.shared.charts import NOISE, margins
from enginebench_ui.shared.text import Row, cells, drawn_text, instant

HEIGHT_PX = 300
PRECISIONS = ("f32", "bf16", "f16", "int8")
"""From the widest to the narrowest; others come behind."""

_LAYOUT = {
    "height": HEIGHT_PX,
    "margin": margins(44),
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
}
_GIGA = 1e9


def core_counts(peaks: Iterable[Peak]) -> tuple[int, ...]:
    """Return the numbers of cores that a machine was calibrated on, the smallest first."""
    return tuple(sorted({peak.cores for peak in peaks}))


def peaks_on(peaks: Iterable[Peak], cores: int) -> tuple[Peak, ...]:
    """Return the best of a machine's peaks of each engine on so many cores."""
    by_series: dict[str, list[Peak]] = {}
    for peak in peaks:
        if peak.cores == cores:
            by_series.setdefault(series(peak), []).append(peak)
    return tuple(best for found in by_series.values() for best in best_peaks(found))


def series(peak: Peak) -> str:
    """Name whose peak it is: "openvino 2026.4.1", with the environment and the device where they are not the usual."""
    engine = peak.engine
    parts = [engine.name, engine.version or ""]
    parts += [f"({engine.environment})"] if engine.environment not in ("", DEFAULT_ENVIRONMENT) else []
    parts += [peak.device] if peak.device != DEFAULT_DEVICE else []
    return " ".join(filter(None, parts))


def operations_figure(peaks: Sequence[Peak], engines: EngineLooks) -> go.Figure | None:
    """Draw Gop/s as bars by precision, a colour an engine, with intervals; None where no rate is known.

    What an engine may compute by Winograd's trick is hatched, and left out where it is no faster than the rest.
    """
    shown = [peak for peak in peaks if peak.kind is PeakKind.FLOPS and peak.rate and _tells(peak, peaks)]
    if not shown:
        return None
    figure = go.Figure()
    for name, colour in _colours(peaks, engines).items():
        for is_winograd in (False, True):
            own = [peak for peak in shown if series(peak) == name and peak.may_be_winograd == is_winograd]
            if own:
                figure.add_trace(_bars(own, name, colour, is_winograd=is_winograd))
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=_precisions(shown))
    figure.update_yaxes(title="Gop/s", rangemode="tozero")
    return figure.update_layout(barmode="group", **_LAYOUT)


def bandwidth_figure(peaks: Sequence[Peak], engines: EngineLooks) -> go.Figure | None:
    """Draw GB/s over the size of the data, a line an engine, with intervals; None where no rate is known."""
    shown = [peak for peak in peaks if peak.kind is PeakKind.BANDWIDTH and peak.rate and peak.working_set_bytes]
    if not shown:
        return None
    figure = go.Figure()
    for name, colour in _colours(peaks, engines).items():
        own = sorted((peak for peak in shown if series(peak) == name), key=lambda peak: peak.working_set_bytes or 0)
        if own:
            figure.add_trace(_line(own, name, colour))
    sizes = sorted({peak.working_set_bytes for peak in shown if peak.working_set_bytes})
    figure.update_xaxes(
        type="log", title="size of the data", tickvals=sizes, ticktext=[size_text(size) for size in sizes]
    )
    figure.update_yaxes(title="GB/s", rangemode="tozero")
    return figure.update_layout(**_LAYOUT)


def operation_rows(peaks: Iterable[Peak]) -> tuple[Row, ...]:
    """Return a row a precision of each engine."""
    found = [peak for peak in peaks if peak.kind is PeakKind.FLOPS]
    return tuple(cells({"Precision": peak.precision, **_row(peak, "Gop/s")}) for peak in found)


def bandwidth_rows(peaks: Iterable[Peak]) -> tuple[Row, ...]:
    """Return a row a size of the data of each engine."""
    found = [peak for peak in peaks if peak.kind is PeakKind.BANDWIDTH]
    return tuple(cells({"Data": size_text(peak.working_set_bytes), **_row(peak, "GB/s")}) for peak in found)


def busy_sentence(peaks: Sequence[Peak]) -> str:
    """Say that the machine did something else while some of these were measured; empty where it did not."""
    busy = sum(bool(peak.rate and peak.rate.disturbed) for peak in peaks)
    if not busy:
        return ""
    measured = f"{busy} of these {len(peaks)}"
    return f"The machine was busy while {measured} were measured: the true peaks are higher. Calibrate again."


def size_text(size_bytes: int | None) -> str:
    """Show a size in bytes: "256 KiB", "16 MiB"."""
    if size_bytes is None:
        return "memory"
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


def _row(peak: Peak, unit: str) -> Row:
    rate = peak.rate
    return {
        "Engine": series(peak),
        unit: rate.median_per_s / _GIGA if rate else None,
        "Low": rate.low_per_s / _GIGA if rate else None,
        "High": rate.high_per_s / _GIGA if rate else None,
        "Best at": peak.what,
        "Remark": _remark(peak),
        "Measured": instant(peak.measured_at_unix_ns),
    }


def _remark(peak: Peak) -> str | None:
    if peak.rate is None:
        return f"not available: {peak.failure or 'no reason was given'}"
    said = ["may save operations (Winograd), no bound for other layers"] * peak.may_be_winograd
    said += ["the machine was busy: the true peak is higher"] * peak.rate.disturbed
    return "; ".join(said) or None


def _tells(peak: Peak, peaks: Iterable[Peak]) -> bool:
    """Whether a bar says something: of Winograd only where it is the faster one."""
    if not peak.may_be_winograd or peak.rate is None:
        return True
    plain = [
        one.rate.median_per_s
        for one in peaks
        if one.rate and not one.may_be_winograd and (series(one), one.precision) == (series(peak), peak.precision)
    ]
    return peak.rate.median_per_s > max(plain, default=0.0)


def _bars(own: Sequence[Peak], name: str, colour: str, *, is_winograd: bool) -> go.Bar:
    label = f"{name}, Winograd" if is_winograd else name
    return go.Bar(
        x=[_precision(peak) for peak in own],
        y=[peak.rate.median_per_s / _GIGA for peak in own if peak.rate],
        # In the bar's own colour the half of an interval that lies on the bar would not be seen.
        error_y={**_errors(own), "color": NOISE},
        # Plotly reads a few HTML tags in every text; names from elsewhere must not speak it.
        name=drawn_text(label),
        marker={
            "color": colour,
            "pattern": {"shape": "/" if is_winograd else ""},
            "line": {"color": colour, "width": 1},
        },
        customdata=[drawn_text(peak.what) for peak in own],
        hovertemplate="%{x}: %{y:.1f} Gop/s at %{customdata}<extra>%{fullData.name}</extra>",
    )


def _line(own: Sequence[Peak], name: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[peak.working_set_bytes for peak in own],
        y=[peak.rate.median_per_s / _GIGA for peak in own if peak.rate],
        error_y=_errors(own),
        name=drawn_text(name),
        mode="lines+markers",
        line={"color": colour, "width": 2},
        customdata=[f"{size_text(peak.working_set_bytes)}, {drawn_text(peak.what)}" for peak in own],
        hovertemplate="%{customdata}: %{y:.1f} GB/s<extra>%{fullData.name}</extra>",
    )


def _errors(own: Sequence[Peak]) -> dict[str, object]:
    rates = [peak.rate for peak in own if peak.rate]
    return {
        "type": "data",
        "symmetric": False,
        "array": [(rate.high_per_s - rate.median_per_s) / _GIGA for rate in rates],
        "arrayminus": [(rate.median_per_s - rate.low_per_s) / _GIGA for rate in rates],
        "thickness": 1.2,
        "width": 3,
    }


def _colours(peaks: Iterable[Peak], engines: EngineLooks) -> dict[str, str]:
    """Give each series the colour of its engine, in both charts the same."""
    looks = engines.of_series((series(peak), peak.engine.name) for peak in peaks)
    return {name: look.colour for name, look in looks.items()}


def _precisions(peaks: Iterable[Peak]) -> list[str]:
    found = set(map(_precision, peaks))
    return [one for one in PRECISIONS if one in found] + sorted(found - set(PRECISIONS))


def _precision(peak: Peak) -> str:
    return drawn_text(peak.precision or "?")
