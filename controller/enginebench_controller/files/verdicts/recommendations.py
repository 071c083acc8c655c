"""A recommendation as a JSON document, as Markdown, HTML, a plan file, and as a chart of what latency brings."""

import base64
from collections.abc import Iterator
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import DocumentForm, NamedForm, with_fields_of
from enginebench_controller.files.ladders import check_chart_path
from enginebench_controller.files.new_file import new_file
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.files.report_forms import cell, folded, render, table
from enginebench_controller.plan.plan import make_plan, plan_toml
from enginebench_controller.plan.recommend import make_order
from enginebench_controller.records import Search
from enginebench_controller.verdicts.recommend.answer import (
    GainOverDefault,
    OneForAll,
    Recommendation,
    Recommendations,
    answer_document,
    command_label,
    is_recommended,
)
from enginebench_controller.verdicts.recommend.search import Fate
from enginebench_controller.verdicts.recommend.steps import share_words
from enginebench_controller.verdicts.recommend.tried import TriedPoint
from enginebench_controller.verdicts.words import UNKNOWN, rate

FATES = {
    Fate.BEST: "the best",
    Fate.BEST_IF_HELD: "the best, may break the limit",
    Fate.NEAREST: "nearest, breaks the limit",
    Fate.RUNNER_UP: "the next best",
    Fate.NOT_TOLD_APART: "not told apart from the best",
    Fate.LIMIT_NOT_TOLD: "may hold the limits or not",
    Fate.BEATEN: "beaten",
    Fate.BREAKS_LIMIT: "breaks a limit",
    Fate.REFUSED: "cannot be had",
    Fate.NOT_TRIED: "never run",
}
_MEDIAN = 50
_SHAPES = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "cross": "P", "pentagon": "p"}
"""Matplotlib's markers for the palette's."""


def recommendation_answer(search: Search, found: Recommendation | Recommendations) -> Document:
    """The answer with what was asked for, as JSON-able data."""
    return {
        **head("recommendation" if isinstance(found, Recommendation) else "recommendations"),
        "search": {"id": search.id, "name": search.name},
        "order": dict(search.order),
        **answer_document(found),
    }


def recommendation_toml(found: Recommendation | Recommendations) -> str | None:
    """The plan of what is recommended, as `enginebench run` takes it; None where nothing is. Of several targets it is
    that of the one configuration for all.
    """
    chosen = found if isinstance(found, Recommendation) else found.for_all
    plan = chosen.plan if is_recommended(chosen.outcome) else None  # older answers have one of the nearest
    return None if plan is None else plan_toml(make_plan(plan, "the recommended plan"))


def recommendation_markdown(search: Search, found: Recommendation | Recommendations) -> str:
    """The answer first, the command that repeats it, what it gains, and folded what was tried; of several targets the
    configuration for all first, then each.
    """
    heading = f"## enginebench recommend: {cell(search.name)}"
    if isinstance(found, Recommendation):
        return "\n\n".join([heading, *_parts(search, found)]) + "\n"
    parts = [heading, f"**{cell(found.sentence)}**"]
    parts += _command(found.for_all)
    if found.for_all.ratios:
        rows = [[target, times_words(ratio)] for target, ratio in found.for_all.ratios.items()]
        parts.append(table(("target", "its own best is so many times as good"), rows, numbers=(1,)))
    for one in found.targets:
        parts += [f"### {cell(one.target)}", *_parts(search, one)]
    return "\n\n".join(parts) + "\n"


def _command(found: Recommendation | OneForAll) -> list[str]:
    """The command that measures it again, in which a label says so where that is not recommended."""
    label = command_label(found.outcome)
    return [] if found.command is None else [*([label] if label else []), f"```\n{found.command}\n```"]


def _parts(search: Search, found: Recommendation) -> list[str]:
    """The paragraphs of one target."""
    parts = [f"**{cell(found.sentence)}**"]
    parts += _command(found)
    if found.remarks:
        parts.append("\n".join(f"- {cell(one)}" for one in found.remarks))
    if found.gains:
        parts.append(table(GAINS, _gain_rows(found), numbers=(1,)))
    front = sorted((one for one in found.tried if one.on_front), key=lambda one: one.limited_ns or one.median_ns or 0.0)
    latency = _latency_heading(search)
    if front:
        parts.append("What is the fastest for so much throughput:")
        parts.append(
            table(("configuration", latency, "items/s"), [list(_front_row(found, one)) for one in front], (1, 2))
        )
    rows = [list(tried_row(found, one)) for one in in_order(found)]
    parts += folded(
        f"All {len(found.tried)} points", [table(_tried_headings(search, found), rows, numbers=(1, 2, 3, 4, 6))]
    )
    parts.append(cell(sought_words(found)))
    return parts


def sought_words(found: Recommendation) -> str:
    """What was sought, where, and how long it took, in a sentence."""
    goal = {
        "throughput": "the most items a second",
        "latency": "the least latency",
        "memory": "the least memory",
        "rate": "the most requests a second",
    }
    limits = f" with {' and '.join(found.limits)}" if found.limits else ""
    return (
        f"Sought was {goal[found.goal]}{limits} on {found.target}: {found.rounds} rounds of processes in "
        f"{len(found.steps)} steps, {found.seconds:.0f} s; processes differed by {found.noise:.1%}."
    )


def recommendation_html(search: Search, found: Recommendation) -> str:
    """One page that needs no net: the answer, the command, what it gains, the front, and what was tried."""
    return render(
        "recommendation.html.j2",
        title=f"Recommended for {search.name}",
        found=found,
        gains=_gain_rows(found),
        gain_headings=GAINS,
        picture=base64.b64encode(_front_svg(found, dict(search.order))).decode("ascii"),
        label=command_label(found.outcome),
        headings=_tried_headings(search, found),
        rows=[list(tried_row(found, one)) for one in in_order(found)],
        sought=sought_words(found),
    )


GAINS = ("default of", "the best is so many times as good", "")
"""The headings over what the best gains."""


def _gain_rows(found: Recommendation) -> list[list[str]]:
    return [[one.engine, times_words(one.ratio), known_words(one)] for one in found.gains]


def _latency_heading(search: Search) -> str:
    limit = make_order(search.order).latency_limit
    return "median ms" if limit is None or limit.percent == _MEDIAN else f"p{limit.percent:g} ms"


def _tried_headings(search: Search, found: Recommendation) -> tuple[str, ...]:
    """The headings over `tried_row`."""
    figures = ("items/s", _latency_heading(search), "peak MB", f"× as good is the {found.best_words}")
    return ("configuration", *figures, "processes", "outputs differ", "")


def tried_row(found: Recommendation, one: TriedPoint) -> Iterator[str]:
    """What is known of a point, and what became of it."""
    yield found.words_of(one)
    yield rate(one.throughput_items_per_s)
    yield _milliseconds(one)
    yield UNKNOWN if one.peak_rss_bytes is None else f"{one.peak_rss_bytes / 1e6:.0f}"
    yield times_words(one.ratio)
    yield str(one.processes)
    yield difference_words(one)
    yield FATES[one.fate] + (f": {one.why}" if one.why else "")


def difference_words(one: TriedPoint) -> str:
    """How far its outputs are from those of the model as given."""
    return UNKNOWN if one.output_difference is None else share_words(one.output_difference)


def in_order(found: Recommendation) -> list[TriedPoint]:
    """The points, the best first; those that never ran last."""
    ranks = {fate: rank for rank, fate in enumerate(FATES)}
    unknown = (inf, inf, inf)
    return sorted(found.tried, key=lambda one: (not one.processes, ranks[one.fate], one.ratio or unknown))


def times_words(ratio: tuple[float, float, float] | None) -> str:
    """A ratio with its interval."""
    return UNKNOWN if ratio is None else f"{ratio[0]:.2f} ({ratio[1]:.2f}–{ratio[2]:.2f})"


def known_words(gain: GainOverDefault) -> str:
    """How it is known, where the default was not measured; or that it cannot be known."""
    if gain.measured:
        return ""
    return "it was refused" if gain.ratio is None else "by what its likes took"


def write_front(found: Recommendation, order: Document, path: Path, *, force: bool) -> None:
    """Draw what was measured by latency and throughput, with the front and the limit. Raises `InputError`."""
    check_chart_path(path, force=force)
    with new_file(path, force=force) as partial:
        _save_front(found, order, partial, path.suffix[1:])


def _front_svg(found: Recommendation, order: Document) -> bytes:
    drawn = BytesIO()
    _save_front(found, order, drawn, "svg")
    return drawn.getvalue()


def _save_front(found: Recommendation, order: Document, place: Path | BytesIO, kind: str) -> None:
    from matplotlib import rc_context  # noqa: PLC0415  # takes half a second, and only a chart needs it
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    axes: Any = figure.add_subplot()
    looks = EngineLooks()
    measured = [one for one in found.tried if one.median_ns is not None and one.throughput_items_per_s is not None]
    for engine in dict.fromkeys(one.engine for one in measured):
        look, own = looks.of(engine), [one for one in measured if one.engine == engine]
        marker = _SHAPES.get(look.symbol, "*")
        places = [_latency_ms(one) for one in own], [one.throughput_items_per_s for one in own]
        axes.scatter(*places, color=look.colour, marker=marker, label=engine, s=28, alpha=0.8)
    front = sorted((one for one in measured if one.on_front), key=_latency_ms)
    axes.plot([_latency_ms(one) for one in front], [one.throughput_items_per_s for one in front], color="#8a8a8a", lw=1)
    if (best := found.best_point) is not None and best in measured:
        axes.scatter([_latency_ms(best)], [best.throughput_items_per_s], s=160, facecolors="none", edgecolors="black")
    limit = make_order(order).latency_limit
    if limit is not None:
        axes.axvline(limit.limit_ns / 1e6, color="#AD215F", linestyle="--", lw=1)
        axes.annotate(f" {limit}", (limit.limit_ns / 1e6, 1), xycoords=("data", "axes fraction"), va="top", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlabel(f"{'median' if limit is None else f'p{limit.percent:g}'} of latency in ms (left is better)")
    axes.set_ylabel("items a second (up is better)")
    axes.spines[["top", "right"]].set_visible(False)
    if measured:
        axes.legend(frameon=False, fontsize=9)
    axes.set_title(found.sentence[:110], loc="left", fontsize=9, parse_math=False)
    with rc_context({"svg.fonttype": "none"}):  # words stay words
        figure.savefig(place, format=kind, dpi=150)


def _front_row(found: Recommendation, one: TriedPoint) -> Iterator[str]:
    yield found.words_of(one)
    yield _milliseconds(one)
    yield rate(one.throughput_items_per_s)


def _latency_ms(one: TriedPoint) -> float:
    return (one.limited_ns or one.median_ns or 0.0) / 1e6


def _milliseconds(one: TriedPoint) -> str:
    return UNKNOWN if one.median_ns is None else f"{_latency_ms(one):.2f}"


@with_fields_of(Recommendation)
class RecommendationDocument(DocumentForm):
    """What is recommended, why, and what was tried."""

    document = "recommendation"

    kind: str
    search: NamedForm
    order: dict[str, Any]


@with_fields_of(Recommendations)
class RecommendationsDocument(DocumentForm):
    """What is recommended for several targets, each on its own and all together."""

    document = "recommendations"

    kind: str
    search: NamedForm
    order: dict[str, Any]
