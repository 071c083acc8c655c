"""One benchmark, named by `?id=…`: its measurements as a table and as charts, and what failed."""

import streamlit as st

from enginebench_controller.records import Measurement
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_controller.trust.parity import unequal_settings
from enginebench_ui import reading
from enginebench_ui.pages import BENCHMARK, BENCHMARKS
from enginebench_ui.views.benchmarks import tallies
from enginebench_ui.views.charts import latency_figure, throughput_figure
from enginebench_ui.views.measurements import FailureView, failure_views, measurement_rows
from enginebench_ui.views.processes import process_rows
from enginebench_ui.views.series import timed
from enginebench_ui.views.targets import host_facts
from enginebench_ui.views.text import inert, instant

COLUMNS = {
    "Median (ms)": st.column_config.NumberColumn(format="%.3f"),
    "± (%)": st.column_config.NumberColumn(format="%.2f", help="Half of the median's 95 % interval."),
    "Spread (%)": st.column_config.NumberColumn(
        format="%.1f", help="The median of the slowest of the processes ÷ that of the fastest, less 1."
    ),
    "p95 (ms)": st.column_config.NumberColumn(format="%.3f", help="Needs 130 samples; empty with fewer."),
    "p99 (ms)": st.column_config.NumberColumn(format="%.3f", help="Needs 662 samples; empty with fewer."),
    "Disturbed (%)": st.column_config.NumberColumn(
        format="%.0f", help="The share of the time in which the machine was busy with something else as well."
    ),
    "Outputs": st.column_config.TextColumn(help="Against another measurement's of the same model on the same inputs."),
    "Items/s": st.column_config.NumberColumn(format="%.1f"),
    "Precision": st.column_config.TextColumn(help="What the engine really executed in, and how that is known."),
    "Threads": st.column_config.TextColumn(help="The threads that did the work, and how that is known."),
    "Remarks": st.column_config.TextColumn(width="large", help="What to know before trusting the numbers."),
}
CHART_OPTIONS = {"displaylogo": False}


def show() -> None:
    """Draw the page."""
    st.page_link(BENCHMARKS, label="All benchmarks", icon=":material/arrow_back:")
    benchmark_id = st.query_params.get("id", "")
    if not benchmark_id:
        st.info("No benchmark is chosen; take one from the list.")
        return
    with reading.banner_on_error():
        bundle = reading.bundle(benchmark_id)
    _show_heading(bundle)
    if not bundle.measurements:
        st.info("Nothing has been measured in this benchmark yet. Measurements appear here as they are stored.")
        return
    _show_measurements(bundle.measurements)
    _show_failures(failure_views(bundle.measurements))
    _show_charts(bundle)
    _show_targets(bundle)


def _show_heading(bundle: BenchmarkBundle) -> None:
    benchmark = bundle.benchmark
    st.title(inert(benchmark.name) or "Unnamed benchmark", anchor=False)
    facts = [benchmark.id, instant(benchmark.created_at_unix_ns)] + ["imported"] * benchmark.imported
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(" · ".join(map(inert, facts)), width="content")
        for text, colour in tallies(one.status for one in bundle.measurements):
            st.badge(text, color=colour)
    if benchmark.rerun_of:
        label = f"Re-run of {inert(benchmark.rerun_of)}"
        st.page_link(BENCHMARK, label=label, query_params={"id": benchmark.rerun_of})


def _show_measurements(measurements: tuple[Measurement, ...]) -> None:
    for sentence in unequal_settings(measurements):
        st.warning(f"Not a comparison of equals: {inert(sentence)}", icon=":material/balance:")
    rows = list(measurement_rows(measurements, reading.models()))
    st.dataframe(rows, hide_index=True, placeholder="–", column_config=COLUMNS, height="content", key="measurements")
    st.caption("Precision and threads are what really ran: stated by the engine, observed, or assumed.")
    if processes := process_rows(measurements):
        with st.expander("Every process, and what the machine was doing meanwhile"):
            st.dataframe(list(processes), hide_index=True, placeholder="–", column_config=COLUMNS, key="processes")


def _show_failures(failures: tuple[FailureView, ...]) -> None:
    for failure in failures:
        st.error(f"**{inert(failure.heading)}** {inert(failure.message)}", icon=":material/error:")
        with st.expander("The engine's own words, and what was to be measured"):
            for configuration in failure.configurations:
                st.text(configuration)
            if failure.detail:
                st.code(failure.detail, language=None, wrap_lines=True)


def _show_charts(bundle: BenchmarkBundle) -> None:
    throughput = throughput_figure(bundle.measurements)
    if throughput is None:
        st.info("There is nothing to draw: no measurement has numbers.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Throughput", anchor=False)
        st.caption("Items per second of the whole steady state. More is better.")
        st.plotly_chart(throughput, config=CHART_OPTIONS, key="throughput")
    with right:
        st.subheader("Latency", anchor=False)
        _show_latency(bundle)


def _show_latency(bundle: BenchmarkBundle) -> None:
    shown = _choose(timed(bundle.measurements))
    with reading.banner_on_error():
        shares = reading.latency_shares(one.id for one in shown)
    figure = latency_figure(shown, shares, bundle.measurements)
    if figure is None:
        st.info("No raw samples were kept for these measurements.")
    else:
        st.plotly_chart(figure, config=CHART_OPTIONS, key="latency")


def _choose(measurements: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    models = list(dict.fromkeys(one.model_name for one in measurements))
    batches = sorted({one.configuration.batch for one in measurements})
    with st.container(horizontal=True):
        model = st.selectbox("Model", models) if len(models) > 1 else models[0]
        batch = st.selectbox("Batch", batches) if len(batches) > 1 else batches[0]
    st.caption("The share of inferences that took at most this long. Further left is better, steeper is steadier.")
    return tuple(one for one in measurements if one.model_name == model and one.configuration.batch == batch)


def _show_targets(bundle: BenchmarkBundle) -> None:
    for snapshot in bundle.snapshots:
        with st.expander(f"Target {inert(snapshot.target)}, as it was when this was measured"):
            for heading, value in host_facts(snapshot.host):
                st.markdown(f"**{heading}** {inert(value)}")


show()
