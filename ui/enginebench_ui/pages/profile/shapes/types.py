"""Layer summaries: where the time goes by type of layer, and what pruning could take from each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from enginebench_controller.verdicts.pruning.prospects import Saving
from enginebench_ui.pages.profile.shapes.layers import Dataset, LayerView, Scale, as_percent, total, types_by_value
from enginebench_ui.shared.charts import LOG_AXIS, NEUTRAL, NOISE
from enginebench_ui.shared.text import (
    UNKNOWN,
    Row,
    cells,
    count_of,
    drawn_text,
    magnitude,
    milliseconds_text,
    shortened,
)

MOST_BARS = 14
_BAR_PX = 34
_AROUND_PX = 90


@dataclass(frozen=True)
class TypeView:
    """The layers of one type. `value` is the sum of what is known of the figure, for `known` of the `layers`.

    `share` is its part of all layers. `saving` is what zeros would save, None where there is no estimate; `note` says
    who made layers that the model did not ask for.
    """

    type: str
    layers: int
    known: int
    value: float | None
    share: float | None
    saving: Saving | None = None
    note: str = ""
    is_engine_made: bool = False


def type_views(
    layers: Sequence[LayerView], dataset: Dataset, savings: Mapping[int, Saving] | None = None
) -> tuple[TypeView, ...]:
    """Return the types, the one with most of the figure first. `savings` are by the layers' positions."""
    groups: dict[str, list[LayerView]] = {}
    for layer in layers:
        groups.setdefault(layer.type, []).append(layer)
    whole = total(layers, dataset.type_value)
    return tuple(_type(name, groups[name], dataset, whole, savings or {}) for name in types_by_value(layers, dataset))


def type_rows(views: Sequence[TypeView], dataset: Dataset, *, with_savings: bool) -> tuple[Row, ...]:
    """Return a table row a type; columns of remarks that hold nothing are left out."""
    rows = [_row(view, dataset, with_savings=with_savings) for view in views]
    silent = {name for name in ("Known", "Note") if all(row[name] is None for row in rows)}
    return tuple(cells({name: value for name, value in row.items() if name not in silent}) for row in rows)


def type_figure(views: Sequence[TypeView], dataset: Dataset, scale: Scale, colour: str = NEUTRAL) -> go.Figure | None:
    """Draw a bar a type, most at the top, in `colour`; engine-made ones are grey and hatched. None without values."""
    drawn = _grouped([view for view in views if view.value is not None])
    if not drawn:
        return None
    values = [_scaled(view, scale) for view in drawn]
    figure = go.Figure(
        go.Bar(
            x=values,
            y=[_label(view) for view in drawn],
            orientation="h",
            marker={
                "color": [NOISE if view.is_engine_made else colour for view in drawn],
                "pattern": {"shape": ["/" if view.is_engine_made else "" for view in drawn], "fgcolor": "#ffffff"},
            },
            text=[f"{value:.1f} %" if scale is Scale.PERCENT else _text(value, dataset) for value in values],
            textposition="outside",
            cliponaxis=False,
            customdata=[_hover(view, dataset) for view in drawn],
            hovertemplate="<b>%{y}</b><br>%{customdata}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", type="category", automargin=True)
    figure.update_xaxes(**_value_axis(values, dataset, scale))
    height = _AROUND_PX + _BAR_PX * len(drawn)
    return figure.update_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 66}, bargap=0.35)


def _type(
    name: str, members: Sequence[LayerView], dataset: Dataset, whole: float | None, savings: Mapping[int, Saving]
) -> TypeView:
    value = total(members, dataset.type_value)
    own = [savings[layer.position] for layer in members if layer.position in savings]
    made = [layer.made_by for layer in members if layer.made_by]
    return TypeView(
        type=name,
        layers=len(members),
        known=sum(dataset.type_value(layer) is not None for layer in members),
        value=value,
        share=None if value is None or not whole else value / whole,
        saving=sum(own[1:], own[0]) if own else None,
        note=made[0] if made else "",
        is_engine_made=len(made) == len(members),
    )


def _row(view: TypeView, dataset: Dataset, *, with_savings: bool) -> Row:
    saving = view.saving
    potential: Row = {
        "Saves (ms)": saving.saved_ns / 1e6 if saving else None,
        "Saves (%)": as_percent(saving.saved_ns, saving.dense_ns) if saving else None,
    }
    return {
        "Type": view.type,
        heading(dataset): view.value,
        "Share (%)": None if view.share is None else 100 * view.share,
        **(potential if with_savings else {}),
        "Layers": view.layers,
        "Known": view.known if view.known < view.layers else None,
        "Note": _note(view, with_savings=with_savings),
    }


def heading(dataset: Dataset) -> str:
    """The heading of a table's column for this figure."""
    return dataset.label if dataset.is_time or dataset.unit == "nodes" else f"{dataset.label} ({dataset.unit})"


def _note(view: TypeView, *, with_savings: bool) -> str | None:
    unknown = "part of the saving is unknown" if view.saving is not None and not view.saving.is_known else ""
    no_gain = "no saving" if with_savings and view.is_engine_made else ""
    return ", ".join(filter(None, (view.note, no_gain, unknown))) or None


def _grouped(views: Sequence[TypeView]) -> list[TypeView]:
    """The types with most of the figure, and one for all others together where they are many."""
    if len(views) <= MOST_BARS:
        return list(views)
    rest = views[MOST_BARS - 1 :]
    others = TypeView(
        type=f"{len(rest)} other types",
        layers=sum(view.layers for view in rest),
        known=sum(view.known for view in rest),
        value=sum(view.value or 0.0 for view in rest),
        share=sum(view.share or 0.0 for view in rest),
    )
    return [*views[: MOST_BARS - 1], others]


def _label(view: TypeView) -> str:
    return drawn_text(shortened(view.type or "untold", 22)) + (" *" if view.is_engine_made else "")


def _text(value: float | None, dataset: Dataset) -> str:
    if value is None:
        return UNKNOWN
    if dataset.is_time:
        return milliseconds_text(1e6 * value)
    return count_of(round(value), "layer") if dataset.unit == "nodes" else magnitude(value, dataset.unit)


def _hover(view: TypeView, dataset: Dataset) -> str:
    share = "" if view.share is None else f", {100 * view.share:.1f} %"
    note = f"<br>{drawn_text(view.note)}" if view.note else ""
    return f"{_text(view.value, dataset)}{share}<br>{count_of(view.layers, 'layer')}{note}"


def _scaled(view: TypeView, scale: Scale) -> float | None:
    if scale is Scale.PERCENT:
        return None if view.share is None else 100 * view.share
    return view.value


def _value_axis(values: Sequence[float | None], dataset: Dataset, scale: Scale) -> dict[str, object]:
    unit = "layers" if dataset.unit == "nodes" else dataset.unit
    known = [value for value in values if value]
    most = max(known, default=1.0)
    if scale is Scale.PERCENT:
        return {"title": "share (%)", "range": [0, 1.35 * most]}
    if scale is Scale.LOG and known:
        low = math.log10(min(known)) - 0.3
        high = math.log10(most)
        return {"title": f"{unit}, logarithmic", **LOG_AXIS, "range": [low, high + 0.45 * max(high - low, 0.5)]}
    return {"title": unit, "range": [0, 1.35 * most], "tickformat": "" if dataset.is_time else "~s"}
