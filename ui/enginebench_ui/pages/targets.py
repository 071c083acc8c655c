"""Targets with their health, engines, devices and peaks; adding, asking, calibrating and removing them."""

import streamlit as st

from enginebench_controller.home import default_home
from enginebench_ui import reading
from enginebench_ui.choosing import choose_one, choose_view
from enginebench_ui.following import follow_jobs
from enginebench_ui.showing import chart, table
from enginebench_ui.targets_page.health import show_overview
from enginebench_ui.targets_page.work import (
    ask_anew,
    belongs_to,
    show_add_form,
    show_calibrate_form,
    show_remove_form,
)
from enginebench_ui.views.peaks import (
    bandwidth_figure,
    bandwidth_rows,
    busy_sentence,
    core_counts,
    operation_rows,
    operations_figure,
    peaks_on,
)
from enginebench_ui.views.targets import TargetView, target_views
from enginebench_ui.views.text import inert

MOST_SIDE_BY_SIDE = 6
IN_A_ROW = 3

_TEXT = st.column_config.TextColumn
ENGINE_COLUMNS = {
    "Status": _TEXT(width=260, help="Available, or why not."),
    "Loads": _TEXT(help="How requests can reach it: one after the other, or several at once."),
    "Streams": _TEXT(help="Whether it can run several inferences side by side."),
    "Layer times": _TEXT(help="Whether it can be profiled layer by layer."),
    "Plugin": _TEXT(help="The package that brings the engine to enginebench."),
}
DEVICE_COLUMNS = {"Shares": _TEXT(help="What it uses: devices that share one are never measured at the same time.")}
_RATE = st.column_config.NumberColumn(format="%,.1f")
PEAK_COLUMNS = {
    "Engine": _TEXT(width=160),
    "Gop/s": _RATE,
    "GB/s": _RATE,
    "Low": st.column_config.NumberColumn(format="%,.1f", help="Of the 95 % interval."),
    "High": st.column_config.NumberColumn(format="%,.1f", help="Of the 95 % interval."),
    "Remark": _TEXT(width="large"),
}


def show() -> None:
    """Draw the page."""
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    left.title("Targets and engines")
    with reading.banner_on_error():
        targets, snapshots = reading.targets()
    with right:
        show_add_form(default_home(), len(targets))
    views = target_views(targets, snapshots)
    if not views:
        _show_how_to_begin()
        return
    show_overview(views, snapshots)
    name = _choose(views)
    _show_target(next(view for view in views if view.name == name))


def _show_how_to_begin() -> None:
    st.info("No target is known yet. Look at this machine, or add another one that runs an agent:")
    st.code("enginebench devices\nenginebench targets add NAME HOST:PORT", language="bash")
    if st.button("Look at this machine", icon=":material/search:", key="look"):
        ask_anew(default_home(), "local")
    follow_jobs(belongs_to("local"))


def _choose(views: tuple[TargetView, ...]) -> str:
    """Let a person choose a target; at first the first one that has told what it is."""
    default = next((view.name for view in views if view.was_seen), views[0].name)
    if len(views) == 1:
        return default
    if len(views) > MOST_SIDE_BY_SIDE:  # a drop-down shows its options as they are, and no Markdown
        return choose_one("Target", {view.name: view.name for view in views}, "target", default=default)
    return choose_view("Target", {view.name: inert(view.name) for view in views}, "target", default=default)


def _show_target(view: TargetView) -> None:
    st.subheader(inert(view.name), anchor=False)
    st.caption(inert(f"{'this machine' if view.is_local else view.address} · last seen: {view.last_seen}"))
    with st.container(horizontal=True):
        if st.button("Look again", icon=":material/refresh:", help="Asks for the host, its engines and its devices."):
            ask_anew(default_home(), view.name)
        if view.names:
            show_calibrate_form(default_home(), view)
        if view.is_added:
            show_remove_form(default_home(), view)
    follow_jobs(belongs_to(view.name))
    if not view.was_seen:
        st.info("This target has not been asked what it is yet: look at it, or run", icon=":material/info:")
        st.code(f"enginebench devices --target {view.name}", language="bash")
        return
    _show_facts(view)
    _show_engines(view)
    _show_peaks(view)


def _show_facts(view: TargetView) -> None:
    for start in range(0, len(view.facts), IN_A_ROW):
        # A row of columns at a time: on a narrow screen they stand one below the other, in the same order.
        for column, (heading, value) in zip(st.columns(IN_A_ROW), view.facts[start : start + IN_A_ROW], strict=False):
            column.markdown(f"**{heading}**  \n{inert(value)}")


def _show_engines(view: TargetView) -> None:
    st.markdown("##### Engines")
    if not view.engines:
        st.info("No engine is installed there. `enginebench-agent environment add` on the target installs one.")
        return
    table(view.engines, f"engines {view.name}", columns=ENGINE_COLUMNS)
    st.markdown("##### Devices")
    if view.devices:
        table(view.devices, f"devices {view.name}", columns=DEVICE_COLUMNS)
    else:
        st.info("No available engine has found a device.", icon=":material/info:")


def _show_peaks(view: TargetView) -> None:
    with reading.banner_on_error():
        peaks = reading.peaks()
    counts = core_counts(peaks, view.name)
    st.markdown("##### Measured peaks")
    if not counts:
        st.info(
            "Not calibrated yet: layers cannot be held against what this machine can do at best. Calibrate it, or run"
        )
        st.code(f"enginebench targets calibrate {view.name}", language="bash")
        return
    st.caption(
        "What each engine reached at best, with 95 % intervals. A multiplication and an addition are two operations."
    )
    options = {str(count): str(count) for count in counts}
    cores = choose_view("Cores", options, "cores", default=str(counts[-1]), scope=view.name)
    found = peaks_on(peaks, view.name, int(cores))
    if sentence := busy_sentence(found):
        st.warning(sentence, icon=":material/warning:")
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Operations a second**, by precision")
        if figure := operations_figure(found):
            chart(figure, f"operations {view.name}", name=f"peaks-{view.name}", alt="Operations a second by precision.")
        table(operation_rows(found), f"operation rows {view.name}", columns=PEAK_COLUMNS)
    with right:
        st.markdown("**Memory bandwidth**, by size of the data")
        if figure := bandwidth_figure(found):
            chart(figure, f"bandwidth {view.name}", name=f"bandwidth-{view.name}", alt="Bandwidth by size of the data.")
        table(bandwidth_rows(found), f"bandwidth rows {view.name}", columns=PEAK_COLUMNS)


show()
