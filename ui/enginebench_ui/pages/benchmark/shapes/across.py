"""A benchmark on many targets: in words, as a row a group and configuration, and how far apart the targets are."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Measurement
from enginebench_controller.verdicts.across import AcrossTargets, work_of
from enginebench_controller.verdicts.parity import engine_label, in_reading_order
from enginebench_ui.shared.charts import margins, value_axis
from enginebench_ui.shared.text import UNKNOWN, Row, count_of, drawn_text, in_milliseconds

MOST_GROUPS = 30
"""More are no grouping, and nobody looks at so many boxes: a label with more values is not offered, and of kinds of
machines those of most targets are drawn.
"""
_MOST_NAMED = 5
"""With more names in a chart they lie on each other."""
_LINE_CHARACTERS = 22


def headline(found: AcrossTargets) -> str:
    """Say on how many targets it is, and how many of them need a look."""
    failed = {name for one in found.rows for name in one.failed}
    unlike = {name for one in found.rows for name in one.unlike}
    once = {one.target for one in found.odd_once}
    counts = (
        (failed, "failed"),
        (unlike, "with other outputs"),
        (found.odd, "unlike their kind"),
        (once, "in single configurations only" if found.odd else "unlike their kind in single configurations"),
    )
    told = [f"{len(names)} {words}" for names, words in counts if names]
    return f"{found.targets:,} targets: {', '.join(told) or 'none stands out'}"


def labels_of(targets: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return by which of their labels targets can be put together: those with several values, and not one each."""
    values: dict[str, set[str]] = {}
    for labels in targets:
        for key, value in labels.items():
            values.setdefault(key, set()).add(value)
    most = min(MOST_GROUPS, len(targets) - 1)
    return tuple(key for key, found in sorted(values.items()) if 1 < len(found) <= most)


def across_rows(found: AcrossTargets) -> tuple[Row, ...]:
    """Return a row a group and configuration."""
    return tuple(
        {
            "Group": one.group or UNKNOWN,
            "Model": one.model_name,
            "Engine": one.engine,
            "Configuration": one.configuration,
            "Targets": one.targets,
            "Median (ms)": in_milliseconds(one.median_ns),
            "10 % (ms)": in_milliseconds(one.low_ns),
            "90 % (ms)": in_milliseconds(one.high_ns),
            "Doubtful": len(one.doubtful),
            "Failed": len(one.failed),
        }
        for one in found.rows
    )


def works(measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Return what was measured, apart from on which engine and target."""
    return tuple(dict.fromkeys(map(work_of, in_reading_order(measurements))))


def spread_figure(
    measurements: Iterable[Measurement], groups: Mapping[str, str], odd: Sequence[str], looks: EngineLooks
) -> go.Figure:
    """Draw the median latencies of one piece of work: a box a group and engine, and those who stand out by name.

    `groups` are by target, `odd` the farthest first. Of more than `MOST_GROUPS` those with most targets are drawn.
    """
    timed = [one for one in measurements if one.latency is not None]
    members: dict[str, set[str]] = {}
    for one in timed:
        members.setdefault(groups.get(one.target, ""), set()).add(one.target)
    largest = sorted(members, key=lambda group: (-len(members[group]), group))[:MOST_GROUPS]
    rows = {group: _wrapped(f"{group or UNKNOWN} ({count_of(len(members[group]), 'target')})") for group in largest}
    engines: dict[str, list[Measurement]] = {}
    for one in timed:
        if groups.get(one.target, "") in rows:
            engines.setdefault(engine_label(one), []).append(one)
    figure = go.Figure()
    for engine, own in engines.items():
        figure.add_trace(
            go.Box(
                name=drawn_text(engine),
                orientation="h",
                x=[_median_ms(one) for one in own],
                y=[rows[groups.get(one.target, "")] for one in own],
                text=[drawn_text(one.target) for one in own],
                marker={"color": looks.of(own[0].engine.name).colour, "size": 5},
                boxpoints="all",
                jitter=0.6,
                pointpos=0,
                hovertemplate="%{text}: %{x:.3f} ms<extra></extra>",
            )
        )
    drawn = [(one.target, _median_ms(one)) for own in engines.values() for one in own]
    axis = value_axis("median latency of each target (ms)", [median_ms for _, median_ms in drawn])
    topmost = {target: median_ms for target, median_ms in drawn if median_ms}  # the last is drawn highest
    for place, name in enumerate(name for name in odd[:_MOST_NAMED] if name in topmost):
        figure.add_annotation(
            # What is written on a logarithmic axis stands, unlike its points, at the power of ten.
            x=math.log10(topmost[name]) if "type" in axis else topmost[name],
            y=rows[groups.get(name, "")],
            text=drawn_text(name),
            showarrow=False,
            yshift=18 + 12 * (place % 2),
        )
    return figure.update_layout(
        boxmode="group",
        height=110 + len(rows) * max(62, 44 * len(engines)),
        margin=margins(10, legend_rows=1),
        showlegend=len(engines) > 1,
        legend={"orientation": "h", "y": -0.4},
        xaxis=axis,
        yaxis={"categoryorder": "array", "categoryarray": [rows[group] for group in reversed(largest)]},
    )


def _wrapped(text: str) -> str:
    """In lines, for a narrow screen has no room for the name of a processor beside a chart."""
    return "<br>".join(map(drawn_text, textwrap.wrap(text, _LINE_CHARACTERS)))


def _median_ms(one: Measurement) -> float | None:
    return None if one.latency is None else one.latency.median_ns / 1e6
