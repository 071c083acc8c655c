"""The points A and B: their facts, where they are no equals, and the bars of Inference time."""

import streamlit as st

from enginebench_controller.records import Measurement
from enginebench_ui.compare_page import address, reading
from enginebench_ui.compare_page.marks import warn_unlike
from enginebench_ui.showing import chart, show_answers, table
from enginebench_ui.views.compare_inference import (
    Bars,
    bars_figure,
    interval_sentences,
    point_rows,
    unlike_points,
    verdict_sentence,
)
from enginebench_ui.views.compare_points import Side
from enginebench_ui.views.text import inert

_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn
COLUMNS = {
    "Point": _TEXT(width=55, pinned=True),
    "Items/s": _NUMBER(format="%.1f"),
    "± items/s (%)": _NUMBER(format="%.1f", help="Half of the throughput's 95 % interval."),
    "Median (ms)": _NUMBER(format="%.3f"),
    "± ms (%)": _NUMBER(format="%.1f", help="Half of the median's 95 % interval."),
    "p95 (ms)": _NUMBER(format="%.3f", help="Needs 130 samples; empty with fewer."),
    "Precision": _TEXT(help="What the engine really executed in, and how that is known."),
    "Threads": _TEXT(help="The threads that did the work, and how that is known."),
    "Remarks": _TEXT(width="large", help="What to know before trusting the numbers."),
}


def show_points(sides: tuple[Side, Side]) -> None:
    """Draw what the two selected points are, and a banner where they are not alike."""
    found = {one.letter: reading.measured(one.chosen.id) for one in sides if one.chosen is not None}
    if not found:
        return
    if len(found) == len(sides):
        first, second = (one.measurement for one in found.values())
        compared = reading.compared(first, second)
        show_answers(reading.answers(first, second))
        remarks = compared.remarks if compared else ()
        unlike = unlike_points(first, second, [one.host for one in found.values()], remarks)
        warn_unlike("A and B are not the same work on equal terms", unlike)
    table(point_rows({letter: one.measurement for letter, one in found.items()}), "the points", columns=COLUMNS)


def show_inference(sides: tuple[Side, Side]) -> None:
    """Draw throughput or latency of both points as bars with their intervals."""
    points = {one.letter: reading.measured(one.chosen.id).measurement for one in sides if one.chosen is not None}
    bars = Bars(
        st.segmented_control(
            "Bars show", list(Bars), required=True, default=Bars.THROUGHPUT, key=address.BARS, bind=address.BIND
        )
    )
    figure = bars_figure(points, bars)
    if figure is None:
        st.info("There are no bars to draw: select a row with numbers in the table of A or B.")
        return
    left, right = st.columns([3, 2], gap="large", vertical_alignment="center")
    with left:
        chart(figure, f"inference {bars}", name=f"inference-{bars.lower()}", alt=f"{bars} of the points A and B")
    with right:
        st.markdown("**More is better.**" if bars is Bars.THROUGHPUT else "**Less is better.**")
        for sentence in interval_sentences(points, bars):
            st.markdown(inert(sentence))
        _show_verdict(points)


def _show_verdict(points: dict[str, Measurement]) -> None:
    if len(points) < 2:
        return
    first, second = points.values()
    if first.id == second.id:
        st.markdown("A and B are the same measurement.")
        return
    found = reading.compared(first, second)
    if found is not None:
        st.markdown(inert(verdict_sentence(found)))
