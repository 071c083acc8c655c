"""Targets with their engines and devices, as they last said of themselves."""

import streamlit as st

from enginebench_ui import reading
from enginebench_ui.views.targets import TargetView, target_views
from enginebench_ui.views.text import inert


def show() -> None:
    """Draw the page."""
    st.title("Targets and engines")
    with reading.banner_on_error():
        targets, snapshots = reading.targets()
    views = target_views(targets, snapshots)
    if not views:
        _show_how_to_begin()
    for view in views:
        _show_target(view)


def _show_how_to_begin() -> None:
    st.info("No target is known yet. Look at this machine, or add another one that runs an agent:")
    st.code("enginebench devices\nenginebench targets add NAME HOST:PORT", language="bash")


def _show_target(view: TargetView) -> None:
    st.subheader(inert(view.name), anchor=False)
    st.caption(inert(f"{view.address} · last seen: {view.last_seen}"))
    if not view.facts:
        st.info("This target has not been asked what it is yet:")
        st.code(f"enginebench devices --target {view.name}", language="bash")
        return
    _show_facts(view)
    if view.engines:
        st.dataframe(list(view.engines), hide_index=True, placeholder="–", height="content", key=f"engines {view.name}")
    else:
        st.info("No engine is installed there. `enginebench-agent environment add` on the target installs one.")


def _show_facts(view: TargetView) -> None:
    columns = st.columns(3)
    for index, (heading, value) in enumerate(view.facts):
        columns[index % len(columns)].markdown(f"**{heading}** {inert(value)}")


show()
