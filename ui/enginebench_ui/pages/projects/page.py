"""Projects: model versions × engines × targets, what to compare, and the versions with their families."""

from collections.abc import Mapping, Sequence

import streamlit as st

from enginebench_controller.home import Home, default_home
from enginebench_controller.store.models import Project
from enginebench_ui.pages import BENCHMARK, COMPARE, NEW_BENCHMARK
from enginebench_ui.pages.projects.shapes import (
    LAYOUTS,
    RESIZES,
    SIDES,
    ProjectView,
    Quantization,
    best_items_per_s,
    chosen_in_order,
    comparison,
    known_keys,
    missing_folder,
    project_views,
    prune_arguments,
    quantize_arguments,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import select_rows, told
from enginebench_ui.shared.following import follow_jobs, start_followed
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS
from enginebench_ui.shared.showing import RATE, nothing_yet
from enginebench_ui.shared.text import count_of, inert, shortened
from enginebench_ui.shared.versions import VersionView, version_views

RANDOM, FILES = "Seeded random inputs", "Files in a folder"


def show_forms(home: Home, view: VersionView) -> None:
    """Show how to quantize and how to prune a version."""
    quantize, prune = st.tabs(["Quantize to INT8", "Prune"])
    with quantize:
        _show_quantize(home, view)
    with prune:
        _show_prune(home, view)


def _show_quantize(home: Home, view: VersionView) -> None:
    st.caption(
        "Makes a child version that computes in 8 bits (QDQ: unsigned activations × signed weights). The ranges of "
        "the activations are those seen on the calibration inputs: real ones keep the accuracy, random ones the speed."
    )
    source = st.segmented_control(
        "Calibration inputs", [RANDOM, FILES], default=RANDOM, required=True, key=f"source {view.digest}"
    )
    with st.form(f"quantize {view.digest}", border=False):
        wish = _files() if source == FILES else _random()
        pressed = st.form_submit_button("Quantize", type="primary", icon=":material/compress:")
    if not pressed:
        return
    if source == FILES and not wish.folder:
        st.error("Name the folder that the calibration inputs lie in.", icon=":material/error:")
    elif problem := missing_folder(wish):
        st.error(inert(problem), icon=":material/error:")
    else:
        start_followed(home, f"Quantize {view.name}", quantize_arguments(view.digest, wish))


def _random() -> Quantization:
    left, right = st.columns(2)
    samples = left.number_input("Samples", 1, 10_000, 8, help="How many inputs are drawn.")
    seed = right.number_input("Seed", 0, 2**31 - 1, 0, help="The same seed gives the same version.")
    return Quantization(seed=int(seed), samples=int(samples), shapes=_shapes())


def _files() -> Quantization:
    folder = st.text_input(
        "Folder", placeholder="/data/photos", help="With .npy, .npz or image files, on this machine."
    )
    samples = st.number_input("Samples", 1, None, None, placeholder="all", help="How many of the files; all if empty.")
    shapes = _shapes()
    with st.expander("How images become tensors"):
        left, right = st.columns(2)
        resize = left.selectbox("Resize", RESIZES, None, placeholder="stretch", key="resize")
        layout = right.selectbox("Layout", LAYOUTS, None, placeholder="as the model's shape suggests", key="layout")
        scale = left.text_input("Scale", placeholder="1/255, or 1 for whole numbers")
        mean = right.text_input("Mean", placeholder="0, or one number a channel: A,B,C")
        std = left.text_input("Standard deviation", placeholder="1, or one number a channel: A,B,C")
    return Quantization(
        samples=int(samples) if samples else None,
        folder=folder.strip(),
        resize=resize or "",
        layout=layout or "",
        scale=scale.strip(),
        mean=mean.strip(),
        std=std.strip(),
        shapes=shapes,
    )


def _shapes() -> str:
    return str(
        st.text_input(
            "Shapes of open inputs",
            placeholder="ids=1x128 mask=1x128",
            help="Only for inputs with dimensions that the model leaves open, other than the batch.",
        )
    )


def _show_prune(home: Home, view: VersionView) -> None:
    st.caption(
        "Makes a child version in which the smallest weights of every Conv, Gemm and MatMul are zero. Engines that "
        "skip zeros run it faster; its outputs are not those of the parent until it is trained again."
    )
    with st.form(f"prune {view.digest}", border=False):
        sparsity = st.slider("Sparsity of every layer", 5.0, 99.0, 90.0, 0.5, format="%.1f %%")
        if st.form_submit_button("Prune", type="primary", icon=":material/content_cut:"):
            start_followed(home, f"Prune {view.name} to {sparsity:g} %", prune_arguments(view.digest, sparsity))


# The nearest that Streamlit has to the colours of A and B in charts.
SIDE_COLOURS = ("orange", "violet")

_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn
PROJECT_COLUMNS = {
    "Model": _TEXT(width=160),
    "Best (items/s)": _NUMBER(format=RATE, help="The largest throughput measured, whatever the configuration."),
    "± (%)": _NUMBER(format="%.1f", help="Half of the throughput's 95 % interval."),
    "Status": _TEXT(
        help="Of the best one. Inconclusive: a wider interval, less time or fewer iterations than was asked for."
    ),
    "Version": _TEXT(width=105, help="How the version was made from another one."),
    "Reached with": _TEXT(width=165, help="The configuration of the best measurement."),
    "Precision": _TEXT(help="What the engine really executed in, and how that is known."),
    "Weights": _TEXT(help="The type that most parameters have in the file."),
    "Sparsity (%)": _NUMBER(format="%.1f", help="The share of zeros among all parameters, counted in the file."),
    "Size (MB)": _NUMBER(format="%,.1f", help="All files of the version, in millions of bytes."),
    "Created": _TEXT(help="When the model version was added to the library."),
    "Remarks": _TEXT(width="large", help="What to know before trusting the best number."),
}
VERSION_COLUMNS = {
    "Version": _TEXT(width=280, help="A version stands below the one that it was made from."),
    "Made by": _TEXT(width=105),
    "Weights": PROJECT_COLUMNS["Weights"],
    "Sparsity (%)": PROJECT_COLUMNS["Sparsity (%)"],
    "Size (MB)": PROJECT_COLUMNS["Size (MB)"],
    "Of parent's size (%)": _NUMBER(format="%.0f"),
    "Best (items/s)": _NUMBER(format=RATE, help="Over all engines, targets and configurations."),
    "Files": _TEXT(help="Whether the library on this machine has the files."),
}


def show() -> None:
    """Draw the page."""
    st.title("Projects")
    with reading.banner_on_error():
        projects, known = reading.projects(), reading.versions()
    if not projects and not known:
        _show_how_to_begin()
        return
    st.caption(
        "A project is one model version on one engine of one target. Beside it stands the best throughput of all its "
        "measurements, with the configuration that reached it: choose two and compare them to see like against like."
    )
    bar = st.container(horizontal=True, vertical_alignment="bottom")
    search = bar.text_input(
        "Search", key="q", bind="query-params", icon=":material/search:", placeholder="Model, digest, engine or target"
    )
    if projects:
        _show_projects(project_views(projects, known, search), projects, bar)
    else:
        st.info("Nothing has been measured yet: measure one of the model versions below.", icon=":material/info:")
        st.page_link(NEW_BENCHMARK, label="New benchmark", icon=":material/add_chart:")
    _show_versions(version_views(known, best_items_per_s(projects), search), len(known))


def _show_how_to_begin() -> None:
    nothing_yet(
        "There is no model and no measurement yet. Measure a model that can be built here, or add a file of yours:",
        "enginebench run zoo:resnet50 --engine all\nenginebench models add model.onnx",
        NEW_BENCHMARK,
        "New benchmark: choose or upload a model",
    )


def _show_projects(
    views: tuple[ProjectView, ...], projects: Sequence[Project], bar: st.delta_generator.DeltaGenerator
) -> None:
    before = known_keys((st.query_params.get(side.lower(), "") for side in SIDES), projects)
    total = len(projects)
    keys = [view.key for view in views]
    # Above the table, not below it: there its toolbar floats, and would lie over the button.
    st.caption(count_of(total, "project") if len(views) == total else f"{len(views)} of {total} projects")
    if views:
        ticked = select_rows(
            [view.row for view in views],
            keys,
            before,
            "projects",
            mode="multi-row",
            columns=PROJECT_COLUMNS,
            alt="Projects: model version, engine and target with the best throughput. Tick two rows to compare them.",
        )
    else:
        ticked = []
        st.info("No project contains all of these words.", icon=":material/search_off:")
    chosen = chosen_in_order(before, keys, ticked)
    _address(chosen)
    _show_compare(chosen, bar)
    _show_chosen(chosen, {view.key: view for view in views})


def _address(chosen: tuple[str, ...]) -> None:
    written = comparison(chosen)
    for side in SIDES:
        if side.lower() not in written:
            st.query_params.pop(side.lower(), None)
    st.query_params.update(written)
    told("projects", list(written.values()))


def _show_compare(chosen: tuple[str, ...], bar: st.delta_generator.DeltaGenerator) -> None:
    too_many = len(chosen) > len(SIDES)
    pressed = bar.button(
        "Compare",
        type="primary",
        icon=":material/compare_arrows:",
        disabled=too_many,
        help="Tick two rows: the first is A, the second B. With one, B is the project with the best throughput.",
    )
    if too_many:
        st.warning(f"{len(chosen)} projects are ticked; two can be compared at a time.", icon=":material/info:")
    if pressed:
        st.switch_page(COMPARE, query_params=comparison(chosen))


def _show_chosen(chosen: tuple[str, ...], views: Mapping[str, ProjectView]) -> None:
    """A card a side, without those that the search hides."""
    sides = [one for one in zip(SIDES, SIDE_COLOURS, chosen, strict=False) if one[2] in views]
    for (side, colour, key), column in zip(sides, st.columns(len(SIDES)) if sides else (), strict=False):
        view = views[key]
        with column.container(border=True, height="stretch", key=f"side {side}"):
            st.markdown(f":{colour}-badge[**{side}**] {inert(view.title)}")
            st.markdown(f"**{inert(view.headline)}**  \n{inert(view.configuration)}")
            for remark in view.remarks:
                st.caption(inert(remark))
            with st.container(horizontal=True):
                if view.benchmark_id:
                    query = {"id": view.benchmark_id}
                    st.page_link(BENCHMARK, label="Its benchmark", icon=":material/speed:", query_params=query)
                query = dict(view.order)
                st.page_link(NEW_BENCHMARK, label="Measure more", icon=":material/add_chart:", query_params=query)


def _show_versions(views: tuple[VersionView, ...], total: int) -> None:
    st.header("Model versions", anchor="versions")
    if not views:
        st.info(
            "No model version contains all of these words." if total else "The library is empty.",
            icon=":material/search_off:",
        )
        return
    st.caption("Each version stands below the one that it was made from. Select one to make another from it.")
    wanted = st.query_params.get("model", "")
    digests = [view.digest for view in views]
    addressed = [digest for digest in digests if wanted and digest.startswith(wanted)][:1]
    ticked = select_rows(
        [view.row for view in views],
        digests,
        addressed,
        "versions",
        mode="single-row",
        columns=VERSION_COLUMNS,
        alt="Model versions as a tree: parents above the versions made from them.",
    )
    told("versions", ticked)
    if ticked:
        st.query_params["model"] = ticked[0][:DIGEST_CHARACTERS]
        _show_version(views[digests.index(ticked[0])])
    elif addressed:
        st.query_params.pop("model", None)


def _show_version(view: VersionView) -> None:
    with st.container(border=True, key="version"):
        left, right = st.columns([2, 3], gap="large")
        with left:
            st.markdown(f"## {inert(shortened(view.name, 80))}")
            st.markdown("  \n".join(f"**{heading}** {inert(value)}" for heading, value in view.facts))
            query = {"model": view.digest[:DIGEST_CHARACTERS]}
            st.page_link(NEW_BENCHMARK, label="Measure this version", icon=":material/add_chart:", query_params=query)
        with right:
            if view.underivable:
                st.info(view.underivable, icon=":material/info:")
            else:
                show_forms(default_home(), view)
    follow_jobs(lambda job: job.kind in ("models quantize", "models prune") and view.digest in job.arguments)


show()
