"""One benchmark, named by `?id=…`: a cell of it, how it scales with cores and batch, and how it went over time."""

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.files.csv_tables import measurements_csv
from enginebench_controller.files.exports.benchmarks import export_benchmarks
from enginebench_controller.files.reports import benchmark_html
from enginebench_controller.home import default_home, home_to_change, home_to_read
from enginebench_controller.jobs.control import start_job
from enginebench_controller.jobs.record import Job
from enginebench_controller.records import Benchmark
from enginebench_controller.stats.comparison import PRACTICAL
from enginebench_controller.stats.scaling import Axis
from enginebench_controller.store.searches import search_of
from enginebench_controller.verdicts.gate.results import GateResult, MetricResult
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import (
    amount,
    gate_remarks,
    headline,
    meaning,
    ratio_words,
    verdict_words,
)
from enginebench_controller.verdicts.subjects import compare_benchmarks
from enginebench_controller.verdicts.words import first_failures
from enginebench_ui.pages import BENCHMARK, BENCHMARKS, NEW_BENCHMARK
from enginebench_ui.pages.benchmark import stored
from enginebench_ui.pages.benchmark.controls import choose_cell, choose_lines
from enginebench_ui.pages.benchmark.shapes.measurements import FailureView, throughput_figure, timed
from enginebench_ui.pages.benchmark.shapes.whole import WholeBenchmark
from enginebench_ui.pages.benchmark.views import show_across, show_baseline, show_scaling, show_trend
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_view
from enginebench_ui.shared.following import compare_link, follow_jobs
from enginebench_ui.shared.order_fields import address_of
from enginebench_ui.shared.searches import step_link
from enginebench_ui.shared.showing import RATE, chart, share_button, show_answers, table, warn_unlike
from enginebench_ui.shared.targets import host_facts
from enginebench_ui.shared.text import REMOVED, Row, benchmark_title, count_of, inert, instant, tallies

MOST_SAMPLES_TO_DOWNLOAD = 2_000_000


def show_actions(benchmark: WholeBenchmark) -> None:
    """Show the buttons."""
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center", width="content"):
        if benchmark.is_comparable:
            share_button(lambda: _report(benchmark.id), benchmark.id)
        help_text = "Measure the same again, as a new benchmark. It begins at once."
        if st.button("Re-run", icon=":material/replay:", help=help_text):
            _rerun(benchmark.bundle.benchmark)
        st.page_link(
            NEW_BENCHMARK,
            label="Change and measure",
            icon=":material/edit:",
            query_params=address_of(benchmark.bundle.benchmark.plan),
            help="A new benchmark with these models, engines and configurations filled in.",
        )
        _show_export(benchmark)
        _show_remove(benchmark)


def _report(benchmark_id: str) -> str:
    """Return a benchmark compared with itself, as a page for others that begins with its answers. Calls no page."""
    home = home_to_read()
    benchmark = home.store.benchmark(benchmark_id)
    found = compare_benchmarks(home, [benchmark], PRACTICAL)
    missing = [line.strip() for line in first_failures(found.given)]
    return benchmark_html(f"{benchmark.name} ({benchmark.id})", found.compared, missing=missing, answers=found.answers)


def follow_own_jobs(benchmark_id: str) -> None:
    """Show the jobs that measure this benchmark, or measure it again."""

    def belongs(job: Job) -> bool:
        again = job.arguments[:2] == ("rerun", benchmark_id)
        return again or any(made.id == benchmark_id for made in job.progress.made)

    follow_jobs(belongs)


def _rerun(benchmark: Benchmark) -> None:
    with reading.banner_on_error():
        title = f"Re-run of {benchmark_title(benchmark.name)}"
        start_job(default_home(), title, ("rerun", benchmark.id), compare_with=benchmark.id)
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
            lambda: export_benchmarks(stored.store(), [identity]),
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
        home_to_change().store.remove_benchmark(benchmark.id)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        return
    st.session_state[REMOVED] = benchmark.bundle.benchmark.name
    st.switch_page(BENCHMARKS)


_MOST_FAILURES = 3


def show_heading(benchmark: WholeBenchmark) -> None:
    """Show name, facts, tallies, the benchmarks it is linked with, and what can be done."""
    own = benchmark.bundle.benchmark
    st.title(inert(benchmark_title(own.name)), anchor=False)
    facts = [own.id, instant(own.created_at_unix_ns)] + ["imported"] * own.imported
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.caption(" · ".join(map(inert, facts)), width="content")
            for text, colour in tallies(one.status for one in benchmark.measurements):
                st.badge(text, color=colour)
        show_actions(benchmark)
    _show_links(benchmark)


def show_doubts(benchmark: WholeBenchmark) -> None:
    """Show whose outputs are wrong, and where engines did not really run the same."""
    for wrong, sentence in benchmark.wrong:
        st.error(f"**≠ outputs: {inert(wrong)}** {inert(sentence)}", icon=":material/error:")
    warn_unlike(benchmark.unequal)


def show_failures(benchmark: WholeBenchmark) -> None:
    """Show what failed, what failed alike together."""
    for failure in benchmark.failures[:_MOST_FAILURES]:
        _show_failure(failure)
    if others := benchmark.failures[_MOST_FAILURES:]:
        with st.expander(f"{count_of(len(others), 'more failure')}", icon=":material/error:"):
            for failure in others:
                _show_failure(failure)


def _show_links(benchmark: WholeBenchmark) -> None:
    before = benchmark.bundle.benchmark.rerun_of
    reruns = stored.relatives(benchmark.id).reruns
    is_step = bool(search_of(benchmark.bundle.benchmark))
    if not before and not reruns and not is_step and not reading.two_sides(benchmark.id):
        return
    with st.container(horizontal=True):
        step_link(benchmark.bundle.benchmark)
        compare_link(benchmark.id)
        if before:
            st.page_link(
                BENCHMARK, label=f"Re-run of {inert(before)}", icon=":material/replay:", query_params={"id": before}
            )
            beside = {"id": benchmark.id, "with": before}
            st.page_link(BENCHMARK, label="Beside it", icon=":material/compare_arrows:", query_params=beside)
        for one in reruns:
            label = f"Re-run on {instant(one.created_at_unix_ns)}: {inert(one.id)}"
            st.page_link(BENCHMARK, label=label, icon=":material/arrow_forward:", query_params={"id": one.id})


def _show_failure(failure: FailureView) -> None:
    told = st.info if failure.is_cancelled else st.error
    told(f"**{inert(failure.heading)}** {inert(failure.message)}", icon=":material/error:")
    with st.expander("The engine's own words, and what was to be measured"):
        for configuration in failure.configurations:
            st.text(configuration)
        if failure.detail:
            st.code(failure.detail, language=None, wrap_lines=True)


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
    "Items/s": st.column_config.NumberColumn(format=RATE),
    "Peak memory (MB)": st.column_config.NumberColumn(
        format="%.0f", help="The most that the engine's process held, model and all, in millions of bytes."
    ),
    "Precision": st.column_config.TextColumn(help="What the engine really executed in, and how that is known."),
    "Threads": st.column_config.TextColumn(help="The threads that did the work, and how that is known."),
    "Remarks": st.column_config.TextColumn(width="large", help="What to know before trusting the numbers."),
}


def show_overview(benchmark: WholeBenchmark) -> None:
    """Show every measurement as a row, every process behind an expander, and the targets."""
    st.header("All measurements", anchor=False)
    table(benchmark.rows, "measurements", columns=COLUMNS)
    st.caption("Precision and threads are what really ran: stated by the engine, observed, or assumed.")
    # Each drawn once it is opened: with hundreds of rows and their cards they hold up every answer of the page.
    if benchmark.processes:
        label = "Every process, and what the machine was doing meanwhile"
        processes = st.expander(label, icon=":material/memory:", key="every process", on_change="rerun")
        if processes.open:
            with processes:
                table(benchmark.processes, "processes", columns=COLUMNS)
    _show_throughput(benchmark)
    for snapshot in benchmark.bundle.snapshots:
        label = f"Target {inert(snapshot.target)}, as it was when this was measured"
        with st.expander(label, icon=":material/dns:"):
            for heading, value in host_facts(snapshot.host):
                st.markdown(f"**{heading}** {inert(value)}")


def show_all(benchmark: WholeBenchmark) -> None:
    """Show every measurement of many targets once somebody wants to see them."""
    label = f"All {count_of(len(benchmark.measurements), 'measurement')}"
    expander = st.expander(label, icon=":material/table_rows:", key="all of many", on_change="rerun")
    if expander.open:
        with expander:
            table(benchmark.rows, "measurements", columns=COLUMNS)


def _show_throughput(benchmark: WholeBenchmark) -> None:
    if not timed(benchmark.measurements):
        return
    label = "Throughput of everything, by batch"
    expander = st.expander(label, icon=":material/bar_chart:", key="throughput of everything", on_change="rerun")
    if expander.open and (figure := throughput_figure(benchmark.measurements, reading.engine_looks())) is not None:
        with expander:
            st.caption("Items per second of the whole steady state. More is better.")
            chart(figure, "throughput", alt="Items per second by batch")


GATE_ICONS = {
    GateOutcome.WORSE: ":material/trending_down:",
    GateOutcome.PASSES: ":material/check:",
    GateOutcome.CANNOT_TELL: ":material/help:",
}


def show_gate(result: GateResult) -> None:
    """Show the verdict first, then what it rests on."""
    with st.container(border=True, key="answer"):
        st.markdown(f"{GATE_ICONS[result.outcome]} **{inert(headline(result))}**")
        for line in gate_remarks(result):
            (st.error if line in result.problems else st.caption)(inert(line))
        known = (one for one in result.judged.metrics if one.base is not None or one.head is not None or one.decides)
        table([_gate_row(one) for one in known], "gate")
        st.caption(inert(f"× is head ÷ base with its 95 % interval. {meaning(result)}"))


def _gate_row(one: MetricResult) -> Row:
    ratio, interval = ratio_words(one)
    return {
        "Metric": one.metric.value,
        "Decides": one.decides,
        "Verdict": verdict_words(one),
        "Head ÷ base": ratio,
        "95 % interval": interval,
        "Base": amount(one.metric, one.base),
        "Head": amount(one.metric, one.head),
    }


VIEWS = {"baseline": "Baseline", "cores": "Core scaling", "batches": "Batch size scaling", "trend": "Trend"}


def show() -> None:
    """Draw the page."""
    st.page_link(BENCHMARKS, label="All benchmarks", icon=":material/arrow_back:")
    benchmark_id = st.query_params.get("id", "")
    if not benchmark_id:
        st.info("No benchmark is chosen; take one from the list.")
        return
    with reading.banner_on_error():
        benchmark = stored.whole(benchmark_id)
        show_heading(benchmark)
        follow_own_jobs(benchmark.id)
    if not benchmark.measurements:
        st.info("Nothing has been measured in this benchmark yet. Measurements appear here as they are stored.")
        return
    with reading.banner_on_error():
        gated = reading.gated(benchmark.id)
        if gated is not None:
            show_gate(gated)
        elif benchmark.is_of_many:
            target = show_across(benchmark)
            if not target:
                show_failures(benchmark)
                show_all(benchmark)
                return
            benchmark = stored.whole(benchmark_id, target)
        if gated is None:
            show_answers(stored.answers(benchmark))
    show_doubts(benchmark)
    st.fragment(show_views)(benchmark)
    st.fragment(show_overview)(benchmark)


def show_views(benchmark: WholeBenchmark) -> None:
    """Draw what changes with each choice, and nothing else."""
    if not any(line.has_numbers for line in benchmark.lines):
        st.info("There is nothing to draw: no measurement has numbers.")
        show_failures(benchmark)
        return
    with reading.banner_on_error():
        choose_cell(benchmark)
        show_failures(benchmark)
        choice = choose_lines(benchmark)
    bar = st.container(horizontal=True, vertical_alignment="bottom")
    with bar:
        view = choose_view("View", VIEWS, "view", default="baseline")
    if view == "baseline":
        show_baseline(choice, bar)
    elif view == "trend":
        show_trend(choice, bar)
    else:
        show_scaling(choice, Axis.CORES if view == "cores" else Axis.BATCH, bar)


show()
