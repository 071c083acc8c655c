"""Targets with their health, engines, devices and peaks; adding, asking, calibrating and removing them."""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from urllib.parse import quote

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home, default_home
from enginebench_controller.jobs.record import Job
from enginebench_controller.records import Target
from enginebench_controller.runs.undertaking import outcomes_held_by
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.health import Health, HealthAnswer, ask_health
from enginebench_ui.pages import TARGETS
from enginebench_ui.pages.targets.shapes import (
    MOST_IN_A_TABLE,
    State,
    bandwidth_figure,
    bandwidth_rows,
    busy_sentence,
    core_counts,
    crowd,
    groupings,
    map_html,
    operation_rows,
    operations_figure,
    peaks_on,
    trouble,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one, choose_view
from enginebench_ui.shared.following import follow_jobs, start_followed
from enginebench_ui.shared.showing import chart, table
from enginebench_ui.shared.targets import TargetView, askable, overview_rows, target_views
from enginebench_ui.shared.text import Row, count_of, inert, instant

LIMIT_S = 3.0
"""How long a target may take to answer."""
KEPT_S = 30.0
"""How long an answer holds, so that a click elsewhere on the page does not ask again."""

_ANSWERS = "health of targets"
HEALTH_COLUMNS = {
    "Health": st.column_config.TextColumn(help=f"Asked when this page was opened; at most {LIMIT_S:g} s each."),
    "Answer (ms)": st.column_config.NumberColumn(format="%.0f"),
    "Reserved": st.column_config.TextColumn(help="By whom, and for how long still: runs of others wait."),
    "Engines": st.column_config.TextColumn(help="Available, of those that are known there."),
}


def show_overview(views: Sequence[TargetView]) -> None:
    """Show every target in a line, first with the health of a moment ago, then with what it answers now."""
    st.fragment(_show_health, parallel=True)(views)


def show_crowd(views: Sequence[TargetView]) -> None:
    """Show what is wrong with whom, a map, and those that a person looks for, each with a link to it.

    Nobody is asked before a person wants it: a thousand answers take a minute, and some are never given.
    """
    with reading.banner_on_error():
        noise = reading.noise()
    seen = crowd(views, _answers_of(_last_answers()), noise, version("enginebench"))
    is_fine = all(one.state is State.FINE for one in seen)
    (st.success if is_fine else st.warning)(trouble(seen), icon=":material/check:" if is_fine else ":material/warning:")
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    words = left.text_input(
        "Find", key="find", placeholder="site=lab2 rock5", help="All these in name, address, labels or facts."
    )
    keys = groupings(seen)
    with right:
        by = choose_one("Map by", {key: key for key in keys}, "by", default=keys[0])
    found = [one for one in seen if one.has(words.split())]
    states = [state for state in State if any(one.state is state for one in found)]
    wanted = st.pills("State", states, selection_mode="multi", label_visibility="collapsed", key="states")
    found = [one for one in found if not wanted or one.state in wanted]
    if not found:
        st.info("No target is like that.", icon=":material/search:")
        return
    st.html(map_html(found, by))
    chosen = [one.view for one in found]
    if st.button(f"Check health of {count_of(len(chosen), 'target')}", icon=":material/favorite:"):
        with st.spinner("Asking them, 32 at a time"):
            answers = {one.target.name: one for one in ask_health(askable(chosen), LIMIT_S, default_home().tls)}
        _keep_answers(answers)
        st.rerun()
    if said := _last_answers():
        st.caption(f"Those who were asked in this tab are as they answered last, at {_asked(said)}.")
    rows = zip(overview_rows(chosen, _answers_of(said)), found, strict=True)
    table(
        [
            {"": f"?target={quote(one.view.name)}", "Target": row["Target"], "State": one.state.value}
            | _without_health(row)
            for row, one in rows
        ],
        "found targets",
        columns=HEALTH_COLUMNS | {"": st.column_config.LinkColumn(display_text="open", width="small")},
    )


def _without_health(row: Row) -> Row:
    """What is asked only if a person wants it is said by the state, then."""
    return {heading: value for heading, value in row.items() if heading not in ("Target", "Health")}


def _show_health(views: Sequence[TargetView]) -> None:
    place = st.empty()
    asked_anew = st.button(
        "Check health", icon=":material/favorite:", help=f"Asks all targets at once, for {LIMIT_S:g} s at most."
    )
    known = {} if asked_anew else _kept_answers()
    _draw(place, views, known)
    if missing := [target for target in askable(views) if target.name not in known]:
        answers = {answer.target.name: answer for answer in ask_health(missing, LIMIT_S, default_home().tls)}
        _keep_answers(answers)
        _draw(place, views, known | answers)


def _draw(
    place: st.delta_generator.DeltaGenerator, views: Sequence[TargetView], answers: Mapping[str, HealthAnswer]
) -> None:
    with place.container():
        table(overview_rows(views, answers), f"targets {len(answers)}", columns=HEALTH_COLUMNS)


def _keep_answers(answers: Mapping[str, HealthAnswer]) -> None:
    now_ns = time.time_ns()
    st.session_state[_ANSWERS] = _last_answers() | {name: (now_ns, one) for name, one in answers.items()}


def _last_answers() -> dict[str, tuple[int, HealthAnswer]]:
    """By target what it answered last, and when, in nanoseconds since 1970."""
    return dict(st.session_state.get(_ANSWERS, {}))


def _answers_of(said: Mapping[str, tuple[int, HealthAnswer]]) -> dict[str, HealthAnswer]:
    return {name: answer for name, (_, answer) in said.items()}


def _asked(said: Mapping[str, tuple[int, HealthAnswer]]) -> str:
    """When they were asked: "2026-11-28 10:12", or from when to when."""
    times = [at_ns for at_ns, _ in said.values()]
    return " to ".join(dict.fromkeys((instant(min(times)), instant(max(times)))))


def _kept_answers() -> dict[str, HealthAnswer]:
    """The answers of a moment ago, which need not be asked for again."""
    since_ns = time.time_ns() - KEPT_S * 1e9
    return {name: answer for name, (at_ns, answer) in _last_answers().items() if at_ns >= since_ns}


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
    start_followed(home, f"Look at {name}", ("devices", f"--target={name}", "--refresh"))


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
            start_followed(
                home, f"Calibrate {view.name}", ("targets", "calibrate", view.name, f"--engine={engine}", *counts)
            )


def show_remove_form(home: Home, view: TargetView) -> None:
    """Show the question behind a button: what is removed, and what stays."""
    # Not a dialog: one would close, its answer lost, as soon as a job that the page follows ends.
    with st.popover("Remove", icon=":material/delete:", key=f"remove {view.name}"):
        st.markdown(f"**{inert(view.name)}** at {inert(view.address)} is forgotten. What is stored of it stays.")
        if held := outcomes_held_by(view.name, home.path, home.store.stored_ids):
            st.markdown(
                f"It may still have {held:,} of the results of interrupted commands: the next `enginebench resume` "
                "gives that up, unless it is added again under this name before."
            )
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
    (answer,) = ask_health([target], LIMIT_S, default_home().tls)
    return "" if answer.health is Health.SERVING else answer.sentence


def _remove(home: Home, view: TargetView) -> None:
    try:
        home.store.remove_target(view.name)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        return
    st.query_params.pop("target", None)
    st.rerun()


MOST_SIDE_BY_SIDE = 6
IN_A_ROW = 3

_TEXT = st.column_config.TextColumn
ENGINE_COLUMNS = {
    "Why": _TEXT(width=700),
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
    if len(views) > MOST_IN_A_TABLE:
        asked = next((view for view in views if view.name == st.query_params.get("target")), None)
        if asked is None:
            show_crowd(views)
            return
        st.page_link(TARGETS, label="All targets", icon=":material/arrow_back:")
        _show_target(asked)
        return
    show_overview(views)
    name = _choose(views)
    _show_target(next(view for view in views if view.name == name))


def _show_how_to_begin() -> None:
    st.info("No target is known yet. Look at this machine, or add another one that runs an agent:")
    st.code("enginebench devices\nenginebench targets add NAME HOST:PORT", language="bash")
    if st.button("Look at this machine", icon=":material/search:", key="look"):
        ask_anew(default_home(), "local")
    follow_jobs(belongs_to("local"))


def _choose(views: Sequence[TargetView]) -> str:
    """Let a person choose a target; at first the first one that has told what it is."""
    default = next((view.name for view in views if view.was_seen), views[0].name)
    if len(views) == 1:
        return default
    if len(views) > MOST_SIDE_BY_SIDE:  # a drop-down shows its options as they are, and no Markdown
        return choose_one("Target", {view.name: view.name for view in views}, "target", default=default)
    return choose_view("Target", {view.name: inert(view.name) for view in views}, "target", default=default)


def _show_target(view: TargetView) -> None:
    st.header(inert(view.name), anchor=False)
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
    st.markdown("### Engines")
    if view.engines:
        table(view.engines, f"engines {view.name}", columns=ENGINE_COLUMNS)
    else:
        st.info("No engine can be used there. `enginebench-agent environment add` on the target installs one.")
    if view.unavailable:
        with st.expander(
            f"{count_of(len(view.unavailable), 'engine')} unavailable, and why", expanded=not view.engines
        ):
            table(view.unavailable, f"unavailable engines {view.name}", columns=ENGINE_COLUMNS)
    if not view.engines:
        return
    st.markdown("### Devices")
    if view.devices:
        table(view.devices, f"devices {view.name}", columns=DEVICE_COLUMNS)
    else:
        st.info("No available engine has found a device.", icon=":material/info:")


def _show_peaks(view: TargetView) -> None:
    with reading.banner_on_error():
        peaks = [peak for peak in reading.peaks() if peak.is_of(view.name, view.cpu_model)]
    counts = core_counts(peaks)
    st.markdown("### Measured peaks")
    if not counts:
        st.info(
            "Not calibrated yet: layers cannot be held against what this machine can do at best. Calibrate it, or run"
        )
        st.code(f"enginebench targets calibrate {view.name}", language="bash")
        return
    st.caption(
        "What each engine reached at best in its last calibration, with 95 % intervals. A multiplication and an "
        "addition are two operations."
    )
    options = {str(count): str(count) for count in counts}
    cores = choose_view("Cores", options, "cores", default=str(counts[-1]), scope=view.name)
    found = peaks_on(peaks, int(cores))
    if sentence := busy_sentence(found):
        st.warning(sentence, icon=":material/warning:")
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Operations a second**, by precision")
        if figure := operations_figure(found, reading.engine_looks()):
            chart(figure, f"operations {view.name}", name=f"peaks-{view.name}", alt="Operations a second by precision.")
        table(operation_rows(found), f"operation rows {view.name}", columns=PEAK_COLUMNS)
    with right:
        st.markdown("**Memory bandwidth**, by size of the data")
        if figure := bandwidth_figure(found, reading.engine_looks()):
            chart(figure, f"bandwidth {view.name}", name=f"bandwidth-{view.name}", alt="Bandwidth by size of the data.")
        table(bandwidth_rows(found), f"bandwidth rows {view.name}", columns=PEAK_COLUMNS)


show()
