"""A new benchmark: what is to be measured, what that comes to, and its start as a job of its own."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import start_job
from enginebench_controller.plan.expand import Case, expected_range_ns
from enginebench_controller.plan.options import input_folder
from enginebench_controller.plan.plan import Plan, make_plan, plan_toml
from enginebench_controller.plan.preview import Preview, preview
from enginebench_controller.records import Benchmark, Load
from enginebench_ui.pages import JOB
from enginebench_ui.pages.new_benchmark.shapes import cell_grid, legend, same_configurations_html, tally
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one, choose_view
from enginebench_ui.shared.order_fields import (
    ARRIVALS,
    HINTS,
    LAYOUTS,
    LOADS,
    PRECISIONS,
    RESIZES,
    THOROUGHNESS,
    THOROUGHNESS_HELP,
    Fields,
    Labels,
    Thoroughness,
    by_input,
    core_choices,
    default_name,
    families,
    label_name,
    listed,
    most_cores,
    number,
    numbers,
    options,
    shapes,
    stated,
    timing,
)
from enginebench_ui.shared.order_form import (
    Places,
    choose_batch,
    choose_cores,
    choose_models,
    choose_places,
    labels_of_models,
    show_refusals,
    show_what_is_known,
)
from enginebench_ui.shared.showing import row_cards
from enginebench_ui.shared.text import count_of, inert, instant, range_words


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
            arrivals: str | None = None
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
                arrivals = st.selectbox(
                    "Spacing of arrivals",
                    ARRIVALS,
                    key="arrivals",
                    bind="query-params",
                    help="poisson: at random, as many independent users send; constant: evenly.",
                )
    axes = {"precision": precision, "hint": hint, "load": load, "arrivals": arrivals}
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
                "Engine options",
                key="options",
                placeholder="openvino.enable_cpu_pinning=true",
                height=121,
                bind="query-params",
            )
        image = _choose_image() if folder.strip() else {}
    said = {
        "input_folder": input_folder(Path(folder.strip())) if folder.strip() else "",
        "image": image,
        "shapes": shapes(shape),
        "batch_axis": by_input(axis, "Batch axes"),
        "input_values": by_input(values, "Values of inputs"),
        "options": options(given),
    }
    return {"inputs": count, "seed": seed} | stated(said)


def _choose_image() -> Fields:
    """How the images of a folder become tensors; what nobody says is left to the plan."""
    first, second, third = st.columns(3)
    resize = first.selectbox(
        "Image resize",
        RESIZES,
        key="image_resize",
        bind="query-params",
        help="crop keeps the aspect ratio and cuts what is over; stretch does not.",
    )
    layout = second.selectbox(
        "Image layout",
        LAYOUTS,
        None,
        key="image_layout",
        bind="query-params",
        placeholder="as the model",
        help="Where the channels are; the model's shape suggests it where nobody says.",
    )
    scale, mean, std = (
        column.text_input(f"Image {name}", key=key, placeholder=usual, bind="query-params", help=what)
        for column, name, key, usual, what in (
            (third, "scale", "image_scale", "1/255", "Pixels, 0 to 255, are multiplied by it; by 1 for whole numbers."),
            (first, "mean", "image_mean", "0", "Subtracted after scaling: one number, or one a channel."),
            (second, "deviation", "image_std", "1", "Divided by at last: one number, or one a channel."),
        )
    )
    said = {"resize": resize, "layout": layout, "scale": number(scale.strip())}
    return stated(said | {"mean": numbers(mean), "std": numbers(std)})


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


_NOTHING = "none"
_MOST = 100
"""So many of the newest are offered; any other may stand in the address."""


def choose_other() -> str | None:
    """Let a person choose a benchmark to be compared with, and take its configurations over; None for no comparison."""
    offered = {one.id: one for one in _offered()}
    if not offered:
        return None
    labels = {_NOTHING: "No existing benchmark"} | {key: _label(one) for key, one in offered.items()}
    chosen = choose_one(
        "Compare with",
        labels,
        "with",
        default=_NOTHING,
        help="Its points are drawn over the new ones. To compare two engines, choose both above.",
    )
    if chosen == _NOTHING:
        return None
    asked = {name: st.query_params.get_all(name) for name in st.query_params}
    st.html(same_configurations_html(asked, offered[chosen].plan))
    return chosen


def _offered() -> list[Benchmark]:
    """The newest, and the one that the address names; says where there is none such."""
    found = list(reading.newest_benchmarks(_MOST))
    asked = st.query_params.get("with", _NOTHING)
    if asked not in (_NOTHING, *(one.id for one in found)):
        if one := reading.benchmark_or_none(asked):
            found.append(one)
            st.query_params["with"] = one.id  # where the start of it was asked for
        else:
            said = f"There is no benchmark {inert(asked)} in this store to compare with."
            st.warning(said, icon=":material/link_off:")
    return found


def _label(benchmark: Benchmark) -> str:
    return f"{benchmark.name} · {instant(benchmark.created_at_unix_ns)} · {benchmark.id}"


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
        st.header("What this comes to", anchor=False)
        name = _choose_name(labels, places)
        if not models:
            st.info("Choose a model version, and the cells to measure appear here.", icon=":material/arrow_back:")
        elif fields is not None:
            _show_order(fields | {"models": models, "name": name}, places, other)


def _choose_name(labels: Labels, places: Places) -> str:
    """Drawn whatever else is amiss: Streamlit forgets what was typed into a field that a run leaves out."""
    models = [label_name(labels[key]) for key in st.query_params.get("model", "").split(",") if key in labels]
    usual = default_name(models, places.engines)
    placeholder = usual or "that of the model"
    name = st.text_input("Name", placeholder=placeholder, max_chars=200, key="name", bind="query-params")
    return name.strip() or usual


def _choose_configurations(places: Places) -> Fields | None:
    most = most_cores(places.snapshots)
    batch, cores = st.columns(2)
    with batch:
        fields = dict(places.fields) | choose_batch()
    with cores:
        fields |= choose_cores(core_choices(places.snapshots), most)
    try:
        return fields | choose_timing() | choose_load() | choose_inputs()
    except EnginebenchError as error:
        show_refusals(str(error).splitlines())
        return None


def _show_order(fields: Fields, places: Places, other: str | None) -> None:
    try:
        plan = make_plan(fields, "this form")
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
    cases = preview.expansion.cases
    family = families(reading.versions())
    wanted = {case.model.digest for case in cases}
    measured = reading.measured_cells(digest for digest in {*family, *wanted} if family.get(digest, digest) in wanted)
    new, again = tally(cases, measured, family)
    with st.container(horizontal=True):
        st.metric("Configurations", len(cases), border=True, width="stretch", help=_which(cases))
        st.metric(
            "Takes about", range_words(*expected_range_ns(cases)), border=True, width="stretch", help=_ABOUT_ESTIMATES
        )
    grid = cell_grid(cases, measured, family)
    st.dataframe(
        list(grid),
        hide_index=True,
        placeholder=" ",
        column_config={"Batch": st.column_config.NumberColumn(width="small", pinned=True)},
        alt="Batch sizes and cores as a grid, with what is measured already.",
    )
    row_cards(list(grid), len(grid), "grid of sizes")
    st.caption(legend(new, again, grid))
    for note in preview.expansion.notes:
        st.caption(f":material/info: {inert(note)}")


def _which(cases: Sequence[Case]) -> str:
    """Count what multiplies out."""
    axes: dict[str, set[object]] = {
        "model version": {case.model.digest for case in cases},
        "engine": {case.engine for case in cases},
        "target": {case.target for case in cases},
        "device": {case.configuration.device for case in cases},
        "batch size": {case.configuration.batch for case in cases},
        "core count": {case.configuration.place for case in cases},
    }
    return " × ".join(count_of(len(values), noun) for noun, values in axes.items())


show()
