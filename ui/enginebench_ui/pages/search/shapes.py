"""An answer as a table and as a chart, and questions that people ask, with the chart that answers them best.

A question about how fast something is asks for `status = 'ok'`: inconclusive rows have numbers that are less sure than
was asked for, and the best of several would often be the least sure one. What is drawn together is of the same work, or
a share of an own whole: engines are seldom measured equally often.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_integer_dtype, is_numeric_dtype

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.store.sql_query import QueryResult
from enginebench_ui.shared.charts import NOISE, SERIES, margins
from enginebench_ui.shared.text import cells, count_of, drawn_text, shortened

_EXACT_IN_BROWSER = 2**53
"""Numbers above are not exact in JavaScript: identifiers and instants in nanoseconds would change."""

_INSTANTS = ("TIMESTAMP", "DATE")


def answer_frame(result: QueryResult) -> pd.DataFrame:
    """Return the answer as a table; lists, structures and numbers too large for a browser are text there."""
    names = column_names(result)
    columns = zip(*result.rows, strict=True) if result.rows else [()] * len(names)
    kinds = [column.type for column in result.columns]
    return pd.DataFrame({name: _series(values, kind) for name, values, kind in zip(names, columns, kinds, strict=True)})


def column_names(result: QueryResult) -> tuple[str, ...]:
    """Return the names of the columns; of equal ones, all but the first with a number."""
    names: list[str] = []
    for column in result.columns:
        name, number = column.name, 1
        while name in names:
            number += 1
            name = f"{column.name} ({number})"
        names.append(name)
    return tuple(names)


def caption(result: QueryResult) -> str:
    """Say how much was found and how long it took."""
    return f"{count_of(len(result.rows), 'row')} in {result.duration_s * 1e3:,.0f} ms"


def _series(values: Sequence[Any], kind: str) -> "pd.Series[Any]":
    if kind.startswith(_INSTANTS) and not kind.endswith("]"):  # DATE[] and DATE[3] are lists
        # An instant that pandas cannot hold, such as infinity, becomes NaT, which shows as unknown.
        return pd.Series(pd.to_datetime(list(values), errors="coerce", format="ISO8601"))
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pd.Series(values, dtype="boolean")
    if known and all(_is_exact_number(value) for value in known):
        whole = all(isinstance(value, int) for value in known)
        return pd.Series(values, dtype="Int64" if whole else "Float64")
    return pd.Series([_text(value) for value in values], dtype="string")


def _is_exact_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= _EXACT_IN_BROWSER


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    safe: str = cells({"": text})[""]
    return safe


MOST_POINTS = 5_000
MOST_COLOURS = len(SERIES)
ENGINE = "engine"
"""The column whose values have colours of their own."""
HEIGHT_PX = 460
OTHERS = "others"
UNKNOWN = "unknown"
_LONGEST_LABEL = 40


class ChartKind(StrEnum):
    """How the rows are drawn."""

    BARS = "bars"
    LINES = "lines"
    POINTS = "points"


@dataclass(frozen=True)
class Axes:
    """Which columns are drawn, and how; `colour` None draws all in one."""

    kind: ChartKind
    x: str
    y: str
    colour: str | None = None


def number_columns(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that hold numbers."""
    return tuple(name for name in frame.columns if _is_number(frame[name]))


def default_axes(frame: pd.DataFrame) -> Axes | None:
    """Return what is worth a first look: texts along, and up what was measured rather than what it is grouped by.

    None without any number to draw.
    """
    numbers = number_columns(frame)
    if frame.empty or not numbers:
        return None
    texts = [name for name in frame.columns if name not in numbers]
    x = (texts or list(numbers))[0]
    y = _first([name for name in numbers if not is_integer_dtype(frame[name])], x) or _first(numbers, x) or numbers[0]
    groups = [name for name in frame.columns if name not in (x, y) and (name in texts or is_integer_dtype(frame[name]))]
    colour = next((name for name in groups if frame[name].nunique() <= MOST_COLOURS), None) if texts else None
    by = [name for name in (x, colour) if name]
    kind = ChartKind.BARS if texts and not frame.duplicated(by).any() else ChartKind.POINTS
    return Axes(kind, x, y, colour)


def _first(names: Sequence[str], other: str) -> str | None:
    return next((name for name in names if name != other), None)


def answer_figure(frame: pd.DataFrame, axes: Axes, engines: EngineLooks) -> go.Figure:
    """Draw the first `MOST_POINTS` rows that have a number to draw."""
    rows = frame[frame[axes.y].notna() & frame[axes.x].notna()].head(MOST_POINTS)
    figure, labels = go.Figure(), _labels(map(str, rows[axes.x]))
    for name, colour, series in _coloured(rows, axes.colour, engines):
        figure.add_trace(_trace(series, axes, name, colour, labels))
    figure.update_xaxes(title=_label(axes.x), type=_axis(frame[axes.x]), automargin=True)
    if _axis(frame[axes.x]) == "category":  # as Plotly would list all places of the first colour before the others'
        figure.update_xaxes(categoryorder="array", categoryarray=list(labels.values()))
    figure.update_yaxes(title=_label(axes.y), rangemode="tozero" if axes.kind is ChartKind.BARS else "normal")
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "title": _label(axes.colour or "")}
    margin = margins(40)
    return figure.update_layout(
        height=HEIGHT_PX, barmode="group", margin=margin, legend=legend, showlegend=axes.colour is not None
    )


def remarks(frame: pd.DataFrame, axes: Axes) -> tuple[str, ...]:
    """Say what the chart does not show as one would expect."""
    drawn = frame[frame[axes.y].notna() & frame[axes.x].notna()]
    left_out = len(frame) - len(drawn)
    by = [name for name in (axes.x, axes.colour) if name]
    overlaid = axes.kind is ChartKind.BARS and bool(drawn.duplicated(by).any())
    many = axes.colour is not None and frame[axes.colour].nunique(dropna=False) > MOST_COLOURS
    return tuple(
        sentence
        for holds, sentence in (
            (len(drawn) > MOST_POINTS, f"The first {MOST_POINTS:,} rows are drawn."),
            (left_out > 0, f"{left_out:,} rows without a value on an axis are not drawn."),
            (overlaid, "Several rows share a place, and their bars lie over each other: use GROUP BY, or points."),
            (many, f"There are more colours than can be told apart: the rarest are “{OTHERS}”."),
        )
        if holds
    )


def _is_number(values: "pd.Series[Any]") -> bool:
    return is_numeric_dtype(values) and not is_bool_dtype(values)


def _axis(values: "pd.Series[Any]") -> str:
    if is_datetime64_any_dtype(values):
        return "date"
    return "linear" if _is_number(values) else "category"


def _coloured(rows: pd.DataFrame, colour: str | None, engines: EngineLooks) -> list[tuple[str, str, pd.DataFrame]]:
    """Name, colour and rows of each series; beyond the colours there are, the rarest share one."""
    if colour is None:
        return [("", SERIES[0], rows)]
    names = rows[colour].astype("string").fillna(UNKNOWN)
    frequent = list(names.value_counts().index)
    if len(frequent) > MOST_COLOURS:
        names = names.where(names.isin(frequent[: MOST_COLOURS - 1]), OTHERS)
    ordered = list(dict.fromkeys(names))
    plain = [engines.of(name).colour if colour == ENGINE else SERIES[place] for place, name in enumerate(ordered)]
    colours = {name: NOISE if name == OTHERS else own for name, own in zip(ordered, plain, strict=True)}
    return [(name, colours[name], rows[names == name]) for name in ordered]


def _trace(rows: pd.DataFrame, axes: Axes, name: str, colour: str, labels: Mapping[str, str]) -> go.Bar | go.Scatter:
    as_text = _axis(rows[axes.x]) == "category"
    x = [labels[str(value)] for value in rows[axes.x]] if as_text else rows[axes.x]
    # Plotly reads a few HTML tags in every text; values come from elsewhere.
    shared: dict[str, Any] = {"x": list(x), "y": list(rows[axes.y]), "name": _label(name), "marker": {"color": colour}}
    if axes.kind is ChartKind.BARS:
        return go.Bar(**shared)
    return go.Scatter(**shared, mode="lines+markers" if axes.kind is ChartKind.LINES else "markers")


def _labels(texts: Iterable[str]) -> Mapping[str, str]:
    """A label for each text; those of texts that differ do, too: what has one name in a chart has one place."""
    numbers: Counter[str] = Counter()
    found = {}
    for text in dict.fromkeys(texts):
        label = _label(text)
        numbers[label] += 1
        found[text] = label if numbers[label] == 1 else f"{label} ({numbers[label]})"
    return found


def _label(text: str) -> str:
    return drawn_text(shortened(text, _LONGEST_LABEL))


@dataclass(frozen=True)
class Example:
    """A question with its SQL; `kind` None shows the answer as a table, else as this chart of these columns."""

    question: str
    sql: str
    kind: ChartKind | None = None
    x: str | None = None
    y: str | None = None
    colour: str | None = None


EXAMPLES = (
    Example(
        "Which engine is the fastest for each model?",
        """\
SELECT model_name, engine,
  max(throughput_items_per_s) AS best_items_per_s
FROM measurements
WHERE status = 'ok'
GROUP BY ALL
ORDER BY model_name, best_items_per_s DESC""",
        ChartKind.BARS,
        x="model_name",
        y="best_items_per_s",
        colour="engine",
    ),
    Example(
        "How does latency grow with the batch?",
        """\
WITH measured AS (
  SELECT *, regexp_replace(model_name, '-batch[0-9]+$', '') AS model
  FROM measurements WHERE status = 'ok')
SELECT engine, batch, min(median_ns) / 1e6 AS median_ms,
  model, target, cores
FROM measured
WHERE (model, target, cores) = (
  SELECT (model, target, cores) FROM measured GROUP BY ALL
  ORDER BY count(DISTINCT batch) > 1 DESC,
    max(started_at_unix_ns) DESC LIMIT 1)
GROUP BY ALL
ORDER BY engine, batch""",
        ChartKind.LINES,
        x="batch",
        y="median_ms",
        colour="engine",
    ),
    Example(
        "Has a new version of an engine become slower?",
        """\
SELECT make_timestamp_ns(started_at_unix_ns) AS started,
  engine || ' ' || engine_version AS version,
  model_name, batch, cores, median_ns / 1e6 AS median_ms
FROM measurements
WHERE status = 'ok'
ORDER BY started
LIMIT 2000""",
        ChartKind.POINTS,
        x="started",
        y="median_ms",
        colour="version",
    ),
    Example(
        "Which measurements were disturbed the most?",
        """\
SELECT measurements.id, model_name, engine, batch, cores,
  100 * coalesce(sum(duration_ns)
    FILTER (len(disturbances) > 0), 0) / sum(duration_ns)
    AS disturbed_percent,
  cv, process_spread
FROM measurements JOIN blocks ON measurement_id = measurements.id
WHERE coalesce(paused_ns, 0) = 0
GROUP BY ALL
ORDER BY disturbed_percent DESC
LIMIT 100""",
    ),
    Example(
        "What failed, and why?",
        """\
SELECT engine, failure_kind, count(*) AS failures,
  any_value(failure->>'$.message') AS for_example
FROM measurements
WHERE status = 'failed'
GROUP BY ALL
ORDER BY failures DESC""",
    ),
    Example(
        "Which layers of the newest profile take the most time?",
        """\
SELECT name, type, precision, list_avg(time_ns) / 1e6 AS mean_ms
FROM layers
WHERE len(time_ns) > 0 AND profile_id = (
  SELECT id FROM profiles WHERE status = 'ok'
  ORDER BY created_at_unix_ns DESC LIMIT 1)
ORDER BY mean_ms DESC
LIMIT 30""",
        ChartKind.BARS,
        x="name",
        y="mean_ms",
        colour="type",
    ),
    Example(
        "Where does each engine spend its time, by layer type?",
        """\
SELECT engine, type, 100 * sum(list_avg(time_ns)) /
  sum(sum(list_avg(time_ns))) OVER (PARTITION BY engine)
    AS percent_of_time,
  count(*) AS layers
FROM layers JOIN profiles ON profiles.id = profile_id
WHERE len(time_ns) > 0
GROUP BY engine, type
ORDER BY percent_of_time DESC
LIMIT 100""",
        ChartKind.BARS,
        x="type",
        y="percent_of_time",
        colour="engine",
    ),
    Example(
        "How are the latencies of the newest measurement distributed?",
        """\
SELECT round(latency_ns / 1e6, 2) AS latency_ms, count(*) AS requests
FROM block_samples
WHERE measurement_id = (
  SELECT id FROM measurements WHERE samples > 0
  ORDER BY started_at_unix_ns DESC LIMIT 1)
GROUP BY latency_ms
ORDER BY latency_ms""",
        ChartKind.BARS,
        x="latency_ms",
        y="requests",
    ),
    Example(
        "What does the first inference cost, beside a later one?",
        """\
SELECT engine, model_name, batch,
  (phase->>'$.duration_ns')::BIGINT / 1e6 AS first_inference_ms,
  median_ns / 1e6 AS median_ms
FROM (SELECT *, unnest(phases::JSON[]) AS phase FROM measurements)
WHERE phase->>'$.name' = 'first_inference'
ORDER BY engine, model_name, batch""",
        ChartKind.POINTS,
        x="median_ms",
        y="first_inference_ms",
        colour="engine",
    ),
)
