"""A recommendation shaped: the form as a command, the points as rows with what became of each, the front drawn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from enginebench_controller.errors import InputError
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.files.verdicts.recommendations import FATES, in_order
from enginebench_controller.plan.recommend import Goal, LatencyLimit, limit_words, make_order, parse_axes
from enginebench_controller.records import LOCAL_TARGET, Search
from enginebench_controller.verdicts.recommend.answer import GainOverDefault, Recommendation
from enginebench_controller.verdicts.recommend.candidates import LimitShare
from enginebench_controller.verdicts.recommend.search import Fate
from enginebench_controller.verdicts.recommend.tried import Bounds, TriedPoint
from enginebench_ui.shared.charts import NOISE, WORSE, margins, value_axis
from enginebench_ui.shared.order_fields import listed, positional, shapes
from enginebench_ui.shared.text import Row, cells, drawn_text, number

GOALS: Mapping[Goal, str] = {
    Goal.THROUGHPUT: "Most items a second",
    Goal.LATENCY: "Least latency",
    Goal.MEMORY: "Least memory",
    Goal.RATE: "Most requests a second",
}
"""How each goal is called."""


@dataclass(frozen=True)
class RecommendForm:
    """What the form holds, as it was typed; the names are those of the order. `among` is "batch=1,4; cores=2".

    `shape` is "ids=1x128, mask=1x128".
    """

    models: tuple[str, ...] = ()
    max_latency: str = ""
    goal: Goal = Goal.THROUGHPUT
    budget: str = ""
    target: str = LOCAL_TARGET
    engines: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    shape: str = ""
    max_memory: str = ""
    leave_cores: int = 0
    among: str = ""
    versions: bool = False


def refusals(wish: RecommendForm) -> dict[str, str]:
    """Return what is wrong with each field, in the words of the command, by the field's name."""
    typed = {"max_latency": wish.max_latency, "budget": wish.budget, "max_memory": wish.max_memory}
    found = {}
    for name, text in typed.items():
        if text.strip():
            try:
                make_order({"models": ("any",), name: text.strip()})
            except InputError as error:
                found[name] = str(error)
    if wish.goal is Goal.RATE and not wish.max_latency.strip():
        try:
            make_order({"models": ("any",), "goal": wish.goal})
        except InputError as error:
            found["max_latency"] = str(error)
    for name, check in (("among", lambda: parse_axes((), _axes(wish.among))), ("shape", lambda: shapes(wish.shape))):
        try:
            check()
        except InputError as error:
            found[name] = str(error)
    return found


def arguments(wish: RecommendForm) -> tuple[str, ...]:
    """Return the words behind `enginebench` that ask for what the form holds."""
    word = "maximize" if wish.goal is Goal.RATE else "minimize"
    goal = () if wish.goal is Goal.THROUGHPUT else (f"--{word}={wish.goal}",)
    return ("recommend", *_options(wish), *goal, *positional(wish.models))


def _options(wish: RecommendForm) -> Iterator[str]:
    """With a `=`, for a value may begin like an option."""
    said = {
        "max-latency": wish.max_latency.strip(),
        "max-memory": wish.max_memory.strip(),
        "budget": wish.budget.strip(),
        "target": "" if wish.target == LOCAL_TARGET else wish.target,
        "engine": ",".join(wish.engines),
        "device": ",".join(wish.devices),
        "leave-cores": wish.leave_cores,
    }
    yield from (f"--{name}={value}" for name, value in said.items() if value)
    yield from (f"--shape={one}" for one in listed(wish.shape))
    yield from (f"--among={one}" for one in _axes(wish.among))
    yield from ["--versions"] if wish.versions else []


def _axes(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("\n", ";").split(";") if part.strip())


def asked_words(search: Search) -> str:
    """Return what was asked for in a few words, for a list: "p95 < 20 ms", "least latency"."""
    try:
        order = make_order(search.order)
    except InputError:  # of a later version, which has more to ask for
        return ""
    goal = "" if order.goal is Goal.THROUGHPUT else GOALS[order.goal].lower()
    return ", ".join(filter(None, (goal, *limit_words(order))))


def gain_rows(found: Recommendation) -> tuple[Row, ...]:
    """Return a row an engine: so many times as good as its default is what is recommended."""
    return tuple(
        cells({"Engine": one.engine, "Against its default": _gain(one.ratio), "Known by": _known_by(one)})
        for one in found.gains
    )


def _gain(ratio: Bounds | None) -> str | None:
    return None if ratio is None else f"{ratio[0]:.2f}× as good ({_ends(ratio)})"


def _known_by(one: GainOverDefault) -> str:
    if one.measured:
        return "measuring it"
    return "its likes" if one.ratio is not None else "nothing: it was refused"


def tried_rows(found: Recommendation, limit: LatencyLimit | None) -> tuple[Row, ...]:
    """Return a row a point, the best first, with why each is not the one."""
    return tuple(
        cells(
            {
                "Configuration": found.words_of(one),
                "Found": FATES[one.fate],
                "Items/s": one.throughput_items_per_s,
                latency_heading(limit): _latency_ms(one),
                "Why": why(found, one),
                "Peak memory (MB)": None if one.peak_rss_bytes is None else one.peak_rss_bytes / 1e6,
                "On the front": "yes" if one.on_front else None,
                "Default of its engine": "yes" if one.is_default else None,
                "Processes": one.processes,
            }
        )
        for one in in_order(found)
    )


def latency_heading(limit: LatencyLimit | None) -> str:
    """Name the column of what is limited, or of the median where nothing is."""
    return f"{_percentile(limit)} (ms)"


def why(found: Recommendation, one: TriedPoint) -> str | None:
    """Say what speaks against a point, with its interval; None of the best."""
    if one.fate is Fate.REFUSED:
        return one.why or "nobody said why"
    never = "" if one.processes else "never run; by its likes "
    if one.fate in (Fate.BREAKS_LIMIT, Fate.LIMIT_NOT_TOLD, Fate.NEAREST, Fate.BEST_IF_HELD):
        shares = (
            f"{100 * share[0]:.0f} % of {limit} ({_ends(share, 100)})"
            for limit, share in zip(found.limits, one.limit_share, strict=False)
        )
        return never + ", ".join(shares) or None
    if one.fate is Fate.BEST or one.ratio is None:
        return None
    return f"{never}the {found.best_words} is {one.ratio[0]:.2f}× as good ({_ends(one.ratio)})"


_LARGEST = 100
"""What lies further from 1 than by this factor is told as that: nothing is known of it but the direction."""


def _ends(bounds: LimitShare, scale: int = 1) -> str:
    _, low, high = bounds
    far = f"over {scale * _LARGEST}"
    end = far if high is None or high >= _LARGEST else f"{scale * high:.{2 if scale == 1 else 0}f}"
    return f"{scale * low:.{2 if scale == 1 else 0}f} to {end}"


HEIGHT_PX = 430
_BEYOND = 1.08
_FAINT = 0.5


def front_figure(found: Recommendation, limit: LatencyLimit | None, engines: EngineLooks) -> go.Figure | None:
    """Draw what was measured by latency and throughput, the front, and the limit; None where nothing was measured.

    The points of an engine have its colour and its marker; those on the front are large, and the best has a ring.
    """
    measured = _measured(found)
    if not measured:
        return None
    names = list(dict.fromkeys(one.engine for one in measured))
    figure = go.Figure([_front(measured)])
    for name in names:
        figure.add_trace(_points(name, found, engines, limit))
    if (best := found.best_point) in measured and best is not None:
        figure.add_trace(_ring(best, found.best_words))
    rates = [_rate(one) for one in measured]
    latencies = [_latency_ms(one) or 0.0 for one in measured]
    limits = [] if limit is None else [limit.limit_ns / 1e6]
    if limit is not None:
        figure.add_trace(_limit_line(limit, rates))
    figure.update_xaxes(**value_axis(f"{_percentile(limit)} latency in ms (less is better)", [*latencies, *limits]))
    figure.update_yaxes(**value_axis("Items a second (more is better)", rates))
    legend = {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0}
    return figure.update_layout(height=HEIGHT_PX, margin=margins(20, legend_rows=3), legend=legend)


def alternative(found: Recommendation, limit: LatencyLimit | None) -> str:
    """Say what the chart shows, for those who do not see it."""
    front = sorted((one for one in _measured(found) if one.on_front), key=lambda one: _latency_ms(one) or 0.0)
    told = (f"{found.words_of(one)}: {number(_latency_ms(one))} ms, {number(_rate(one))} items/s" for one in front)
    bound = "" if limit is None else f" The limit is {limit}."
    return f"{_percentile(limit)} latency and throughput; on the front lie {'; '.join(told)}.{bound}"


def _measured(found: Recommendation) -> list[TriedPoint]:
    return [one for one in found.tried if one.median_ns is not None and one.throughput_items_per_s is not None]


def _front(measured: Sequence[TriedPoint]) -> go.Scatter:
    points = sorted((one for one in measured if one.on_front), key=lambda one: _latency_ms(one) or 0.0)
    return go.Scatter(
        x=[_latency_ms(one) for one in points],
        y=[_rate(one) for one in points],
        mode="lines",
        name="front: nothing is faster and does more",
        line={"color": NOISE, "width": 2},
        hoverinfo="skip",
    )


def _points(engine: str, found: Recommendation, engines: EngineLooks, limit: LatencyLimit | None) -> go.Scatter:
    look, points = engines.of(engine), [one for one in _measured(found) if one.engine == engine]
    marker: dict[str, Any] = {
        "color": look.colour,
        "symbol": look.symbol,
        "size": [12 if one.on_front else 8 for one in points],
        "opacity": [1.0 if one.on_front else _FAINT for one in points],
    }
    return go.Scatter(
        x=[_latency_ms(one) for one in points],
        y=[_rate(one) for one in points],
        mode="markers",
        name=drawn_text(engine),
        marker=marker,
        customdata=[[drawn_text(found.words_of(one)), FATES[one.fate]] for one in points],
        hovertemplate=(
            f"%{{customdata[0]}}<br>{_percentile(limit)} %{{x:,.4~r}} ms, %{{y:,.4~r}} items/s<br>%{{customdata[1]}}"
            "<extra></extra>"
        ),
    )


def _ring(best: TriedPoint, word: str) -> go.Scatter:
    return go.Scatter(
        x=[_latency_ms(best)],
        y=[_rate(best)],
        mode="markers+text",
        name=f"the {word}",
        text=[word],
        textposition="top center",
        marker={"symbol": "circle-open", "size": 22, "color": NOISE, "line": {"width": 3}},
        hoverinfo="skip",
    )


def _limit_line(limit: LatencyLimit, rates: Sequence[float]) -> go.Scatter:
    """As points, since what is drawn as a shape is in logarithms, or not, as its axis is."""
    place = limit.limit_ns / 1e6
    return go.Scatter(
        x=[place, place],
        y=[min(rates) / _BEYOND, max(rates) * _BEYOND],
        mode="lines",
        name=f"limit: {drawn_text(str(limit))}",
        line={"color": WORSE, "width": 2, "dash": "dash"},
        hoverinfo="skip",
    )


def _percentile(limit: LatencyLimit | None) -> str:
    return "Median" if limit is None or limit.percent == 50 else f"p{limit.percent:g}"


def _latency_ms(one: TriedPoint) -> float | None:
    found = one.limited_ns or one.median_ns
    return None if found is None else found / 1e6


def _rate(one: TriedPoint) -> float:
    return one.throughput_items_per_s or 0.0
