"""What can be done with a benchmark: run it again, take it along, remove it."""

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.exchange.benchmarks import export_benchmarks
from enginebench_controller.exports.measurements_csv import measurements_csv
from enginebench_controller.home import default_home
from enginebench_controller.jobs import Job, start_job
from enginebench_controller.records import Benchmark
from enginebench_ui import reading
from enginebench_ui.benchmark_page import reading as kept
from enginebench_ui.following import follow_jobs
from enginebench_ui.pages import BENCHMARKS
from enginebench_ui.views.benchmark.whole import WholeBenchmark
from enginebench_ui.views.magnitudes import benchmark_title
from enginebench_ui.views.text import REMOVED, count_of, inert

MOST_SAMPLES_TO_DOWNLOAD = 2_000_000


def show_actions(benchmark: WholeBenchmark) -> None:
    """Show the buttons."""
    with st.container(horizontal=True, horizontal_alignment="right", width="content"):
        if st.button("Re-run", icon=":material/replay:", help="Measure the same again, as a new benchmark."):
            _rerun(benchmark.bundle.benchmark)
        _show_export(benchmark)
        _show_remove(benchmark)


def follow_own_jobs(benchmark_id: str) -> None:
    """Show the jobs that measure this benchmark, or measure it again."""

    def belongs(job: Job) -> bool:
        again = job.arguments[:2] == ("rerun", benchmark_id)
        return again or any(made.id == benchmark_id for made in job.progress.made)

    follow_jobs(belongs)


def _rerun(benchmark: Benchmark) -> None:
    with reading.banner_on_error():
        start_job(default_home(), f"Re-run of {benchmark_title(benchmark.name)}", ("rerun", benchmark.id))
    st.toast("The re-run has begun. This benchmark stays as it is.", icon=":material/replay:")


def _show_export(benchmark: WholeBenchmark) -> None:
    identity = benchmark.id
    with st.popover("Export", icon=":material/download:"):
        st.download_button(
            "Measurements (CSV)",
            lambda: measurements_csv(benchmark.bundle.measurements, reading.models()),
            f"enginebench-{identity}.csv",
            "text/csv",
            on_click="ignore",
            icon=":material/table:",
            help="A row a measurement: what was asked, what really ran, statistics with intervals, status and flags.",
        )
        if benchmark.samples > MOST_SAMPLES_TO_DOWNLOAD:
            st.caption(f"With its {benchmark.samples:,} raw samples it is too much for a browser:")
            st.code(f"enginebench export {identity} -o {identity}.json", language="shell")
            return
        st.download_button(
            "Everything (JSON)",
            lambda: export_benchmarks(kept.store(), [identity]),
            f"enginebench-{identity}.json",
            "application/json",
            on_click="ignore",
            icon=":material/data_object:",
            help="With every raw sample; `enginebench import FILE` reads it back without loss.",
        )


def _show_remove(benchmark: WholeBenchmark) -> None:
    name = inert(benchmark_title(benchmark.bundle.benchmark.name))
    measurements = count_of(len(benchmark.measurements), "measurement")
    # Not a dialog: one would close, its answer lost, as soon as a job that the page follows ends.
    with st.popover("Remove", icon=":material/delete:"):
        st.write(f"**{name}** with its {measurements} and {benchmark.samples:,} samples will be gone for good.")
        st.caption("Re-runs and comparisons are benchmarks of their own and stay. An export brings this one back.")
        if st.button("Remove for good", type="primary", icon=":material/delete:", key="remove_benchmark"):
            _remove(benchmark)


def _remove(benchmark: WholeBenchmark) -> None:
    try:
        default_home().store.remove_benchmark(benchmark.id)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        return
    st.session_state[REMOVED] = benchmark.bundle.benchmark.name
    st.switch_page(BENCHMARKS)
