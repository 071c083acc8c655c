"""The top of the page: which profile it is, the others of the same model, and its exports."""

from collections.abc import Callable, Sequence

import streamlit as st

from enginebench_controller.exports import ExportFormat
from enginebench_controller.records import Profile
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui import profile_reading
from enginebench_ui.pages import PROFILE
from enginebench_ui.views.magnitudes import STATUS_COLOURS
from enginebench_ui.views.profiles.siblings import Sibling
from enginebench_ui.views.text import inert, instant

EXPORTS = {
    ExportFormat.JSON: ("JSON, everything", "json", "application/json"),
    ExportFormat.CSV: ("CSV, a row a layer", "csv", "text/csv"),
    ExportFormat.PARQUET: ("Parquet, a row a layer", "parquet", "application/vnd.apache.parquet"),
    ExportFormat.TRACE: ("Trace for Perfetto", "trace.json", "application/json"),
}


def show_heading(entry: ProfileEntry) -> None:
    """Draw the name, what ran, and how it ended."""
    st.title(inert(entry.name) or "Unnamed profile", anchor=False)
    facts = (entry.model_name, entry.id, instant(entry.created_at_unix_ns))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(entry.status.value, color=STATUS_COLOURS[entry.status])
        if entry.imported:
            st.badge("imported", color="gray")
        if entry.imposed_sparsity:
            st.badge(f"{100 * entry.imposed_sparsity:g} % zeros imposed", color="violet")
        st.caption(" · ".join(map(inert, facts)), width="content")


def show_switch(found: Sequence[Sibling], current: str) -> None:
    """Draw the choice among the profiles of a model; choosing another opens it."""
    keys = [one.key for one in found]
    chosen = st.selectbox(
        "Performance profile of this model",
        found,
        index=keys.index(current) if current in keys else 0,
        format_func=lambda one: one.label,
        key=f"sibling of {current}",
    )
    if chosen is not None and chosen.key != current:
        st.switch_page(PROFILE, query_params=dict(chosen.query))


def show_exports(profile: Profile) -> None:
    """Draw the buttons that save the profile; a file is only made when its button is pressed."""
    with st.popover("Export", icon=":material/download:", help="Save the profile for other programs."):
        for form, (label, suffix, kind) in EXPORTS.items():
            st.download_button(
                label,
                _contents(profile, form),
                file_name=f"profile-{profile.id[:12]}.{suffix}",
                mime=kind,
                on_click="ignore",
                width="stretch",
                key=f"export {form}",
            )


def _contents(profile: Profile, form: ExportFormat) -> Callable[[], bytes]:
    return lambda: profile_reading.exported(profile, form)
