"""Choosing how engines are driven, on which inputs, and how long: the axes that most people leave as they are."""

import streamlit as st

from enginebench_controller.records import Load
from enginebench_ui.choosing import choose_view
from enginebench_ui.views.ordering.fields import (
    HINTS,
    LOADS,
    PRECISIONS,
    THOROUGHNESS,
    THOROUGHNESS_HELP,
    Fields,
    Thoroughness,
    by_input,
    listed,
    options,
    shapes,
    stated,
    timing,
)


def choose_timing() -> Fields:
    """Let a person choose how sure the numbers are to be."""
    labels = {key.value: label for key, label in THOROUGHNESS.items()}
    chosen = choose_view("How sure", labels, "sure", default=Thoroughness.USUAL.value, help=THOROUGHNESS_HELP)
    return timing(Thoroughness(chosen), _own_timing() if chosen == Thoroughness.OWN else {})


def choose_load() -> Fields:
    """Let a person choose streams, load, precision and hint."""
    with st.expander("How engines are driven", icon=":material/tune:"):
        left, right = st.columns(2)
        with left:
            precision = _several("Precision", PRECISIONS, "precision", ["f32"], "The floating precision executed in.")
            hint = _several("Hint", HINTS, "hint", ["none"], "What the engine is told to optimize for.")
            streams = st.text_input(
                "Streams", key="streams", placeholder="1", bind="query-params", help="Such as 1, 2, 4."
            )
        with right:
            help_text = "sync: one by one; async: several in flight; open-loop: as arrivals are scheduled."
            load = _several("Load", LOADS, "load", [Load.SYNC.value], help_text)
            requests = rate = ""
            if set(load) - {Load.SYNC.value}:
                requests = st.text_input(
                    "Requests in flight",
                    key="requests",
                    placeholder="as many as streams, and at least 2",
                    bind="query-params",
                )
            if Load.OPEN_LOOP.value in load:
                rate = st.text_input(
                    "Arrivals a second", key="rate", placeholder="Such as 50, 100", bind="query-params"
                )
    axes = {"precision": precision, "hint": hint, "load": load}
    return stated(axes | {"streams": listed(streams), "requests": listed(requests), "rate": listed(rate)})


def choose_inputs() -> Fields:
    """Let a person choose what the model is fed, and options of engines. Raises `InputError`."""
    with st.expander("Inputs and options", icon=":material/input:"):
        left, right = st.columns(2)
        with left:
            count = st.number_input(
                "Random inputs", min_value=1, max_value=1024, value=8, key="inputs", bind="query-params"
            )
            seed = st.number_input("Seed", min_value=0, value=0, key="seed", bind="query-params")
            shape = st.text_input(
                "Shapes",
                key="shape",
                placeholder="ids=1x128, mask=1x128",
                bind="query-params",
                help="For inputs with open dimensions, which otherwise take usual sizes.",
            )
            axis = st.text_input(
                "Batch axes",
                key="batch_axis",
                placeholder="frames=1, state=none",
                bind="query-params",
                help="Which dimension is the batch, counted from 0, where the model's names do not tell.",
            )
        with right:
            folder = st.text_input(
                "Folder of inputs",
                key="folder",
                placeholder="/data/photos",
                bind="query-params",
                help="A folder on this machine of .npy, .npz or image files, to be taken instead of random inputs.",
            )
            values = st.text_input(
                "Values of inputs",
                key="values",
                placeholder="sr=16000, mask=ones, ids=0..30521",
                bind="query-params",
                help="A number, ones, zeros, or a range, for single inputs; the others stay as they are.",
            )
            given = st.text_area(
                "Engine options", key="options", placeholder="openvino.enable_cpu_pinning=true", height=121
            )
    said = {
        "input_folder": folder.strip(),
        "shapes": shapes(shape),
        "batch_axis": by_input(axis, "Batch axes"),
        "input_values": by_input(values, "Values of inputs"),
        "options": options(given),
    }
    return {"inputs": count, "seed": seed} | stated(said)


def _own_timing() -> Fields:
    columns = st.columns(3)
    processes = columns[0].number_input(
        "Processes", 1, 100, None, key="processes", bind="query-params", placeholder="3, and 5 in turns"
    )
    duration = columns[1].text_input(
        "Duration", "6s", key="duration", bind="query-params", help="Shortest, such as 500ms."
    )
    longest = columns[2].text_input("At most", key="longest", placeholder="5 × duration", bind="query-params")
    interval = columns[0].text_input(
        "Interval",
        "",
        key="interval",
        bind="query-params",
        placeholder="1%, and none in turns",
        help="Half of the median's 95 % interval ÷ the median; 0% for none.",
    )
    warmup = columns[1].text_input("Warm-up", "500ms", key="warmup", bind="query-params")
    interleave = columns[2].toggle(
        "Take turns",
        value=True,
        key="interleave",
        bind="query-params",
        help="What one answer compares, such as engines on the same work, is alive together and takes turns.",
    )
    said = {"processes": processes, "duration": duration, "max_duration": longest, "interval": interval}
    return {**said, "warmup": warmup, "interleave": None if interleave else False}


def _several(label: str, choices: tuple[str, ...], key: str, default: list[str], help_text: str) -> list[str]:
    chosen: list[str] = st.multiselect(
        label, choices, default=default, key=key, bind="query-params", help=help_text, placeholder=default[0]
    )
    return chosen
