"""A new profile: the time of every layer of a model, in a pass of its own, with zeros imposed where engines can."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import start_job
from enginebench_controller.plan.expand import Case
from enginebench_controller.plan.preview import Preview, preview
from enginebench_ui.pages import JOB
from enginebench_ui.pages.new_profile.shapes import SPARSITIES, ProfileFields, passes_words, shares
from enginebench_ui.shared import reading
from enginebench_ui.shared.order_fields import (
    PRECISIONS,
    can_impose,
    core_choices,
    default_name,
    label_name,
    most_cores,
    shapes,
    stated,
)
from enginebench_ui.shared.order_form import (
    Places,
    choose_batch,
    choose_cores,
    choose_model,
    choose_places,
    labels_of_models,
    show_refusals,
    show_what_is_known,
)
from enginebench_ui.shared.showing import table
from enginebench_ui.shared.text import Row, inert


def show() -> None:
    """Draw the page."""
    st.title("New profile", anchor=False)
    st.caption(
        "Times every layer in a pass of its own, with and without counters in turns. Headline numbers never come from "
        "a profile: counters cost time."
    )
    left, right = st.columns([5, 4], gap="large")
    with left, reading.banner_on_error():
        labels = labels_of_models()
        model = choose_model(labels)
        places = choose_places()
        show_what_is_known(places)
        wish = _choose(model, label_name(labels.get(st.query_params.get("model", ""), "")), places)
    with right, st.container(border=True, key="order"):
        st.header("What this comes to", anchor=False)
        if model is None:
            st.info("Choose a model version, and the passes appear here.", icon=":material/arrow_back:")
        elif wish is not None:
            _show_order(wish, places)


def _choose(model: str | None, model_name: str, places: Places) -> ProfileFields | None:
    usual = default_name([model_name], places.engines)
    name = st.text_input(
        "Name",
        placeholder=usual or "that of the model",
        max_chars=200,
        key="name",
        bind="query-params",
        help="Profiles are listed by name.",
    )
    most = most_cores(places.snapshots)
    batch, cores = st.columns(2)
    with batch:
        fields = dict(places.fields) | choose_batch()
    with cores:
        fields |= choose_cores(core_choices(places.snapshots), most)
    try:
        sparsities = _choose_sparsities(places)
        more, shape, iterations = _choose_more()
        chosen = fields | more
        return ProfileFields(model or "", name.strip() or usual, chosen, sparsities, iterations, shapes(shape))
    except EnginebenchError as error:
        show_refusals(str(error).splitlines())
        return None


def _choose_sparsities(places: Places) -> tuple[float, ...]:
    able = can_impose(places.snapshots, places.engines)
    chosen = st.multiselect(
        "Sparsities to impose",
        SPARSITIES,
        key="sparsity",
        bind="query-params",
        accept_new_options=True,
        disabled=not able,
        placeholder="none: the model as it is" if able else "no engine chosen here can impose zeros",
        help="A pass for each share of zeros, as if the weights had been pruned: a real measurement, of engines that "
        "can be told so (DeepSparse).",
    )
    if able and chosen:
        st.caption(f"Imposed by {inert(', '.join(able))}; engines that cannot are left out.")
    return shares(chosen) if able else ()


def _choose_more() -> tuple[dict[str, list[str]], str, int]:
    with st.expander("Precision, shapes and iterations", icon=":material/tune:"):
        precision = st.multiselect(
            "Precision", PRECISIONS, default=["f32"], key="precision", bind="query-params", placeholder="f32"
        )
        shape = st.text_input("Shapes", key="shape", placeholder="ids=1x128, mask=1x128", bind="query-params")
        iterations = st.number_input(
            "Profiled inferences", min_value=1, max_value=100_000, value=20, key="iterations", bind="query-params"
        )
    return stated({"precision": precision}), shape, int(iterations)


def _show_order(wish: ProfileFields, places: Places) -> None:
    try:
        plan = wish.plan()
    except EnginebenchError as error:
        show_refusals(str(error).splitlines())
        return
    if places.unasked:
        st.info("What can run shows here once the engines are known.", icon=":material/info:")
        return
    found = preview(default_home().library, plan, places.snapshots, wish.sparsities)
    show_passes(found, wish.sparsities)
    disabled = found.expansion is None
    if st.button("Profile", type="primary", icon=":material/layers:", disabled=disabled, width="stretch", key="run"):
        with reading.banner_on_error():
            job = start_job(default_home(), wish.name, wish.arguments())
        st.switch_page(JOB, query_params={"id": job.id})


def show_passes(preview: Preview, sparsities: Sequence[float]) -> None:
    """Show the passes of a profile one by one."""
    if preview.expansion is None:
        show_refusals(preview.refusals)
        return
    cases = preview.expansion.cases
    st.caption(passes_words(len(cases), sparsities))
    table([_pass_row(case) for case in cases], "passes")
    for note in preview.expansion.notes:
        st.caption(f":material/info: {inert(note)}")


def _pass_row(case: Case) -> Row:
    asked = case.configuration
    imposed = asked.imposed_sparsity
    return {
        "Engine": case.engine.name,
        "Device": asked.device,
        "Batch": asked.batch,
        "Cores": asked.cores,
        "Precision": asked.precision,
        "Zeros imposed (%)": None if imposed is None else 100 * imposed,
    }


show()
