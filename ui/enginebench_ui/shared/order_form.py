"""The parts of both forms that order something: models, places, batch and cores, and why nothing can be run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import start_job
from enginebench_controller.jobs.record import Job
from enginebench_controller.models.zoo import PREFIX, ZOO
from enginebench_controller.records import LOCAL_TARGET, ModelVersion, TargetSnapshot
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one, choose_several
from enginebench_ui.shared.following import follow_jobs
from enginebench_ui.shared.order_fields import (
    BATCHES,
    COMPANIONS,
    Fields,
    Labels,
    device_labels,
    engine_key,
    engine_labels,
    file_name,
    model_key,
    model_labels,
    model_names,
    plan_models,
    stated,
    target_labels,
    targets,
    unavailable_engines,
)
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS
from enginebench_ui.shared.text import count_of, inert, instant


def choose_batch() -> Fields:
    """Let a person choose one batch size or several."""
    with st.container(border=True, height="stretch"):
        several = _toggle("Batch size", "Several sizes", "batches_on")
        if several:
            chosen = _several("batches", BATCHES, default=[1, 4])
        else:
            one = st.number_input(
                "Batch size", min_value=1, value=1, key="batch", bind="query-params", label_visibility="collapsed"
            )
            chosen = [one]
        st.caption("Items in one inference.")
    return {"batch": chosen}


def choose_cores(offered: Sequence[int | str], most: int | None) -> Fields:
    """Let a person choose how many cores may work, and of which kind, or leave it at the target's fastest."""
    with st.container(border=True, height="stretch"):
        several = _toggle("Cores", "Several numbers", "cores_on")
        every = "all" if most is None else f"all ({most})"
        has_kinds = any(isinstance(one, str) for one in offered)
        if several:
            chosen = _several("several_cores", offered, default=list(offered[:2]))
        else:
            one = st.selectbox(
                "Cores",
                [str(one) for one in offered],
                index=None,
                placeholder="all of the fastest kind" if has_kinds else every,
                accept_new_options=True,  # of a plan, or typed: whatever --cores takes, which the plan checks
                key="cores",
                bind="query-params",
                label_visibility="collapsed",
            )
            chosen = [] if one is None else [one]
        st.caption(f"Physical cores; by default all {'of the fastest kind' if has_kinds else 'that the target has'}.")
    return {"cores": chosen} if chosen else {}


def _toggle(label: str, several: str, key: str) -> bool:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"**{label}**", width="content")
        return bool(st.toggle(several, key=key, bind="query-params"))


def _several(key: str, offered: Sequence[int | str], default: list[int | str]) -> list[int | str]:
    """The numbers chosen; those that were typed are texts, which the plan checks."""
    chosen: list[int | str] = st.multiselect(
        "Numbers",
        list(offered),
        default=default,
        key=key,
        accept_new_options=True,
        bind="query-params",
        label_visibility="collapsed",
        placeholder="Choose, or type a number",
    )
    return sorted(chosen, key=lambda one: int(one) if str(one).isdecimal() else 0)


_NONE = "none"
_UPLOADS = "uploads"


def choose_models(labels: Labels) -> list[str]:
    """Let a person choose versions, or upload files that are chosen then; returns what a plan calls them."""
    _understand_address(labels)
    keys = choose_several(
        "Model versions", labels, "model", default=(), placeholder="Choose from the library, or upload a file below"
    )
    _upload(several=True)
    return plan_models(keys, reading.versions())


def choose_model(labels: Labels) -> str | None:
    """Let a person choose one version, or upload one."""
    _understand_address(labels)
    key = choose_one("Model version", {_NONE: "Choose a version"} | labels, "model", default=_NONE)
    _upload(several=False)
    return None if key == _NONE else plan_models([key], reading.versions())[0]


def labels_of_models() -> Labels:
    """Return what there is to choose from."""
    return model_labels(reading.versions(), (PREFIX + name for name in ZOO))


def _understand_address(labels: Labels) -> None:
    """Put keys in place of the names and whole digests that other pages and people write; say which are none."""
    asked = st.query_params.get("model")
    if asked:
        keys = {text: model_key(text, labels) for text in filter(None, asked.split(","))}
        st.query_params["model"] = ",".join(dict.fromkeys(key or text for text, key in keys.items()))
        if lost := [text for text, key in keys.items() if key is None]:
            said = f"There is no model version {inert(', '.join(lost))} in the library; it is left out."
            st.warning(said, icon=":material/link_off:")


def _upload(*, several: bool) -> None:
    with st.expander("Upload a model file", icon=":material/upload_file:"):
        suffixes, companions = _endings()
        files = st.file_uploader(
            f"A model ({', '.join(suffixes)}), with the files it refers to",
            type=[one.removeprefix(".") for one in dict.fromkeys([*suffixes, *companions])],
            accept_multiple_files=True,
            key=f"upload {st.session_state.setdefault(_UPLOADS, 0)}",
            help="Larger ones, and many at once: `enginebench models add FILE`, which copies from this machine's disk.",
        )
        if st.button("Add to the library", icon=":material/add:", disabled=not files):
            _add(files, several=several)


def _endings() -> tuple[list[str], list[str]]:
    """How the names of models end, and those of the files beside them."""
    library = default_home().library
    own = (ending for one in library.own_formats() for ending in one.companions)
    return library.suffixes(), [*COMPANIONS, *own]


def _add(files: list[Any], *, several: bool) -> None:
    try:
        with st.spinner("Reading the files …"):
            added = _taken_in(files)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        return
    chosen = st.query_params.get("model", "").split(",") if several else []
    st.session_state[_UPLOADS] += 1  # an uploader of its own for the next files
    keys = [version.digest[:DIGEST_CHARACTERS] for version in added]
    st.query_params["model"] = ",".join(dict.fromkeys(filter(None, [*chosen, *keys])))
    st.rerun()


def _taken_in(files: list[Any]) -> list[ModelVersion]:
    """Lay the files side by side, as they refer to each other, and add each that is a model."""
    library = default_home().library
    with library.scratch() as folder:
        names = [file_name(file.name) for file in files]
        for name, file in zip(names, files, strict=True):
            (folder / name).write_bytes(file.getbuffer())
        return [library.add(folder / name) for name in model_names(names, library.suffixes())]


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
    if asked := st.query_params.get("engine"):
        st.query_params["engine"] = ",".join(engine_key(one, snapshots) for one in asked.split(","))
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
    if missing := unavailable_engines(places.snapshots):
        with st.expander(f"{count_of(len(missing), 'engine')} not available, and why", icon=":material/info:"):
            for sentence in missing:
                st.caption(inert(sentence))
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


def show_refusals(reasons: Sequence[str]) -> None:
    """Say why nothing can be run, in the planner's words."""
    heading = "This cannot be run:" if len(reasons) == 1 else f"This cannot be run, for {len(reasons)} reasons:"
    st.error("\n".join([heading, "", *(f"- {inert(reason)}" for reason in reasons)]), icon=":material/block:")
