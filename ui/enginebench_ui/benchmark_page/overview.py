"""All measurements of a benchmark, and where they were made."""

import streamlit as st

from enginebench_ui.showing import chart, table
from enginebench_ui.views.benchmark.whole import WholeBenchmark
from enginebench_ui.views.charts import throughput_figure
from enginebench_ui.views.targets import host_facts
from enginebench_ui.views.text import inert

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


def show_overview(benchmark: WholeBenchmark) -> None:
    """Show every measurement as a row, every process behind an expander, and the targets."""
    st.header("All measurements", anchor=False)
    table(benchmark.rows, "measurements", columns=COLUMNS)
    st.caption("Precision and threads are what really ran: stated by the engine, observed, or assumed.")
    if benchmark.processes:
        with st.expander("Every process, and what the machine was doing meanwhile", icon=":material/memory:"):
            table(benchmark.processes, "processes", columns=COLUMNS)
    _show_throughput(benchmark)
    for snapshot in benchmark.bundle.snapshots:
        label = f"Target {inert(snapshot.target)}, as it was when this was measured"
        with st.expander(label, icon=":material/dns:"):
            for heading, value in host_facts(snapshot.host):
                st.markdown(f"**{heading}** {inert(value)}")


def _show_throughput(benchmark: WholeBenchmark) -> None:
    figure = throughput_figure(benchmark.measurements)
    if figure is None:
        return
    with st.expander("Throughput of everything, by batch", icon=":material/bar_chart:"):
        st.caption("Items per second of the whole steady state. More is better.")
        chart(figure, "throughput", alt="Items per second by batch")
