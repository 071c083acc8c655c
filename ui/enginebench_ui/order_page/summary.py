"""What an order comes to before it is run: its cells, how long they will take, or why they cannot be."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.planning.durations import expected_range_ns
from enginebench_controller.planning.expand import Job
from enginebench_controller.planning.preview import Preview
from enginebench_controller.records import IMPOSED_SPARSITY
from enginebench_ui import reading
from enginebench_ui.order_page import reading as kept
from enginebench_ui.showing import table
from enginebench_ui.views.ordering.cell_grid import cell_grid, legend, tally
from enginebench_ui.views.ordering.choices import families
from enginebench_ui.views.ordering.estimates import range_words
from enginebench_ui.views.ordering.profiles import passes_words
from enginebench_ui.views.text import Row, count_of, inert

_ABOUT_ESTIMATES = (
    "An estimate from the stop rules, with a guess of 2 s for loading and compiling each process: longer for large "
    "models, and where the machine is not quiet. Devices and targets that share nothing work side by side."
)


def show_refusals(reasons: Sequence[str]) -> None:
    """Say why nothing can be run, in the planner's words."""
    heading = "This cannot be run:" if len(reasons) == 1 else f"This cannot be run, for {len(reasons)} reasons:"
    st.error("\n".join([heading, "", *(f"- {inert(reason)}" for reason in reasons)]), icon=":material/block:")


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


def show_passes(preview: Preview, sparsities: Sequence[float]) -> None:
    """Show the passes of a profile one by one."""
    if preview.expansion is None:
        show_refusals(preview.refusals)
        return
    jobs = preview.expansion.jobs
    st.caption(passes_words(len(jobs), sparsities))
    table([_pass_row(job) for job in jobs], "passes")
    for note in preview.expansion.notes:
        st.caption(f":material/info: {inert(note)}")


def _pass_row(job: Job) -> Row:
    asked = job.configuration
    imposed = asked.options.get(IMPOSED_SPARSITY)
    return {
        "Engine": job.engine.name,
        "Device": asked.device,
        "Batch": asked.batch,
        "Cores": asked.cores,
        "Precision": asked.precision,
        "Zeros imposed (%)": None if imposed is None else 100 * float(imposed),
    }
