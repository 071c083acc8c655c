"""The same model and configuration over time: by engine, what changed from one to the next, and the alerts as rows."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from math import hypot

import plotly.graph_objects as go

from enginebench_controller.files.palette import EngineLook, EngineLooks
from enginebench_controller.records import Status
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.store.trends import TrendPoint
from enginebench_controller.verdicts.alerts import (
    Alert,
    Cause,
    Confirmation,
    HistoryAlerts,
    finding_words,
    history_words,
    origin_words,
)
from enginebench_controller.verdicts.words import factor_words
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, Statistic, Value, scaled
from enginebench_ui.pages.benchmark.shapes.lines import LEGEND, MARGINS
from enginebench_ui.pages.benchmark.shapes.naming import options_in_full, short_key, short_names, told_apart
from enginebench_ui.shared.charts import value_axis
from enginebench_ui.shared.text import UNKNOWN, Row, cells, drawn_text, in_percent, instant, shortened

CAUSES = {Cause.MACHINE: "the machine", Cause.CANDIDATE: "perhaps the engine", Cause.UNEXPLAINED: "unexplained"}


def alert_rows(found: Sequence[tuple[HistoryAlerts, Sequence[Confirmation | None]]]) -> tuple[Row, ...]:
    """A row a change, newest first."""
    every = [each for one, confirmations in found for each in zip(one.alerts, confirmations, strict=True)]
    newest_first = sorted(every, key=lambda each: each[0].after.at_unix_ns, reverse=True)
    return tuple(cells(_alert_row(*each)) for each in newest_first)


def _alert_row(alert: Alert, confirmation: Confirmation | None) -> Row:
    before, after = (one or UNKNOWN for one in alert.versions)
    said = confirmation.sentence if confirmation else ""
    return {
        "Since": instant(alert.after.at_unix_ns),
        "Benchmark": f"benchmark?id={alert.after.benchmark_id}",
        "History": history_words(alert.history),
        "Time": factor_words(alert.ratio),
        "Beside reference": None if alert.beside_reference is None else factor_words(alert.beside_reference),
        "Version": before if before == after else f"{before} → {after}",
        "Cause": CAUSES[alert.cause],
        "Found": finding_words(alert, confirmation) if confirmation else None,
        "Remarks": "; ".join(filter(None, (alert.sentence, said))),
    }


HEIGHT_PX = 420

_LONGEST_NAME = 40
_MOST_VERSIONS_NAMED = 12
_COMPARED: Mapping[str, Callable[[TrendPoint], str | None]] = {
    "effective precision": lambda point: point.effective_precision,
    "the number of threads": lambda point: str(point.effective_threads or "") or None,
    "the input set": lambda point: (point.input_set_sha256 or "")[:12] or None,
    "the processor": lambda point: point.cpu_model,
}
"""What two points that follow one another should share."""


@dataclass(frozen=True)
class Track:
    """The points of one engine in one environment with one set of options, oldest first; imported ones by processor.

    No two are called alike.
    """

    key: str
    name: str
    points: tuple[TrendPoint, ...]


@dataclass(frozen=True)
class TrendLens:
    """How a trend is looked at: which figure, by which latency, of which batch, seen from which benchmark."""

    figure: Quantity
    statistic: Statistic
    batch: int
    benchmark_id: str

    def value(self, point: TrendPoint, figure: Quantity | None = None) -> Value:
        """Return a figure of a point, the chosen one if none is named.

        Means have no interval here: that would take all samples of all benchmarks.
        """
        figure = figure or self.figure
        if figure is Quantity.ITEMS_PER_S:
            return Value(point.throughput_items_per_s, point.throughput_interval)
        by_median = self.statistic is Statistic.MEDIAN
        latency_ns = point.median_ns if by_median else point.mean_ns
        if latency_ns is None:
            return Value(None)
        factor = 1e-6 / (self.batch if figure is Quantity.TIME_PER_ITEM else 1)
        return Value(latency_ns * factor, scaled(point.median_interval, factor) if by_median else None)


def tracks(points: Sequence[TrendPoint], engines: Collection[str]) -> tuple[Track, ...]:
    """Part the points of some engines by engine, environment and options, in the order in which these first come.

    What was imported stands apart, by processor, as in histories.
    """
    parted: dict[str, list[TrendPoint]] = {}
    for point in points:
        if point.engine.name in engines:
            parted.setdefault(_track_key(point), []).append(point)
    options = short_names(options_in_full(own[0].options) for own in parted.values())
    names = told_apart({key: _track_name(own[0], options) for key, own in parted.items()})
    return tuple(Track(key, names[key], tuple(own)) for key, own in parted.items())


def trend_figure(shown: Sequence[Track], lens: TrendLens, engines: EngineLooks) -> go.Figure | None:
    """Draw a figure over time, a line a track; where a version changed its name stands. None without any value."""
    drawn = go.Figure()
    looks = engines.of_series((track.key, track.points[0].engine.name) for track in shown)
    values = [lens.value(point).value for track in shown for point in track.points]
    zone = _one_zone(shown)
    for track in shown:
        if any(lens.value(point).value is not None for point in track.points):
            drawn.add_trace(_line(track, looks[track.key], lens, zone))
    if not drawn.data:
        return None
    drawn.update_xaxes(title=drawn_text(f"time ({zone.tzname(None)})"))
    drawn.update_yaxes(**value_axis(UNITS[lens.figure], values))
    return drawn.update_layout(height=HEIGHT_PX, margin=MARGINS, legend=LEGEND, showlegend=True)


def trend_rows(shown: Sequence[Track], lens: TrendLens) -> tuple[Row, ...]:
    """Return a row a point, newest first, with the change from the point before it on its track."""
    found = [row for track in shown for row in _rows(track, lens)]
    return tuple(cells(row) for _, row in sorted(found, key=lambda one: one[0], reverse=True))


def unlike_hosts(shown: Sequence[Track]) -> str | None:
    """Say it where not all points come from the same kind of processor: a name is not a machine."""
    models = dict.fromkeys(point.cpu_model or "unknown" for track in shown for point in track.points)
    if len(models) < 2:
        return None
    return f"the processors differ: {', '.join(shortened(model, 60) for model in models)}"


def change(before: Value, after: Value) -> str | None:
    """What a value became of the one before, as a factor; None where either is unknown."""
    return None if not before.value or after.value is None else factor_words(after.value / before.value)


def difference(before: Value, after: Value) -> str | None:
    """Say whether a change is more than both intervals explain; None where there is none.

    Of independent errors the squares add up: intervals may overlap where `compare`, which has the processes, tells two
    apart.
    """
    if not before.value or after.value is None:
        return None
    if before.interval is None or after.interval is None:
        return "unknown: no interval"
    if before.value < after.value:
        between = before.interval.high - before.value, after.value - after.interval.low
    else:
        between = before.value - before.interval.low, after.interval.high - after.value
    return "beyond noise" if abs(after.value - before.value) > hypot(*between) else "not told apart"


def _track_key(point: TrendPoint) -> str:
    environment = point.engine.environment or DEFAULT_ENVIRONMENT
    return short_key((point.engine.name, environment, sorted(point.options.items()), origin_words(point)))


def _track_name(point: TrendPoint, options: Mapping[str, str]) -> str:
    environment = "" if point.engine.environment in ("", DEFAULT_ENVIRONMENT) else f" ({point.engine.environment})"
    engine = f"{point.engine.name}{environment}"
    return " · ".join(filter(None, (engine, options[options_in_full(point.options)], origin_words(point))))


def _one_zone(shown: Sequence[Track]) -> timezone:
    """This machine's time as it was at the newest point, for all of them: Plotly drops offsets, and 03:00 CEST is 02:00
    CET, so that a line with both would run backwards in autumn.
    """
    newest_ns = max((point.at_unix_ns for track in shown for point in track.points), default=0)
    then = datetime.fromtimestamp(newest_ns / 1e9, UTC).astimezone()
    return timezone(then.utcoffset() or timedelta(), then.tzname() or "")


def _line(track: Track, look: EngineLook, lens: TrendLens, zone: timezone) -> go.Scatter:
    values = [lens.value(point) for point in track.points]
    return go.Scatter(
        x=[datetime.fromtimestamp(point.at_unix_ns / 1e9, zone) for point in track.points],
        y=[value.value for value in values],
        error_y={
            "type": "data",
            "array": [_reach(value.high, value.value) for value in values],
            "arrayminus": [_reach(value.value, value.low) for value in values],
            "thickness": 1,
            "width": 3,
        },
        text=_versions(track),
        textposition="top center",
        name=drawn_text(track.name),
        mode="lines+markers+text",
        connectgaps=False,
        line={"color": look.colour, "width": 1.5},
        marker={
            "symbol": look.symbol,
            "color": look.colour,
            "size": [13 if point.benchmark_id == lens.benchmark_id else 7 for point in track.points],
        },
        customdata=[[_hover_name(point), drawn_text(point.engine.version or "unknown")] for point in track.points],
        hovertemplate=(
            f"%{{x|%Y-%m-%d %H:%M}} {drawn_text(zone.tzname(None))}: %{{y:,.4~r}} {UNITS[lens.figure]}<br>"
            "version %{customdata[1]}<br>%{customdata[0]}<extra>%{fullData.name}</extra>"
        ),
    )


def _hover_name(point: TrendPoint) -> str:
    return drawn_text(shortened(point.benchmark_name or point.benchmark_id, _LONGEST_NAME))


def _reach(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else max(0.0, high - low)


def _versions(track: Track) -> list[str]:
    """The version where it is another one than before; of very many changes none, they would cover one another.

    Not the first one: engines measured side by side begin at one place, where their names would cover one another.
    """
    named, last = [], None
    for point in track.points:
        version = point.engine.version
        is_new = None not in (version, last) and version != last
        named.append(drawn_text(version or "") if is_new else "")
        last = version or last
    return named if len(list(filter(None, named))) <= _MOST_VERSIONS_NAMED else [""] * len(named)


def _rows(track: Track, lens: TrendLens) -> Iterator[tuple[int, Row]]:
    before: TrendPoint | None = None
    for point in track.points:
        yield point.at_unix_ns, _row(track, point, before, lens)
        before = point if point.status.has_numbers else before


def _row(track: Track, point: TrendPoint, before: TrendPoint | None, lens: TrendLens) -> Row:
    values = {one: lens.value(point, one) for one in Quantity}
    earlier = Value(None) if before is None else lens.value(before)
    return {
        "When": instant(point.at_unix_ns),
        "Benchmark": f"benchmark?id={point.benchmark_id}",
        "Name": shortened(point.benchmark_name, _LONGEST_NAME),
        "Engine": track.name,
        "Version": point.engine.version,
        **({"ms/item": values[Quantity.TIME_PER_ITEM].value} if lens.batch > 1 else {}),
        "ms/batch": values[Quantity.TIME_PER_BATCH].value,
        "± (%)": in_percent(values[Quantity.TIME_PER_BATCH].half_width),
        "items/s": values[Quantity.ITEMS_PER_S].value,
        "items/s ± (%)": in_percent(values[Quantity.ITEMS_PER_S].half_width),
        "Change": change(earlier, values[lens.figure]),
        "Difference": difference(earlier, values[lens.figure]),
        "Status": point.status.value,
        "Remarks": "; ".join(_remarks(point, before, lens.benchmark_id)) or None,
    }


def _remarks(point: TrendPoint, before: TrendPoint | None, benchmark_id: str) -> Iterator[str]:
    if point.benchmark_id == benchmark_id:
        yield "this benchmark"
    if point.status is Status.FAILED and point.failure_kind:
        yield point.failure_kind.replace("_", " ")
    if before is None or not point.status.has_numbers:
        return
    for what, read in _COMPARED.items():
        if read(point) != read(before):
            yield f"{what} differs: {read(before) or 'unknown'} before, {read(point) or 'unknown'} now"
