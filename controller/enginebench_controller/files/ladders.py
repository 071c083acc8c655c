"""A ladder as a file: JSON in which what is unknown is null, and the notebooks' bar chart."""

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import (
    DocumentForm,
    EngineForm,
    Form,
    ModelForm,
    NamedForm,
    OutcomeForm,
    engine_document,
)
from enginebench_controller.files.new_file import check_new_files, new_file
from enginebench_controller.plan.plan import LadderKind
from enginebench_controller.records import Hint, Interval, Load, Measurement, ModelVersion, OutputCheck, Status
from enginebench_controller.records.fields import OUTPUT_CHECK
from enginebench_controller.verdicts.doubts import Mark, flags, marks
from enginebench_controller.verdicts.ladder import Gain, Ladder, RungResult, speed_interval
from enginebench_controller.verdicts.soundness import soundness
from enginebench_controller.verdicts.words import change_words, factor_words


def ladder_document(ladder: Ladder, models: Iterable[ModelVersion] = ()) -> Document:
    """The document that `enginebench ladder … --json` prints; its form is in docs/guide/ladder.md.

    `models`, all those of the store, tell which versions are to compute the same.
    """
    best = ladder.best
    return {
        **head("ladder"),
        "ladder": str(ladder.kind),
        "benchmark": {"id": ladder.benchmark.id, "name": ladder.benchmark.name},
        "target": next((one.target for one in ladder.measurements), None),
        "best": best.name if best else None,
        "rungs": [_rung(rung) for rung in ladder.rungs],
        "remarks": list(ladder.remarks),
        "outcome": soundness(ladder.measurements, models).document,
    }


def _rung(rung: RungResult) -> Document:
    measurement = rung.measurement
    return {
        "rung": rung.name,
        "title": rung.title,
        "available": measurement is not None,
        "reason": rung.reason,
        "status": str(measurement.status) if measurement else None,
        "first_inference_s": None if rung.first_inference_ns is None else rung.first_inference_ns / 1e9,
        "seconds_per_image": rung.seconds_per_image,
        "fps": rung.fps,
        "fps_interval": _interval(rung.fps_interval, 1.0),
        "latency_ms": None if rung.latency_ns is None else rung.latency_ns / 1e6,
        "latency_interval_ms": _interval(rung.latency_interval, 1e-6),
        "gain_over_previous": _gain(rung.gain_over_previous),
        "gain_over_first": _gain(rung.gain_over_first),
        "output_check": OUTPUT_CHECK.to_data(rung.output_check),
        "measurement": _measurement(measurement) if measurement else None,
    }


def _measurement(one: Measurement) -> Document:
    chosen = one.configuration
    return {
        "id": one.id,
        "engine": engine_document(one.engine),
        "model": {"name": one.model_name, "digest": one.model_digest},
        "device": chosen.device,
        "batch": chosen.batch,
        "cores": chosen.cores,
        "load": str(chosen.load),
        "requests": chosen.requests,
        "hint": str(chosen.hint),
        "precision": chosen.precision,
        "options": dict(chosen.options),
        "images": one.iterations * chosen.batch if one.iterations else None,
        "flags": list(flags(one)),
        "marks": [mark.value for mark in marks(one)],
    }


def _gain(gain: Gain | None) -> Document | None:
    if gain is None:
        return None
    return {"over": gain.over, "share": gain.share, "noise": gain.noise, "within_noise": gain.is_within_noise}


def _interval(interval: Interval | None, factor: float) -> list[float] | None:
    return None if interval is None else [interval.low * factor, interval.high * factor]


class GainForm(Form):
    """By how much a rung is better than the one called `over`: 0.5 is half as much again."""

    over: str
    share: float
    noise: float | None
    within_noise: bool


class RungMeasurementForm(Form):
    """What was measured on a rung."""

    id: str
    engine: EngineForm
    model: ModelForm
    device: str
    batch: int
    cores: int
    load: Load
    requests: int
    hint: Hint
    precision: str
    options: dict[str, str]
    images: int | None
    flags: tuple[str, ...]
    marks: tuple[Mark, ...]


class RungForm(Form):
    """One rung; numbers are null, and `reason` says why, where it is not available or has failed."""

    rung: str
    title: str
    available: bool
    reason: str | None
    status: Status | None
    first_inference_s: float | None
    seconds_per_image: float | None
    fps: float | None
    fps_interval: tuple[float, float] | None
    latency_ms: float | None
    latency_interval_ms: tuple[float, float] | None
    gain_over_previous: GainForm | None
    gain_over_first: GainForm | None
    output_check: OutputCheck | None
    measurement: RungMeasurementForm | None


class LadderDocument(DocumentForm):
    """One model made faster step by step, from the lowest rung up."""

    document = "ladder"

    ladder: LadderKind
    benchmark: NamedForm
    target: str | None
    best: str | None
    rungs: tuple[RungForm, ...]
    remarks: tuple[str, ...]
    outcome: OutcomeForm


SUFFIXES = (".svg", ".png")

_WIDTH_INCHES, _ROW_INCHES, _FRAME_INCHES = 10.0, 0.52, 1.5
_BAR, _BEST, _PALE = "#5b7fa6", "#2b5c8f", "#8a8a8a"
_LETTERS_IN_A_LINE = 95
_LINES_OF_A_REASON = 3
_SMALL: dict[str, Any] = {"fontsize": 9, "parse_math": False}
"""Names and reasons are other people's: a dollar sign in them is no formula."""
_LABEL_ROOM = 1.5
"""How far the axis goes beyond the longest bar, for the words at its end."""


def check_chart_path(path: Path, *, force: bool | None = None) -> None:
    """Refuse what cannot be written later, before anything is measured. Raises `InputError`."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a chart is written as {' or '.join(SUFFIXES)}, not as {path.name}")
    check_new_files(path, force=force)


def write_chart(ladder: Ladder, path: Path) -> None:
    """Draw the ladder, the lowest rung on top. Raises `InputError` when the file cannot be written."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # takes half a second, and only a chart needs it

    rows = len(ladder.rungs)
    figure = Figure(figsize=(_WIDTH_INCHES, rows * _ROW_INCHES + _FRAME_INCHES), layout="constrained")
    axes = figure.add_subplot()
    longest = max((_reach(ladder.kind, rung) for rung in ladder.rungs), default=0.0) or 1.0
    axes.set_xlim(0, longest * _LABEL_ROOM)
    for row, rung in enumerate(ladder.rungs):
        _draw(axes, row, rung, ladder, longest)
    axes.set_yticks(range(rows), [rung.title for rung in ladder.rungs])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"{_AXIS[ladder.kind]}\n{_LEGEND}")
    axes.set_title(_title(ladder), loc="left", fontsize=11, parse_math=False)
    with new_file(path, force=None) as partial:
        figure.savefig(partial, format=path.suffix[1:], dpi=150)


_AXIS = {
    LadderKind.THROUGHPUT: "images per second (longer is better)",
    LadderKind.LATENCY: "median latency in ms (shorter is better)",
}

_LEGEND = "whiskers: 95 % interval; then: on the rung before (≈ within the noise), and ×: as fast as the first"


def _draw(axes: Any, row: int, rung: RungResult, ladder: Ladder, longest: float) -> None:
    found = speed_interval(ladder.kind, rung)
    if found is None:
        axes.text(longest * 0.01, row, _missing(rung), va="center", style="italic", color=_PALE, **_SMALL)
        return
    value, interval = found[0] * _UNIT[ladder.kind], found[1]
    colour = _BEST if rung is ladder.best else _BAR
    axes.barh(row, value, height=0.62, color=colour)
    if interval is not None:
        low, high = interval.low * _UNIT[ladder.kind], interval.high * _UNIT[ladder.kind]
        ends = [[max(0.0, value - low)], [max(0.0, high - value)]]
        axes.errorbar(value, row, xerr=ends, color="black", capsize=3, linewidth=1)
    end = _reach(ladder.kind, rung) + longest * 0.015
    axes.text(end, row, _label(rung, ladder.kind, value), va="center", **_SMALL)


_UNIT = {LadderKind.THROUGHPUT: 1.0, LadderKind.LATENCY: 1e-6}
"""From images a second and nanoseconds to what the axis shows."""


def _reach(kind: LadderKind, rung: RungResult) -> float:
    """Where the bar or its whisker ends."""
    found = speed_interval(kind, rung)
    if found is None:
        return 0.0
    value, interval = found
    return max(value, interval.high if interval else value) * _UNIT[kind]


def _label(rung: RungResult, kind: LadderKind, value: float) -> str:
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    number = f"{digits} {'FPS' if kind is LadderKind.THROUGHPUT else 'ms'}"
    over_previous, over_first = rung.gain_over_previous, rung.gain_over_first
    words = [number]
    if over_previous is not None and over_first is not None:
        words += [gain_words(over_previous), factor_words(1 + over_first.share)]
    if rung.status_words != Status.OK:
        words.append(rung.status_words)
    return "   ".join(words)


def gain_words(gain: Gain) -> str:
    """A gain in percent, or as a factor, with a mark where it may be noise."""
    return f"{'≈ ' if gain.is_within_noise else ''}{change_words(1 + gain.share)}"


def _missing(rung: RungResult) -> str:
    word = "not available" if rung.measurement is None else "failed"
    text = f"{word}: {rung.brief_reason}"
    return "\n".join(textwrap.wrap(text, _LETTERS_IN_A_LINE, max_lines=_LINES_OF_A_REASON, placeholder=" …"))


def _title(ladder: Ladder) -> str:
    first = next(iter(ladder.measurements), None)
    return ladder.benchmark.name + (f", target {first.target}" if first else "")
