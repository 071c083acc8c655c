"""Trend: the same model and configuration over time, across benchmarks and engine versions."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from enginebench_controller.stats.scaling import Figure
from enginebench_ui import reading
from enginebench_ui.benchmark_page import reading as kept
from enginebench_ui.benchmark_page.controls import Choice, choose_batch, choose_cores
from enginebench_ui.choosing import choose_view
from enginebench_ui.showing import chart, table
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
