"""Compared profiles as a Markdown summary, for the page of a CI job."""

from collections.abc import Iterator, Sequence

from enginebench_controller.comparing.figures import summary
from enginebench_controller.comparing.gate import Check
from enginebench_controller.comparing.layer_rows import LayerRow
from enginebench_controller.comparing.profiles import (
    ProfileComparison,
    ProfilePair,
    how_sure,
    joined_sentence,
    precisions,
    verdicts,
)
from enginebench_controller.comparing.reports.checks import checks_markdown
from enginebench_controller.comparing.reports.markdown import cell, table
from enginebench_controller.comparing.settings import letter
from enginebench_controller.comparing.words import UNKNOWN, milliseconds, percent

_MOST_ROWS = 15


def profile_markdown(comparison: ProfileComparison, checks: Sequence[Check] = ()) -> str:
    """The summary, the types, and the layers that make most of the difference."""
    return "\n\n".join(_parts(comparison, checks)) + "\n"


def _parts(comparison: ProfileComparison, checks: Sequence[Check]) -> Iterator[str]:
    yield "## Profiles compared"
    yield from checks_markdown(checks)
    if comparison.remarks:
        yield "\n".join(f"> **Not alike:** {cell(remark)}  " for remark in comparison.remarks)
    sides = [letter(place) for place in range(len(comparison.profiles))]
    yield table(["", *sides], [[one.name, *one.values] for one in summary(comparison.profiles)])
    for place, pair in enumerate(comparison.pairs, start=1):
        yield from _pair(pair, letter(place))
    if comparison.advice:
        yield "### Advice"
        yield "\n".join(f"- {cell(one.sentence)}: {cell(one.remedy)}" for one in comparison.advice)


def _pair(pair: ProfilePair, other: str) -> Iterator[str]:
    yield f"### {other} against A"
    yield f"{cell(joined_sentence(pair, other))}. {cell(verdicts(pair))}; {cell(how_sure(pair))}."
    yield table(
        ["operator", "A ms", "A %", "A layers", f"{other} ms", f"{other} %", f"{other} layers"],
        [
            [one.type]
            + [
                text
                for side in (one.first, one.second)
                for text in (milliseconds(side.time_ns), percent(side.share), precisions(side.precisions) or UNKNOWN)
            ]
            for one in pair.types
        ],
        numbers=(1, 2, 4, 5),
    )
    largest = sorted(pair.rows, key=lambda row: -abs(row.contribution_ns))[:_MOST_ROWS]
    yield table(
        ["layer", "operator", "A ms", "A precision", f"{other} ms", f"{other} precision", "Δ ms", "ratio", "verdict"],
        [_row(row, other) for row in largest if row.slowest_ns],
        numbers=(2, 4, 6, 7),
    )


def _row(row: LayerRow, other: str) -> list[object]:
    return [
        row.name,
        row.operator,
        milliseconds(row.first.time_ns),
        row.first.precision or UNKNOWN,
        milliseconds(row.second.time_ns),
        row.second.precision or UNKNOWN,
        f"{row.contribution_ns / 1e6:+.3f}",
        UNKNOWN if row.ratio is None else f"{row.ratio:.3f}",
        row.outcome.replace("in B", f"in {other}"),
    ]
