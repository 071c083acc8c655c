"""Ladders shaped: the list, the rungs of one with the value that a chart shows of each, and the bar chart itself."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import plotly.graph_objects as go

from enginebench_controller.files.ladders import gain_words
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.plan.plan import LadderKind
from enginebench_controller.records import LOCAL_TARGET
from enginebench_controller.store.benchmarks import LadderEntry
from enginebench_controller.verdicts.doubts import flags
from enginebench_controller.verdicts.ladder import NOT_AVAILABLE, Gain, Ladder, RungResult, judged_by, speed_interval
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import factor_words
from enginebench_ui.shared.charts import NOISE
from enginebench_ui.shared.text import UNKNOWN, Row, cells, drawn_text, in_milliseconds, instant, number, readback


class Measure(StrEnum):
    """What a bar is long by."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FIRST_INFERENCE = "first inference"


@dataclass(frozen=True)
class RungBar:
    """One rung in a chart. `value` is None where it has none, and `missing` says so in words, with the reason.

    `low` and `high` are the bounds of the 95 % interval, in the value's unit; None where unknown. `gain` is the text on
    the rung before and `factor` how often as good as the first; both None where there is nothing to compare with.
    """

    title: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    gain: str | None = None
    factor: float | None = None
    is_best: bool = False
    missing: str = ""
    engine: str = ""


def bars(ladder: Ladder, measure: Measure) -> tuple[RungBar, ...]:
    """Return a bar a rung, the lowest rung first: images a second, or milliseconds."""
    if measure is Measure.FIRST_INFERENCE:
        return tuple(_on_engine(rung, _first_inference(rung)) for rung in ladder.rungs)
    judged = judged_by(LadderKind(measure.value), ladder)
    return tuple(_on_engine(rung, _speed(judged, rung)) for rung in judged.rungs)


def rung_rows(ladder: Ladder) -> tuple[Row, ...]:
    """Return a table row a rung; what is unknown or not available is None, and the last column says why."""
    return tuple(cells(_row(rung)) for rung in ladder.rungs)


def best_sentence(ladder: Ladder) -> str:
    """Say which rung is the best, and by how much; what to do where none has numbers."""
    best = ladder.best
    if best is None:
        return "No rung has numbers: the reasons stand beside them."
    what = "images a second" if ladder.kind is LadderKind.THROUGHPUT else "the shortest median latency"
    over = best.gain_over_first
    titles = {rung.name: rung.title for rung in ladder.rungs}
    factor = "" if over is None else f", {1 + over.share:.2f} times as fast as {titles[over.over]}"
    noise = "; within the noise" if over is not None and over.is_within_noise else ""
    most = "the most " if ladder.kind is LadderKind.THROUGHPUT else ""
    return f"{best.title} has {most}{what}{factor}{noise}."


def missing_words(rung: RungResult) -> str:
    """Say that a rung has no numbers, and why; empty where it has."""
    if rung.reason is None:
        return ""
    return f"{NOT_AVAILABLE if rung.measurement is None else 'failed'}: {rung.reason}"


def _brief(rung: RungResult) -> str:
    """The same for a chart, which has little room."""
    return missing_words(replace(rung, reason=rung.brief_reason)) if rung.reason is not None else ""


def _on_engine(rung: RungResult, bar: RungBar) -> RungBar:
    return replace(bar, engine=rung.measurement.engine.name if rung.measurement else "")


def _speed(ladder: Ladder, rung: RungResult) -> RungBar:
    found = speed_interval(ladder.kind, rung)
    if found is None:
        return RungBar(rung.title, missing=_brief(rung))
    unit = 1.0 if ladder.kind is LadderKind.THROUGHPUT else 1e-6
    value, interval = found
    return RungBar(
        title=rung.title,
        value=value * unit,
        low=None if interval is None else interval.low * unit,
        high=None if interval is None else interval.high * unit,
        gain=_gain(rung.gain_over_previous),
        factor=None if rung.gain_over_first is None else 1 + rung.gain_over_first.share,
        is_best=rung is ladder.best,
    )


def _first_inference(rung: RungResult) -> RungBar:
    if rung.first_inference_ns is None:
        return RungBar(rung.title, missing=_brief(rung) or "not told by the engine's process")
    return RungBar(rung.title, in_milliseconds(rung.first_inference_ns))


def _gain(gain: Gain | None) -> str | None:
    return None if gain is None else gain_words(gain)


def _factor(gain: Gain | None) -> str | None:
    """In a table not in per cent: a sign before a number would be taken for a formula by a spreadsheet."""
    return None if gain is None else f"{'≈ ' if gain.is_within_noise else ''}{factor_words(1 + gain.share)}"


def _row(rung: RungResult) -> Row:
    one, over_previous, over_first = rung.measurement, rung.gain_over_previous, rung.gain_over_first
    return {
        # "+ batch 4" would be quoted, like everything that a spreadsheet takes for a formula.
        "Rung": rung.title.removeprefix("+ "),
        "Throughput (FPS)": rung.fps,
        "± (FPS)": None if rung.fps_interval is None else (rung.fps_interval.high - rung.fps_interval.low) / 2,
        "First inference (ms)": in_milliseconds(rung.first_inference_ns),
        "Per image (ms)": None if rung.seconds_per_image is None else rung.seconds_per_image * 1e3,
        "Median latency (ms)": in_milliseconds(rung.latency_ns),
        "On the one before": _factor(over_previous),
        "On the first": _factor(over_first),
        "Status": rung.status_words,
        "Remarks": "; ".join(_remarks(rung)),
        "Engine": engine_label(one) if one else None,
        "Device": one.configuration.device if one else None,
        "Precision": readback(one.effective.precision) if one else None,
    }


def _remarks(rung: RungResult) -> list[str]:
    """What to know before trusting a rung's numbers; a fast wrong answer is no result."""
    wrong = rung.output_check.problem if rung.output_check else ""
    told = flags(rung.measurement) if rung.measurement else ()
    gain = rung.gain_over_previous
    unsure = ["on the one before: within the noise"] if gain is not None and gain.is_within_noise else []
    return [*filter(None, [missing_words(rung)]), *unsure, *told, *([f"outputs: {wrong}"] if wrong else [])]


@dataclass(frozen=True)
class Choices:
    """What there is to choose from: names of models and targets, in alphabetical order."""

    models: tuple[str, ...]
    targets: tuple[str, ...]


def choices(entries: Iterable[LadderEntry]) -> Choices:
    """Return the models and targets that any ladder has."""
    listed = tuple(entries)
    return Choices(_names(listed, model_of), _names(listed, target_of))


def narrowed(
    entries: Iterable[LadderEntry], model: str | None = None, target: str | None = None, kind: str | None = None
) -> tuple[LadderEntry, ...]:
    """Return the ladders of this model, target and kind; None takes all."""
    return tuple(
        one
        for one in entries
        if model in (None, model_of(one)) and target in (None, target_of(one)) and kind in (None, one.kind)
    )


def ladder_rows(entries: Sequence[LadderEntry]) -> tuple[Row, ...]:
    """Return a table row a ladder."""
    return tuple(
        {
            "Model": model_of(one),
            "Target": target_of(one),
            "Ladder": one.kind,
            "Rungs with numbers": f"{one.numbered} of {one.rungs}",
            "Measured": instant(one.benchmark.created_at_unix_ns),
            "Note": _note(one),
            "Id": one.benchmark.id,
        }
        for one in entries
    )


def model_of(entry: LadderEntry) -> str:
    """Name the model as given, which every rung runs in some form."""
    return entry.model or UNKNOWN


def target_of(entry: LadderEntry) -> str:
    """Name the target; a plan without one means the agent of this machine."""
    return entry.target or LOCAL_TARGET


def _note(entry: LadderEntry) -> str:
    notes = [f"re-run of {entry.benchmark.rerun_of}"] if entry.benchmark.rerun_of else []
    return ", ".join([*notes, *(["imported"] if entry.benchmark.imported else [])])


def _names(entries: Iterable[LadderEntry], of: Callable[[LadderEntry], str]) -> tuple[str, ...]:
    return tuple(sorted({of(one) for one in entries}))


ROW_PX = 60
_FRAME_PX = 70
_FAINT = 0.55
"""How opaque bars are that are not the best; the word says it as well."""
_THICKNESS = 0.4
_ABOVE_BAR = 0.22
_LETTERS_IN_A_LINE = 48
"""That fit beside each other on a screen of 390 pixels."""
_LINES_OF_A_REASON = 2

_AXES = {
    Measure.THROUGHPUT: "images per second (longer is better)",
    Measure.LATENCY: "median latency in ms (shorter is better)",
    Measure.FIRST_INFERENCE: "first inference in ms (shorter is better)",
}
_UNITS = {Measure.THROUGHPUT: "FPS", Measure.LATENCY: "ms", Measure.FIRST_INFERENCE: "ms"}


def ladder_figure(bars: Sequence[RungBar], measure: Measure, engines: EngineLooks) -> go.Figure:
    """Draw the bars, the lowest rung on top, each in the colour of its engine. Without a value stands the reason."""
    unit = _UNITS[measure]
    figure = go.Figure(
        go.Bar(
            x=[bar.value for bar in bars],
            y=list(range(len(bars))),
            orientation="h",
            width=_THICKNESS,
            marker={
                "color": [engines.of(bar.engine).colour for bar in bars],
                "opacity": [1.0 if bar.is_best else _FAINT for bar in bars],
            },
            customdata=[drawn_text(bar.title) for bar in bars],
            hovertemplate=f"%{{customdata}}: %{{x:,.4~r}} {unit}<extra></extra>",
        )
    )
    figure.add_trace(_whiskers(bars))
    for row, bar in enumerate(bars):
        figure.add_annotation(**_words(row - _ABOVE_BAR, _heading(bar, unit), anchor="bottom"))
        if bar.value is None:
            figure.add_annotation(**_words(row, f"<i>{_wrapped(bar.missing)}</i>", anchor="middle"))
    figure.update_xaxes(title=_AXES[measure], range=[0, _end(bars)], fixedrange=True)
    figure.update_yaxes(visible=False, range=[len(bars) - 0.5, -0.7], fixedrange=True)
    height = ROW_PX * len(bars) + _FRAME_PX
    return figure.update_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 10}, showlegend=False)


def alternative(bars: Sequence[RungBar], measure: Measure) -> str:
    """Say what the chart shows, for those who do not see it."""
    told = (f"{bar.title} {_value(bar, _UNITS[measure])}" for bar in bars)
    return f"{_AXES[measure]}: {'; '.join(told)}"


def _heading(bar: RungBar, unit: str) -> str:
    title = f"<b>{drawn_text(bar.title)}</b>"
    if bar.value is None:
        return title
    factor = None if bar.factor is None else factor_words(bar.factor)
    best = "best" if bar.is_best else None
    return "  ·  ".join(filter(None, [f"{title}  {_value(bar, unit)}", bar.gain, factor, best]))


def _value(bar: RungBar, unit: str) -> str:
    return bar.missing if bar.value is None else f"{number(bar.value)} {unit}"


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(
        text, _LETTERS_IN_A_LINE, max_lines=_LINES_OF_A_REASON, placeholder=" …", break_long_words=True
    )
    return "<br>".join(map(drawn_text, lines))


def _words(row: float, text: str, *, anchor: str) -> dict[str, Any]:
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": row, "yref": "y", "yanchor": anchor}
    return {**place, "text": text, "showarrow": False, "align": "left", "font": {"size": 13}}


def _whiskers(bars: Sequence[RungBar]) -> go.Scatter:
    """Only where there is an interval: Plotly draws a tick for one that is unknown."""
    known = [
        (row, bar.value, bar.low, bar.high)
        for row, bar in enumerate(bars)
        if bar.value is not None and bar.low is not None and bar.high is not None
    ]
    return go.Scatter(
        x=[value for _, value, _, _ in known],
        y=[row for row, _, _, _ in known],
        mode="markers",
        marker={"opacity": 0},
        hoverinfo="skip",
        error_x={
            "array": [max(0.0, high - value) for _, value, _, high in known],
            "arrayminus": [max(0.0, value - low) for _, value, low, _ in known],
            "color": NOISE,
            "thickness": 2,
            "width": 5,
        },
    )


def _end(bars: Sequence[RungBar]) -> float:
    """Where the axis ends: a little beyond the longest bar or whisker."""
    reached = [max(bar.value, bar.high or 0.0) for bar in bars if bar.value is not None]
    return 1.04 * max(reached, default=1.0)
