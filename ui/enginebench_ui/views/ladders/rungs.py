"""The rungs of one ladder: the value that a chart shows of each, and all of them in a table."""

from dataclasses import dataclass, replace
from enum import StrEnum

from enginebench_controller.ladder.chart import gain_words
from enginebench_controller.ladder.results import NOT_AVAILABLE, Gain, Ladder, RungResult, judged_by, speed_interval
from enginebench_controller.ladder.steps import Kind
from enginebench_controller.stats.change import factor_words
from enginebench_controller.trust.parity import engine_label, flags
from enginebench_ui.views.text import Row, cells, milliseconds, readback


class Measure(StrEnum):
    """What a bar is long by."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FIRST_INFERENCE = "first inference"


@dataclass(frozen=True)
class Bar:
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


def bars(ladder: Ladder, measure: Measure) -> tuple[Bar, ...]:
    """Return a bar a rung, the lowest rung first: images a second, or milliseconds."""
    if measure is Measure.FIRST_INFERENCE:
        return tuple(_first_inference(rung) for rung in ladder.rungs)
    judged = judged_by(Kind(measure.value), ladder)
    return tuple(_speed(judged, rung) for rung in judged.rungs)


def rung_rows(ladder: Ladder) -> tuple[Row, ...]:
    """Return a table row a rung; what is unknown or not available is None, and the last column says why."""
    return tuple(cells(_row(rung)) for rung in ladder.rungs)


def best_sentence(ladder: Ladder) -> str:
    """Say which rung is the best, and by how much; what to do where none has numbers."""
    best = ladder.best
    if best is None:
        return "No rung has numbers: the reasons stand beside them."
    what = "images a second" if ladder.kind is Kind.THROUGHPUT else "the shortest median latency"
    over = best.gain_over_first
    factor = "" if over is None else f", {1 + over.share:.2f} times as fast as the first rung"
    noise = "; within the noise" if over is not None and over.is_within_noise else ""
    most = "the most " if ladder.kind is Kind.THROUGHPUT else ""
    return f"{best.title} has {most}{what}{factor}{noise}."


def missing_words(rung: RungResult) -> str:
    """Say that a rung has no numbers, and why; empty where it has."""
    if rung.reason is None:
        return ""
    return f"{NOT_AVAILABLE if rung.measurement is None else 'failed'}: {rung.reason}"


def _brief(rung: RungResult) -> str:
    """The same for a chart, which has little room."""
    return missing_words(replace(rung, reason=rung.brief_reason)) if rung.reason is not None else ""


def _speed(ladder: Ladder, rung: RungResult) -> Bar:
    found = speed_interval(ladder.kind, rung)
    if found is None:
        return Bar(rung.title, missing=_brief(rung))
    unit = 1.0 if ladder.kind is Kind.THROUGHPUT else 1e-6
    value, interval = found
    return Bar(
        title=rung.title,
        value=value * unit,
        low=None if interval is None else interval.low * unit,
        high=None if interval is None else interval.high * unit,
        gain=_gain(rung.gain_over_previous),
        factor=None if rung.gain_over_first is None else 1 + rung.gain_over_first.share,
        is_best=rung is ladder.best,
    )


def _first_inference(rung: RungResult) -> Bar:
    if rung.first_inference_ns is None:
        return Bar(rung.title, missing=_brief(rung) or "not told by the engine's process")
    return Bar(rung.title, milliseconds(rung.first_inference_ns))


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
        "First inference (ms)": milliseconds(rung.first_inference_ns),
        "Per image (ms)": None if rung.seconds_per_image is None else rung.seconds_per_image * 1e3,
        "Median latency (ms)": milliseconds(rung.latency_ns),
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
