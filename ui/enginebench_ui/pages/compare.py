"""Two projects against each other, named by `?a=…&b=…`: their points, their layer types, and every layer of both."""

import streamlit as st

from enginebench_controller.store.experiments import Contender
from enginebench_ui import reading
from enginebench_ui.compare_page import address, report, setup, sources
from enginebench_ui.compare_page import reading as compare_reading
from enginebench_ui.compare_page.layers import show_layers
from enginebench_ui.compare_page.marks import warn_unlike
from enginebench_ui.compare_page.points import show_answer, show_inference, show_points
from enginebench_ui.compare_page.summary import show_precisions, show_types
from enginebench_ui.pages import NEW_BENCHMARK, PROJECTS
from enginebench_ui.showing import nothing_yet
from enginebench_ui.views.compare_points import Side
from enginebench_ui.views.compare_projects import Choice, choose
from enginebench_ui.views.text import inert

SUMMARY, INFERENCE = "Performance summary", "Inference time"
KERNELS, PRECISIONS = "Kernel-level performance", "Precisions"


def show() -> None:
    """Draw the page."""
    st.title("Compare", anchor=False)
    with reading.banner_on_error():
        contenders = compare_reading.contenders()
        if not contenders:
            nothing_yet(
                "Nothing was measured yet, so there is nothing to compare. Measure a model on two engines:",
                "enginebench run zoo:squeezenet --engine onnxruntime,openvino --batch 1,2,4",
                NEW_BENCHMARK,
                "New benchmark",
            )
            return
        a, b = (address.value(address.PROJECTS[letter]) for letter in "AB")
        choice = choose(contenders, compare_reading.families(), a, b)
        _show_setup(contenders, choice)


def _show_setup(contenders: tuple[Contender, ...], choice: Choice) -> None:
    for key in choice.unknown:
        st.warning(f"There is no project {inert(key)} in this store; another one is shown.", icon=":material/link_off:")
        st.page_link(PROJECTS, label="All projects", icon=":material/deployed_code:")
    setup.show_projects(contenders, choice)
    wish = setup.ask_view()
    sides = setup.read_sides(choice, wish)
    show_answer(sides)
    setup.show_chart(sides, wish.threshold_ms)
    setup.show_experiments(sides, choice)
    show_points(sides)
    _show_analysis(sides, choice)


def _show_analysis(sides: tuple[Side, Side], choice: Choice) -> None:
    names = (SUMMARY, INFERENCE, KERNELS, PRECISIONS)
    for tab, name in zip(st.tabs(names, key=address.VIEW, bind=address.BIND), names, strict=True):
        if not tab.open:
            continue
        with tab:
            if name == INFERENCE:
                show_inference(sides)
            else:
                _show_by_layer(name, sides, choice)


def _show_by_layer(name: str, sides: tuple[Side, Side], choice: Choice) -> None:
    found = sources.choose_layers(sides, choice)
    if found is None:
        st.info("Layers are compared once both sides have a profile.", icon=":material/layers:")
        return
    warn_unlike("The profiles are not the same work on equal terms", found.comparison.remarks)
    if name == SUMMARY:
        show_types(found)
    elif name == KERNELS:
        show_layers(found)
    else:
        show_precisions(found)
    report.show_more(found)


show()
