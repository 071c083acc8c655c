"""The points A and B against each other: what each reached, how sure that is, and where they are no equals."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import plotly.graph_objects as go

from enginebench_controller.records import Interval, Measurement
from enginebench_controller.stats.comparison import Verdict
from enginebench_controller.verdicts.doubts import flags, status_words
from enginebench_controller.verdicts.pairing import Compared
from enginebench_ui.pages.compare.shapes.points import Looks, ShownSide, point_text
from enginebench_ui.shared.charts import margins
from enginebench_ui.shared.text import Row, cells, engine_label, in_milliseconds, in_percent, instant, number, readback

HEIGHT_PX = 360

_VERDICTS = {
    Verdict.FASTER: "B is faster",
    Verdict.SLOWER: "B is slower",
    Verdict.SAME: "B is the same",
    Verdict.INCONCLUSIVE: "it cannot be told whether B is faster",
}
_LOOKS = {
    Verdict.FASTER: (":material/trending_down:", "green"),
    Verdict.SLOWER: (":material/trending_up:", "orange"),
    Verdict.SAME: (":material/equal:", "gray"),
    Verdict.INCONCLUSIVE: (":material/help:", "gray"),
}
"""The sign, of time that falls or rises, and the colour of each verdict."""


class Bars(StrEnum):
    """What the bars of A and B show."""

    THROUGHPUT = "Throughput"
    LATENCY = "Latency"


def bars_figure(points: Mapping[str, Measurement], bars: Bars, looks: Looks) -> go.Figure | None:
    """Draw the points as bars with their 95 % intervals, by letter in its colour; None where none has numbers."""
    known = {letter: one for letter, one in points.items() if one.latency is not None}
    if not known:
        return None
    values = {letter: _value(one, bars) for letter, one in known.items()}
    ends = {letter: _ends(one, bars) for letter, one in known.items()}
    unit = "items/s" if bars is Bars.THROUGHPUT else "ms"
    figure = go.Figure(
        go.Bar(
            x=list(known),
            y=[values[letter] for letter in known],
            marker={
                "color": [looks[letter].colour for letter in known],
                "pattern": {"shape": [looks[letter].pattern for letter in known]},
            },
            width=0.5,
            error_y=_error_bars(values, ends),
            hovertemplate=f"%{{x}}: %{{y:,.4~r}} {unit}<extra></extra>",
        )
    )
    # Beneath the bars, where no interval crosses it.
    numbers = [f"<b>{letter}</b><br>{number(value)} {unit}" for letter, value in values.items()]
    figure.update_xaxes(type="category", tickvals=list(known), ticktext=numbers, tickfont={"size": 14})
    title = "throughput (items/s)" if bars is Bars.THROUGHPUT else "median latency (ms)"
    figure.update_yaxes(title=title, rangemode="tozero", range=[0, _top(values, ends)])
    return figure.update_layout(height=HEIGHT_PX, margin=margins(20), showlegend=False)


def interval_sentences(points: Mapping[str, Measurement], bars: Bars) -> tuple[str, ...]:
    """Say each value with its interval in words, since a bar alone does not tell how sure it is."""
    unit = "items/s" if bars is Bars.THROUGHPUT else "ms"
    return tuple(_interval_sentence(letter, one, bars, unit) for letter, one in points.items())


def point_rows(points: Mapping[str, Measurement]) -> tuple[Row, ...]:
    """Return a table row a point: what ran, what it reached, and how the settings it really used are known."""
    return tuple(cells(_row(letter, one)) for letter, one in points.items())


@dataclass(frozen=True)
class VerdictLine:
    """The verdict in a sentence, with a sign and a colour that say the same."""

    sentence: str
    icon: str
    colour: str


def verdict_line(compared: Compared) -> VerdictLine:
    """Say how B's latency compares with A's, with the interval, and what limits that."""
    found = compared.comparison
    if found.ratio is None:
        return VerdictLine(f"Whether A or B is faster cannot be told: {found.note}.", *_LOOKS[Verdict.INCONCLUSIVE])
    bounds = "" if found.low is None or found.high is None else f" (95 % interval {found.low:.3f} to {found.high:.3f})"
    note = f"; {found.note}" if found.note else ""
    said = f"{_VERDICTS[found.verdict]}: it takes {found.ratio:.3f} × as long as A{bounds}{note}."
    return VerdictLine(f"{said[:1].upper()}{said[1:]}", *_LOOKS[found.verdict])


def side_text(side: ShownSide, measurement: Measurement | None) -> str:
    """Name a side in a line: its model and engine, a device that is not the CPU, and the point that was chosen."""
    if measurement is None or side.chosen is None:
        return "no point"
    device = measurement.configuration.device
    names = (measurement.model_name, engine_label(measurement), "" if device == "CPU" else device)
    return " · ".join(filter(None, (*names, point_text(side.chosen))))


def _row(letter: str, one: Measurement) -> Row:
    asked, latency = one.configuration, one.latency
    return {
        "Point": letter,
        "Model": one.model_name,
        "Engine": engine_label(one),
        "Target": one.target,
        "Device": asked.device,
        "Batch": asked.batch,
        "Streams": asked.streams,
        "Cores": asked.cores,
        "Items/s": one.throughput_items_per_s,
        "± items/s (%)": in_percent(_relative(one.throughput_interval, one.throughput_items_per_s)),
        "Median (ms)": in_milliseconds(latency.median_ns if latency else None),
        "± ms (%)": in_percent(latency.median_relative_half_width if latency else None),
        "p95 (ms)": in_milliseconds(latency.percentile_ns(95) if latency else None),
        "Precision": readback(one.effective.precision),
        "Threads": readback(one.effective.threads),
        "Status": status_words(one),
        "Measured": None if one.started_at_unix_ns is None else instant(one.started_at_unix_ns),
        "Remarks": "; ".join(flags(one)) or None,
    }


def _relative(interval: Interval | None, middle: float | None) -> float | None:
    return (interval.high - interval.low) / 2 / middle if interval and middle else None


def _value(one: Measurement, bars: Bars) -> float | None:
    if bars is Bars.THROUGHPUT:
        return one.throughput_items_per_s
    return in_milliseconds(one.latency.median_ns if one.latency else None)


def _ends(one: Measurement, bars: Bars) -> tuple[float, float] | None:
    if bars is Bars.THROUGHPUT:
        found = one.throughput_interval
        return (found.low, found.high) if found else None
    found = one.latency.median_interval if one.latency else None
    return (found.low / 1e6, found.high / 1e6) if found else None


def _error_bars(
    values: Mapping[str, float | None], ends: Mapping[str, tuple[float, float] | None]
) -> dict[str, object] | None:
    if not any(ends.values()):
        return None
    below, above = [], []
    for letter, value in values.items():
        low, high = ends[letter] or (value or 0.0, value or 0.0)
        below.append((value or 0.0) - low)
        above.append(high - (value or 0.0))
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "thickness": 2,
        "width": 10,
        "color": "#767676",
    }


def _top(values: Mapping[str, float | None], ends: Mapping[str, tuple[float, float] | None]) -> float:
    """Where the axis ends: above the intervals, unless one is so wide that the bars would vanish beneath it."""
    tallest = max((value for value in values.values() if value is not None), default=1.0)
    highest = max((one[1] for one in ends.values() if one), default=tallest)
    return 1.08 * max(tallest, min(highest, 3 * tallest))


def _interval_sentence(letter: str, one: Measurement, bars: Bars, unit: str) -> str:
    value, ends = _value(one, bars), _ends(one, bars)
    if value is None:
        return f"{letter} has no numbers: {one.status}."
    how = "measured over the whole steady state" if bars is Bars.THROUGHPUT else "measured, the median of all requests"
    if ends is None:
        return f"{letter}: {number(value)} {unit}, {how}; how sure that is is unknown."
    return f"{letter}: {number(value)} {unit}, 95 % interval {number(ends[0])} to {number(ends[1])} ({how})."
