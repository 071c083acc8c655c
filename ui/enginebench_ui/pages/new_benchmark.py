"""A new benchmark: what is to be measured, what that comes to, and its start as a job of its own."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.jobs import start_job
from enginebench_controller.planning.durations import expected_range_ns
from enginebench_controller.planning.expand import Job
from enginebench_controller.planning.plan import Plan, make_plan, plan_toml
from enginebench_controller.planning.preview import Preview, preview
from enginebench_ui import reading
from enginebench_ui.order_page import reading as kept
from enginebench_ui.order_page.axes import choose_batch, choose_cores
from enginebench_ui.order_page.conduct import choose_inputs, choose_load, choose_timing
from enginebench_ui.order_page.models import choose_models, labels_of_models
from enginebench_ui.order_page.others import choose_other
from enginebench_ui.order_page.places import Places, choose_places, show_what_is_known
from enginebench_ui.order_page.summary import show_refusals
from enginebench_ui.pages import JOB
from enginebench_ui.views.ordering.cell_grid import cell_grid, legend, tally
from enginebench_ui.views.ordering.choices import Labels, core_counts, families, label_name, most_cores
from enginebench_ui.views.ordering.estimates import range_words
from enginebench_ui.views.ordering.fields import Fields, default_name
from enginebench_ui.views.text import count_of, inert

_ABOUT_ESTIMATES = (
    "An estimate from the stop rules, with a guess of 2 s for loading and compiling each process: longer for large "
    "models, and where the machine is not quiet. Devices and targets that share nothing work side by side."
)


def show() -> None:
    """Draw the page."""
    st.title("New benchmark", anchor=False)
    left, right = st.columns([5, 4], gap="large")
    with left, reading.banner_on_error():
        labels = labels_of_models()
        models = choose_models(labels)
        places = choose_places()
        show_what_is_known(places)
        other = choose_other()
        fields = _choose_configurations(places)
    with right, st.container(border=True, key="order"):
        st.subheader("What this comes to", anchor=False)
        if fields is not None:
            _show_order(fields | {"models": models}, labels, places, other)


def _choose_configurations(places: Places) -> Fields | None:
    most = most_cores(places.snapshots)
    batch, cores = st.columns(2)
    with batch:
        fields = dict(places.fields) | choose_batch()
    with cores:
        fields |= choose_cores(core_counts(most), most)
    try:
        return fields | choose_timing() | choose_load() | choose_inputs()
    except EnginebenchError as error:
        show_refusals(str(error).splitlines())
        return None


def _show_order(fields: Fields, labels: Labels, places: Places, other: str | None) -> None:
    if not fields["models"]:
        st.info("Choose a model version, and the cells to measure appear here.", icon=":material/arrow_back:")
        return
    names = [label_name(labels[key]) for key in st.query_params.get("model", "").split(",") if key in labels]
    name = st.text_input("Name", placeholder=default_name(names, places.engines), max_chars=200, key="name")
    try:
        plan = make_plan(fields | {"name": name.strip() or default_name(names, places.engines)}, "this form")
    except EnginebenchError as error:
        show_refusals(str(error).splitlines())
        return
    if places.unasked:
        st.info("What can run shows here once the engines are known.", icon=":material/info:")
        return
    found = preview(default_home().library, plan, places.snapshots)
    show_cells(found)
    _show_start(plan, found, other)


def _show_start(plan: Plan, found: Preview, other: str | None) -> None:
    disabled = found.expansion is None
    if st.button("Run", type="primary", icon=":material/play_arrow:", disabled=disabled, width="stretch", key="run"):
        with reading.banner_on_error():
            job = start_job(default_home(), plan.name or "benchmark", ["run"], plan, compare_with=other)
        st.switch_page(JOB, query_params={"id": job.id})
    with st.expander("The same on the command line", icon=":material/terminal:"):
        st.caption("Save this as plan.toml, and run `enginebench run plan.toml`.")
        st.code(plan_toml(plan), language="toml", height=240)


def show_cells(preview: Preview) -> None:
    """Show the grid, what is new in it, and the estimate."""
    if preview.expansion is None:
        show_refusals(preview.refusals)
        return
    jobs = preview.expansion.jobs
    family = families(reading.versions())
    wanted = {job.model.digest for job in jobs}
    measured = kept.measured_cells(digest for digest in {*family, *wanted} if family.get(digest, digest) in wanted)
    new, again = tally(jobs, measured, family)
    with st.container(horizontal=True):
        st.metric("Configurations", len(jobs), border=True, width="stretch", help=_which(jobs))
        st.metric(
            "Takes about", range_words(*expected_range_ns(jobs)), border=True, width="stretch", help=_ABOUT_ESTIMATES
        )
    grid = cell_grid(jobs, measured, family)
    st.dataframe(
        list(grid),
        hide_index=True,
        placeholder=" ",
        column_config={"Batch": st.column_config.NumberColumn(width="small", pinned=True)},
        alt="Batch sizes and cores as a grid, with what is measured already.",
    )
    st.caption(legend(new, again, grid))
    for note in preview.expansion.notes:
        st.caption(f":material/info: {inert(note)}")


def _which(jobs: Sequence[Job]) -> str:
    """Count what multiplies out."""
    axes: dict[str, set[object]] = {
        "model version": {job.model.digest for job in jobs},
        "engine": {job.engine for job in jobs},
        "target": {job.target for job in jobs},
        "device": {job.configuration.device for job in jobs},
        "batch size": {job.configuration.batch for job in jobs},
        "core count": {job.configuration.cores for job in jobs},
    }
    return " × ".join(count_of(len(values), noun) for noun, values in axes.items())


show()
