"""A comparison as an HTML page for people and as a Markdown summary for CI; names of others are escaped."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.files.report_forms import cell, checks_markdown, folded, render, table
from enginebench_controller.records import Configuration
from enginebench_controller.verdicts.answers import Answer
from enginebench_controller.verdicts.conditions import Check
from enginebench_controller.verdicts.layers.advice import Advice
from enginebench_controller.verdicts.layers.profiles import (
    ProfileComparison,
    ProfilePair,
    how_sure,
    joined_sentence,
    latency_words,
    precisions,
    sum_words,
    told_remarks,
    verdicts,
    whole_sentence,
)
from enginebench_controller.verdicts.layers.rows import LayerRow, LayerVerdict
from enginebench_controller.verdicts.layers.summary import ComparedFigure, letter, summary
from enginebench_controller.verdicts.pairing import Compared, pair_remarks
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import (
    UNKNOWN,
    asked_words,
    condensed,
    milliseconds,
    model_words,
    percent,
    side_words,
    sides_words,
)

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
        rows=[(_benchmarks_row(one), one.comparison.verdict, _mark(one)) for one in compared],
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
    parts += ["\n".join(f"> **Note:** {cell(remark)}  " for remark in [*missing, *_remarks(compared)])]
    parts += folded("Every pair", [table(_HEADINGS, map(_benchmarks_row, compared), numbers=(3, 5, 6, 8))])
    return "\n\n".join(part for part in parts if part) + "\n"


def _benchmarks_row(compared: Compared) -> list[str]:
    found = compared.comparison
    return [
        model_words(compared),
        asked_words(compared, _work),
        *_sides(compared),
        UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        UNKNOWN if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}",
        UNKNOWN if found.p_value is None else f"{found.p_value:.3g}",
        found.verdict.value,
    ]


def _work(asked: Configuration) -> str:
    return f"{asked.device}, {asked.size}, {asked.load_in_words}"


def _sides(compared: Compared) -> Iterator[str]:
    for words, side in zip(sides_words(compared), (compared.first, compared.second), strict=True):
        yield words
        yield milliseconds(side.latency.median_ns if side.latency else None)


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


_BARS = 12


@dataclass(frozen=True)
class FigureCard:
    """A figure in large type, with its name above and what to know about it below."""

    name: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True)
class DifferenceBar:
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
    cards: tuple[FigureCard, ...]
    bars: tuple[DifferenceBar, ...]
    largest_ns: int
    joined: str
    sure: str


def profile_html(
    comparison: ProfileComparison,
    checks: Sequence[Check] = (),
    looks: EngineLooks | None = None,
    answers: Sequence[Answer] = (),
    doubts: Sequence[str] = (),
) -> str:
    """One self-contained page of everything that a comparison knows, its sides in the colours of their engines.

    `answers` are those of measurements that the profiles stand beside, `doubts` why layers may not explain these.
    """
    looks = looks or EngineLooks()
    return render(
        "profiles.html.j2",
        title=_title(comparison),
        answers=answers,
        doubts=doubts,
        sides=[(letter(place), _label(comparison, place)) for place in range(len(comparison.profiles))],
        looks=looks.of_sides(*(one.engine.name for one in comparison.profiles[:2])),
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


def _title(comparison: ProfileComparison) -> str:
    """What was compared: "zoo:squeezenet: openvino 2026.4.1 against onnxruntime 1.31.1"."""
    models = list(dict.fromkeys(one.model_name for one in comparison.profiles))
    if len(models) == 1:
        return f"{models[0]}: {' against '.join(engine_label(one) for one in comparison.profiles)}"
    return " against ".join(f"{one.model_name} on {engine_label(one)}" for one in comparison.profiles)


def _label(comparison: ProfileComparison, place: int) -> str:
    one = comparison.profiles[place]
    return f"{one.name}: {one.model_name} on {engine_label(one)}"


def _figures(comparison: ProfileComparison) -> tuple[ComparedFigure, ...]:
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


def _cards(pair: ProfilePair, other: str) -> list[FigureCard]:
    shares = pair.coverage.shares
    return [
        FigureCard("median latency without counters", *latency_words(pair, other)),
        FigureCard("Σ layers", *sum_words(pair, other)),
        FigureCard(
            "time in joined rows",
            " · ".join(f"{percent(share)} %" for share in shares),
            f"of A and of {other}, in {pair.coverage.joined_rows} rows",
            "" if all(share is not None and share >= 0.95 for share in shares) else "doubt",
        ),
        FigureCard(
            f"layers of {other}",
            " · ".join(str(pair.count(verdict)) for verdict in LayerVerdict),
            " · ".join(LayerVerdict),
        ),
    ]


def _bars(rows: Sequence[LayerRow]) -> list[DifferenceBar]:
    """The rows that make most of the difference, in the order of execution."""
    largest = sorted((row for row in rows if row.contribution_ns), key=lambda row: -abs(row.contribution_ns))[:_BARS]
    widest = max((abs(row.contribution_ns) for row in largest), default=1)
    return [
        DifferenceBar(
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


_MOST_ROWS = 15


def profile_markdown(comparison: ProfileComparison, checks: Sequence[Check] = ()) -> str:
    """The summary, the types, and the layers that make most of the difference."""
    return "\n\n".join(_parts(comparison, checks)) + "\n"


def _parts(comparison: ProfileComparison, checks: Sequence[Check]) -> Iterator[str]:
    yield f"## {cell(_title(comparison))}"
    pairs = [(letter(place), pair) for place, pair in enumerate(comparison.pairs, start=1)]
    yield "\n".join(f"- **{cell(whole_sentence(pair, other))}**" for other, pair in pairs)
    yield from checks_markdown(checks)
    if comparison.remarks:
        yield "\n".join(f"> **Not alike:** {cell(remark)}  " for remark in comparison.remarks)
    if told := list(told_remarks(comparison.pairs)):
        yield "\n".join(f"> **Note:** {cell(remark)}  " for remark in told)
    if comparison.advice:
        yield "### Advice"
        places = {one.id: letter(place) for place, one in enumerate(comparison.profiles)}
        yield "\n".join(
            f"- **{one.severity} on {places[one.profile_id]}**: {cell(one.sentence)}: {cell(one.remedy)}"
            for one in comparison.advice
        )
    sides = [letter(place) for place in range(len(comparison.profiles))]
    yield from folded(
        "What was compared", [table(["", *sides], [[one.name, *one.values] for one in summary(comparison.profiles)])]
    )
    for other, pair in pairs:
        yield f"### {other} against A"
        yield f"{cell(joined_sentence(pair, other))}. {cell(verdicts(pair))}; {cell(how_sure(pair))}."
        yield from folded(f"Types and layers, {other} against A", _tables(pair, other))


def _tables(pair: ProfilePair, other: str) -> Iterator[str]:
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


@dataclass(frozen=True)
class Contents:
    """The texts of the files that can be written of one comparison, each made when asked for, and its checks."""

    checks: tuple[Check, ...]
    html: Callable[[], str]
    markdown: Callable[[], str]
    junit: Callable[[], str]
