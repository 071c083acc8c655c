"""Trend: the same model and configuration over time, across benchmarks and engine versions."""

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from enginebench_controller.comparing.alerts import history_words
from enginebench_controller.records import Measurement
from enginebench_controller.stats.scaling import Figure
from enginebench_ui import reading
from enginebench_ui.benchmark_page import reading as kept
from enginebench_ui.benchmark_page.controls import Choice, choose_batch, choose_cores
from enginebench_ui.choosing import choose_view
from enginebench_ui.showing import chart, table
from enginebench_ui.views.benchmark.alerts import alert_rows, is_shown
from enginebench_ui.views.benchmark.baseline import cell_text
from enginebench_ui.views.benchmark.figures import UNITS
from enginebench_ui.views.benchmark.trend import Track, TrendLens, tracks, trend_figure, trend_rows, unlike_hosts
from enginebench_ui.views.text import count_of, inert

_PERCENT = st.column_config.NumberColumn(format="%.2f", help="Half of the 95 % interval.")
COLUMNS = {
    "Benchmark": st.column_config.LinkColumn(display_text=r"id=(.*)"),
    "ms/item": st.column_config.NumberColumn(format="%.4f"),
    "ms/batch": st.column_config.NumberColumn(format="%.3f"),
    "± (%)": _PERCENT,
    "items/s": st.column_config.NumberColumn(format="%.1f"),
    "items/s ± (%)": _PERCENT,
    "Time": st.column_config.TextColumn(help="The median time since ÷ that before."),
    "Change": st.column_config.TextColumn(help="The chosen figure ÷ that of the point before it with the same engine."),
    "Difference": st.column_config.TextColumn(help="Beyond noise where the intervals do not overlap."),
    "Remarks": st.column_config.TextColumn(width="large"),
}


def show_trend(choice: Choice, bar: DeltaGenerator) -> None:
    """Draw the view; its drop-downs stand in the `bar`."""
    with bar:
        cell = (choose_batch(choice), choose_cores(choice))
        figure = Figure(
            choose_view(
                "Figure", {one.value: UNITS[one] for one in Figure}, "figure", default=Figure.TIME_PER_BATCH.value
            )
        )
    measurement = choice.base.cells.get(cell)
    if measurement is None:
        st.info(f"{inert(cell_text(cell))} was not measured with {inert(choice.base.label)}.")
        return
    with reading.banner_on_error():
        shown = tracks(kept.trend(measurement.id), {line.first.engine.name for line in choice.lines})
    lens = TrendLens(figure, choice.statistic, cell[0], choice.benchmark.id)
    _show_tracks(shown, lens)
    _show_alerts(measurement, [line.first.engine.name for line in choice.lines])


def _show_alerts(measurement: Measurement, engines: Sequence[str]) -> None:
    """Where the histories drawn above changed; nothing that no gate confirmed is called a regression."""
    found: kept.Findings = ()
    with reading.banner_on_error():
        every = kept.trend_alerts(measurement.model_digest, measurement.target)
        found = tuple(one for one in every if one[0].history.engine in engines and is_shown(one[0], measurement))
    if not found:
        return
    st.subheader("Changes")
    if rows := alert_rows(found):
        table(rows, "trend-alerts", columns=COLUMNS)
    elif any(not one.shortage for one, _ in found):
        st.caption("No level differs from the one before.")
    for one, _ in found:
        if one.shortage:
            st.caption(inert(f"{history_words(one.history)}: {one.shortage}."))


def _show_tracks(shown: tuple[Track, ...], lens: TrendLens) -> None:
    points = [point for track in shown for point in track.points]
    benchmarks = count_of(len({point.benchmark_id for point in points}), "benchmark")
    st.caption(
        f"The same model version, target and configuration in {benchmarks}, on the engines chosen above. Larger: this "
        "benchmark. Beside points: the engine's version, where it is another than before."
    )
    if sentence := unlike_hosts(shown):
        st.warning(f"Not a comparison of equals: {inert(sentence)}", icon=":material/balance:")
    drawn = trend_figure(shown, lens)
    if drawn is None:
        st.info("No measurement of this model and configuration has numbers.")
    else:
        chart(drawn, "trend", alt=f"{UNITS[lens.figure]} over time by engine")
    table(trend_rows(shown, lens), "trend-table", columns=COLUMNS)
