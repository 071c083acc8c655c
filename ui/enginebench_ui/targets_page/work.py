"""What a person can do with a target: add it, look at it again, calibrate it, remove it."""

from collections.abc import Callable

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home
from enginebench_controller.jobs import Job, start_job
from enginebench_controller.records import Target
from enginebench_controller.running.health import Health, ask_health
from enginebench_controller.running.target_address import new_target
from enginebench_ui.targets_page.health import LIMIT_S
from enginebench_ui.views.targets import TargetView
from enginebench_ui.views.text import inert


def show_add_form(home: Home, targets: int) -> None:
    """Show the form behind a button: the target is added once it answers, or without, where a person says so.

    `targets` is how many there are: with one more, the form is another one, closed and empty.
    """
    key = f"add target {targets}"
    with (
        st.popover("Add a target", icon=":material/add:", width="stretch", key=key),
        st.form(f"{key} form", border=False),
    ):
        name = st.text_input("Name", placeholder="nuc")
        address = st.text_input(
            "Address", placeholder="nuc.local:50151", help="HOST:PORT where its agent listens, or ssh://USER@HOST."
        )
        also_silent = st.checkbox("Add it even if it does not answer now")
        st.caption("Start `enginebench-agent serve` on the machine first.")
        if st.form_submit_button("Add", type="primary", icon=":material/add:"):
            _add(home, name.strip(), address.strip(), also_silent=also_silent)


def ask_anew(home: Home, name: str) -> None:
    """Have a job ask a target for its host facts and its engines: their discovery may take minutes."""
    _start(home, f"Look at {name}", ("devices", f"--target={name}", "--refresh"))


def show_calibrate_form(home: Home, view: TargetView) -> None:
    """Show the form behind a button: a job measures what engines reach at best."""
    with st.popover("Calibrate", icon=":material/tune:"), st.form(f"calibrate {view.name}", border=False):
        st.caption("Measures what engines reach at best, some minutes each. Nothing else should run there meanwhile.")
        engines = st.multiselect("Engines", view.names, default=view.names)
        cores = st.text_input("Cores", placeholder="1, 2, 4 and so on, and all", help="Numbers parted by commas.")
        if st.form_submit_button("Calibrate", type="primary", icon=":material/tune:"):
            if not engines:
                st.error("Choose at least one engine.", icon=":material/error:")
                return
            counts = (f"--cores={cores.replace(' ', '')}",) if cores.strip() else ()
            engine = "all" if len(engines) == len(view.names) else ",".join(engines)
            _start(home, f"Calibrate {view.name}", ("targets", "calibrate", view.name, f"--engine={engine}", *counts))


def show_remove_form(home: Home, view: TargetView) -> None:
    """Show the question behind a button: what is removed, and what stays."""
    # Not a dialog: one would close, its answer lost, as soon as a job that the page follows ends.
    with st.popover("Remove", icon=":material/delete:", key=f"remove {view.name}"):
        st.markdown(f"**{inert(view.name)}** at {inert(view.address)} is forgotten. What was measured on it stays.")
        if st.button("Remove it", type="primary", icon=":material/delete:"):
            _remove(home, view)


def belongs_to(name: str) -> Callable[[Job], bool]:
    """Tell the jobs that look at a target or calibrate it from others."""
    words = {name, f"--target={name}"}
    return lambda job: job.kind in ("devices", "targets calibrate") and not words.isdisjoint(job.arguments)


def _add(home: Home, name: str, address: str, *, also_silent: bool) -> None:
    try:
        target = new_target(name, address)
        if (problem := _silence(target)) and not also_silent:
            st.error(inert(f"Not added: {problem}."), icon=":material/error:")
            return
        home.store.add_target(target)
    except EnginebenchError as error:
        st.error(inert(f"Not added: {error}"), icon=":material/error:")
        return
    if not problem:
        ask_anew(home, name)
    st.query_params["target"] = name
    st.rerun()


def _silence(target: Target) -> str:
    """Say why a target does not answer; empty where it does."""
    (answer,) = ask_health([target], LIMIT_S)
    return "" if answer.health is Health.SERVING else answer.sentence


def _remove(home: Home, view: TargetView) -> None:
    try:
        home.store.remove_target(view.name)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        return
    st.query_params.pop("target", None)
    st.rerun()


def _start(home: Home, title: str, arguments: tuple[str, ...]) -> None:
    try:
        start_job(home, title, arguments)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
    else:
        st.toast("Started; it goes on if you leave this page.", icon=":material/check:")
