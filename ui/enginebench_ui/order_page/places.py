"""Choosing where to measure: targets, engines and devices, as far as targets were asked what they have."""

from dataclasses import dataclass

import streamlit as st

from enginebench_controller.home import default_home
from enginebench_controller.jobs import Job, start_job
from enginebench_controller.records import LOCAL_TARGET, TargetSnapshot
from enginebench_ui import reading
from enginebench_ui.choosing import choose_several
from enginebench_ui.following import follow_jobs
from enginebench_ui.views.ordering.choices import device_labels, engine_labels, target_labels, unavailable_engines
from enginebench_ui.views.ordering.fields import Fields, stated, targets
from enginebench_ui.views.text import inert, instant

ASK = "devices"
"""The command that asks targets for their engines."""


@dataclass(frozen=True)
class Places:
    """Where to measure; `snapshots` are what the chosen targets said last, without those that were never asked."""

    fields: Fields
    snapshots: tuple[TargetSnapshot, ...]
    engines: tuple[str, ...]
    unasked: tuple[str, ...]


def choose_places() -> Places:
    """Let a person choose targets, engines and devices; where nothing is chosen the plan's defaults hold."""
    known, seen = reading.targets()
    said = {snapshot.target: snapshot for snapshot in seen}
    names = choose_several("Targets", target_labels(known), "target", default=(), placeholder="this machine") or (
        LOCAL_TARGET,
    )
    snapshots = tuple(said[name] for name in names if name in said)
    engines = choose_several(
        "Engines",
        engine_labels(snapshots, st.query_params.get("engine", "").split(",")),
        "engine",
        default=(),
        placeholder="all that read the model",
        help="Two or more are measured on the same inputs, to be compared side by side.",
    )
    devices = choose_several(
        "Devices",
        device_labels(snapshots, engines),
        "device",
        default=(),
        placeholder="each engine's CPU, or its first device",
    )
    fields = targets(names) | stated({"engines": list(engines), "devices": list(devices)})
    unasked = tuple(name for name in names if name not in said)
    return Places(fields, snapshots, engines, unasked)


def show_what_is_known(places: Places) -> None:
    """Say how old the knowledge is and what is missing, and offer to ask anew."""
    for sentence in unavailable_engines(places.snapshots):
        st.caption(f":material/info: {inert(sentence)}")
    if places.unasked:
        who = ", ".join("this machine" if name == LOCAL_TARGET else name for name in places.unasked)
        st.warning(
            f"Nobody has asked {inert(who)} yet which engines it has. It takes some seconds.", icon=":material/info:"
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        if places.snapshots:
            oldest = min(snapshot.seen_at_unix_ns for snapshot in places.snapshots)
            st.caption(f"Engines and devices as of {instant(oldest)}.", width="content")
        label = "Ask which engines there are" if places.unasked else "Ask again"
        kind = "primary" if places.unasked else "tertiary"
        if st.button(label, type=kind, icon=":material/sync:"):
            _ask([*places.unasked, *(snapshot.target for snapshot in places.snapshots)])
    follow_jobs(_asks)


def _ask(names: list[str]) -> None:
    start_job(default_home(), "asking for engines", [ASK, "--refresh", "--target", ",".join(names)])
    st.rerun()


def _asks(job: Job) -> bool:
    return job.kind == ASK and (not job.state.has_ended or job.state.value != "done")
