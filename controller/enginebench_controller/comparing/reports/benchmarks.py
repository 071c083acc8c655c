"""Compared benchmarks and measurements as an HTML page and as a Markdown summary."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from enginebench_controller.comparing.answers import Answer
from enginebench_controller.comparing.gate import Check
from enginebench_controller.comparing.pairing import Compared
from enginebench_controller.comparing.reports.checks import checks_markdown
from enginebench_controller.comparing.reports.markdown import cell, table
from enginebench_controller.comparing.reports.page import render
from enginebench_controller.comparing.words import UNKNOWN, milliseconds, model_words, pair_remarks, side_words
from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.records import Measurement
from enginebench_controller.trust.condensing import condensed

_HEADINGS = (
    "model",
    "work",
    "first",
    "first ms",
    "second",
    "second ms",
    "ratio",
    "95 % interval",
    "p",
    "the second is",
)


@dataclass(frozen=True)
class IntervalMark:
    """A ratio's interval drawn on a scale from 0.5 to 1.5: places in per cent, None where nothing is known."""

    low: float | None
    middle: float | None
    high: float | None


def benchmark_html(
    title: str,
    compared: Sequence[Compared],
    checks: Sequence[Check] = (),
    missing: Sequence[str] = (),
    answers: Sequence[Answer] = (),
) -> str:
    """One self-contained page: the answers, a row a pair with its interval drawn, and what limits the verdicts.

    `missing` are sentences on what could not be compared, or not be used.
    """
    return render(
        "benchmarks.html.j2",
        title=title,
        answers=answers,
        headings=_HEADINGS,
        rows=[(_row(one), one.comparison.verdict, _mark(one)) for one in compared],
        remarks=[*missing, *_remarks(compared)],
        checks=[one for one in checks if one.outcome != "passed"],
        passed=sum(one.outcome == "passed" for one in checks),
    )


def benchmark_markdown(
    title: str,
    compared: Sequence[Compared],
    checks: Sequence[Check] = (),
    missing: Sequence[str] = (),
    answers: Sequence[Answer] = (),
) -> str:
    """A summary for the page of a CI job; `missing` and `answers` as for the page."""
    parts = [f"## {cell(title)}", "\n".join(_answer(one) for one in answers), *checks_markdown(checks)]
    parts.append(table(_HEADINGS, map(_row, compared), numbers=(3, 5, 6, 8)))
    parts += ["\n".join(f"> **Note:** {cell(remark)}  " for remark in [*missing, *_remarks(compared)])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(compared: Compared) -> list[str]:
    chosen, found = compared.first.configuration, compared.comparison
    return [
        model_words(compared),
        f"{chosen.device}, {chosen.size}, {describe_load(chosen)}",
        *_side(compared.first),
        *_side(compared.second),
        UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        UNKNOWN if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}",
        UNKNOWN if found.p_value is None else f"{found.p_value:.3g}",
        found.verdict.value,
    ]


def _side(measurement: Measurement) -> tuple[str, str]:
    median = measurement.latency.median_ns if measurement.latency else None
    return side_words(measurement), milliseconds(median)


def _answer(answer: Answer) -> str:
    first, *others = answer.lines
    return "\n".join([f"- **{cell(first)}**", *(f"  - {cell(line)}" for line in others)])


def _remarks(compared: Sequence[Compared]) -> Iterator[str]:
    yield from condensed(pair_remarks(compared), len(compared))
    sides = (side for one in compared for side in (one.first, one.second) if side.effective.prepared)
    yield from dict.fromkeys(f"{side_words(one)}: {one.effective.preparation}" for one in sides)


def _mark(compared: Compared) -> IntervalMark:
    found = compared.comparison
    return IntervalMark(*(_on_scale(value) for value in (found.low, found.ratio, found.high)))


def _on_scale(ratio: float | None) -> float | None:
    """0.5 is at the left end, 1 in the middle, 1.5 and more at the right end."""
    return None if ratio is None else min(100.0, max(0.0, 100 * (ratio - 0.5)))
