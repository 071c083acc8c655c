"""The throughput of a whole benchmark by batch, a panel a model."""

import html
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from enginebench_controller.records import Measurement
from enginebench_ui.views.dress import margins
from enginebench_ui.views.series import series_colours, series_names, timed

HEIGHT_PX = 420
MOST_PANELS_IN_A_ROW = 3

_MARGINS = margins(40)
_LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0}


def throughput_figure(measurements: Sequence[Measurement]) -> go.Figure | None:
    """Draw items/s as bars, grouped by batch, a colour a series and a panel a model; None when nothing has numbers."""
    shown = timed(measurements)
    if not shown:
        return None
    names, models = series_names(shown), list(dict.fromkeys(one.model_name for one in shown))
    figure, panels = _panels(models)
    for series, colour in series_colours(names.values()).items():
        for model, (row, column) in panels.items():
            bars = [one for one in shown if names[one.id] == series and one.model_name == model]
            figure.add_trace(_bars(bars, series, colour, in_legend=model == models[0]), row=row, col=column)
    figure.update_xaxes(type="category", title="batch", categoryorder="array", categoryarray=_batches(shown))
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title="items/s", col=1)
    return figure.update_layout(barmode="group", margin=_MARGINS, legend=_LEGEND)


def _panels(models: Sequence[str]) -> tuple[go.Figure, dict[str, tuple[int, int]]]:
    """Make a figure with a panel a model, and say in which row and column, counted from 1, each model is."""
    columns = min(len(models), MOST_PANELS_IN_A_ROW)
    rows = -(-len(models) // columns)
    figure = make_subplots(rows, columns, subplot_titles=[html.escape(model) for model in models])
    figure.update_layout(height=HEIGHT_PX * rows)
    return figure, {model: (index // columns + 1, index % columns + 1) for index, model in enumerate(models)}


def _bars(measurements: Sequence[Measurement], series: str, colour: str, *, in_legend: bool) -> go.Bar:
    return go.Bar(
        x=[str(one.configuration.batch) for one in measurements],
        y=[one.throughput_items_per_s for one in measurements],
        # Plotly reads a few HTML tags in every text; names from elsewhere must not speak it.
        name=html.escape(series),
        legendgroup=series,
        showlegend=in_legend,
        marker_color=colour,
        texttemplate="%{y:.3~s}",
        textposition="outside",
        cliponaxis=False,
        hovertemplate="batch %{x}: %{y:.1f} items/s<extra>%{fullData.name}</extra>",
    )


def _batches(measurements: Sequence[Measurement]) -> list[str]:
    return [str(batch) for batch in sorted({one.configuration.batch for one in measurements})]
