"""Compared profiles as one HTML page: what is to be known first stands first."""

from collections.abc import Sequence
from dataclasses import dataclass

from enginebench_controller.comparing.figures import Figure, summary
from enginebench_controller.comparing.gate import Check
from enginebench_controller.comparing.layer_rows import LayerRow, Verdict
from enginebench_controller.comparing.profiles import ProfileComparison, ProfilePair, how_sure, joined_sentence
from enginebench_controller.comparing.reports.page import render
from enginebench_controller.comparing.settings import letter
from enginebench_controller.comparing.words import UNKNOWN, milliseconds, percent
from enginebench_controller.prospects import Advice
from enginebench_controller.stats.change import change_words
from enginebench_controller.trust.parity import engine_label

_BARS = 12


@dataclass(frozen=True)
class Card:
    """A figure in large type, with its name above and what to know about it below."""

    name: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True)
class Bar:
    """A row of the chart of differences: `percent` of the half width, to the right where the second is slower."""

    label: str
    text: str
    percent: float
    is_slower: bool


@dataclass(frozen=True)
class PairPart:
    """What the page says of one pair; `largest_ns` is the longest time of a type, for the bars."""

    place: int
    letter: str
    title: str
    pair: ProfilePair
    cards: tuple[Card, ...]
    bars: tuple[Bar, ...]
    largest_ns: int
    joined: str
    sure: str


def profile_html(comparison: ProfileComparison, checks: Sequence[Check] = ()) -> str:
    """One self-contained page of everything that a comparison knows."""
    return render(
        "profiles.html.j2",
        title=f"Profiles compared: {' and '.join(one.name for one in comparison.profiles)}",
        sides=[(letter(place), _label(comparison, place)) for place in range(len(comparison.profiles))],
        figures=_figures(comparison),
        comparison=comparison,
        parts_of_page=[_part(comparison, place, pair) for place, pair in enumerate(comparison.pairs, start=1)],
        advice=[(letter(_place(comparison, one)), one, _rows_of(comparison, one)) for one in comparison.advice],
        checks=[one for one in checks if one.outcome != "passed"],
        passed=sum(one.outcome == "passed" for one in checks),
        has_peaks=any(
            side.peak_share is not None
            for pair in comparison.pairs
            for row in pair.rows
            for side in (row.first, row.second)
        ),
    )


def _label(comparison: ProfileComparison, place: int) -> str:
    one = comparison.profiles[place]
    return f"{one.name}: {one.model_name} on {engine_label(one)}"


def _figures(comparison: ProfileComparison) -> tuple[Figure, ...]:
    return summary(comparison.profiles)


def _part(comparison: ProfileComparison, place: int, pair: ProfilePair) -> PairPart:
    times = [side.time_ns or 0 for row in pair.types for side in (row.first, row.second)]
    return PairPart(
        place=place,
        letter=letter(place),
        title=_label(comparison, place),
        pair=pair,
        cards=tuple(_cards(pair, letter(place))),
        bars=tuple(_bars(pair.rows)),
        largest_ns=max(times, default=0),
        joined=joined_sentence(pair, letter(place)),
        sure=how_sure(pair),
    )


def _cards(pair: ProfilePair, other: str) -> list[Card]:
    medians = [milliseconds(one.unprofiled_latency_ns) for one in (pair.first, pair.second)]
    shares = pair.coverage.shares
    return [
        _latency_card(pair, other, medians),
        _layers_card(pair, other),
        Card(
            "time in joined rows",
            " · ".join(f"{percent(share)} %" for share in shares),
            f"of A and of {other}, in {pair.coverage.joined_rows} rows",
            "" if all(share is not None and share >= 0.95 for share in shares) else "doubt",
        ),
        Card(
            f"layers of {other}",
            " · ".join(str(pair.count(verdict)) for verdict in Verdict),
            " · ".join(Verdict),
        ),
    ]


def _latency_card(pair: ProfilePair, other: str, medians: Sequence[str]) -> Card:
    if pair.latency_ratio is None:
        return Card("median latency without counters", UNKNOWN, "not known on both sides")
    note = f"A {medians[0]} ms, {other} {medians[1]} ms: {change_words(pair.latency_ratio)}; one process each"
    return Card("median latency without counters", f"× {pair.latency_ratio:.3f}", note)


def _layers_card(pair: ProfilePair, other: str) -> Card:
    totals = [milliseconds(total) for total in pair.coverage.total_ns]
    note = f"A {totals[0]} ms, {other} {totals[1]} ms"
    found = pair.layers
    if found is None or found.ratio is None:
        return Card("Σ layers", UNKNOWN, note)
    if found.low is None or found.high is None:
        return Card("Σ layers", f"× {found.ratio:.3f}", f"{note}; too noisy for an interval")
    return Card("Σ layers", f"× {found.ratio:.3f}", f"{note}; 95 % interval {found.low:.3f} to {found.high:.3f}")


def _bars(rows: Sequence[LayerRow]) -> list[Bar]:
    """The rows that make most of the difference, in the order of execution."""
    largest = sorted((row for row in rows if row.contribution_ns), key=lambda row: -abs(row.contribution_ns))[:_BARS]
    widest = max((abs(row.contribution_ns) for row in largest), default=1)
    return [
        Bar(
            f"{row.name} ({row.operator})",
            f"{row.contribution_ns / 1e6:+.3f} ms",
            100 * abs(row.contribution_ns) / widest,
            row.contribution_ns > 0,
        )
        for row in largest
    ]


def _place(comparison: ProfileComparison, advice: Advice) -> int:
    return [one.id for one in comparison.profiles].index(advice.profile_id)


def _rows_of(comparison: ProfileComparison, advice: Advice) -> list[tuple[str, str]]:
    """The layers that advice names, each with the anchor of its row."""
    place = _place(comparison, advice)
    pair = comparison.pairs[max(place, 1) - 1]
    anchors = {
        layer: f"r{max(place, 1)}-{row.order}"
        for row in pair.rows
        for layer in (row.second if place else row.first).layers
    }
    return [(one.name, anchors[one.name]) for one in advice.layers if one.name in anchors]
