"""Forms that make a version of a model from another, each carried out by a job."""

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home
from enginebench_controller.jobs import start_job
from enginebench_ui.views.children import (
    LAYOUTS,
    RESIZES,
    Quantization,
    missing_folder,
    prune_arguments,
    quantize_arguments,
)
from enginebench_ui.views.text import inert
from enginebench_ui.views.versions import VersionView

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
        _start(home, f"Quantize {view.name}", quantize_arguments(view.digest, wish))


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
            _start(home, f"Prune {view.name} to {sparsity:g} %", prune_arguments(view.digest, sparsity))


def _start(home: Home, title: str, arguments: tuple[str, ...]) -> None:
    try:
        start_job(home, title, arguments)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
    else:
        st.toast("Started; it goes on if you leave this page.", icon=":material/check:")
