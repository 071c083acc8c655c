"""One performance profile: `?id=…` is one that was measured, `?model=DIGEST` the FLOPS profile of a model version."""

from collections.abc import Callable, Mapping

import streamlit as st

from enginebench_controller.errors import InputError
from enginebench_controller.records import ModelVersion, Profile
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui import profile_reading, reading
from enginebench_ui.pages import PROFILES
from enginebench_ui.profile_page.heading import show_exports, show_heading, show_switch
from enginebench_ui.profile_page.layers import Shown, show_results, show_types
from enginebench_ui.profile_page.more import show_advice, show_pruning, show_roofline
from enginebench_ui.profile_page.summary import show_cards, show_facts, show_summary
from enginebench_ui.profile_page.viewer import Viewed
from enginebench_ui.views.profiles.advice import RESULTS, advice_views
from enginebench_ui.views.profiles.datasets import Dataset, measured_datasets, theoretical_datasets
from enginebench_ui.views.profiles.layers import node_views
from enginebench_ui.views.profiles.pruning import Sweep, by_sparsity, elsewhere, nearest_step, saving_basis, savings
from enginebench_ui.views.profiles.siblings import FLOPS_KEY, siblings, siblings_of_model
from enginebench_ui.views.profiles.summary import theory_facts, work_cards
from enginebench_ui.views.text import inert

SUMMARIES, ROOFLINE, PRUNING, ADVICE = "Layer summaries", "Roofline", "Pruning", "Advice"


def show() -> None:
    """Draw the page."""
    st.page_link(PROFILES, label="All profiles", icon=":material/arrow_back:")
    asked = st.query_params
    with reading.banner_on_error():
        if "id" in asked:
            _show_measured(asked["id"])
        elif "model" in asked:
            _show_theoretical(asked["model"])
        else:
            st.info("No profile is chosen; take one from the list.")


def _show_measured(profile_id: str) -> None:
    entry = profile_reading.find(profile_id)
    show_heading(entry)
    profile = profile_reading.whole(entry.id)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        show_switch(siblings(entry, reading.profile_entries()), entry.id)
        show_exports(profile)
    _show_failure(profile)
    passes = profile_reading.passes(entry)
    slow = profile_reading.is_slow_sweep(passes, len(profile.nodes))
    sweep = Sweep(is_pending=True) if slow else profile_reading.sweep(passes)
    _show_sections(entry, profile, sweep, _measured(profile, sweep, by_sparsity(passes)))
    if slow:  # all else is drawn by now, and is drawn again once they are read
        with st.spinner("Reading the passes with zeros imposed …"):
            profile_reading.sweep(passes)
        st.rerun()


def _show_sections(entry: ProfileEntry, profile: Profile, sweep: Sweep, shown: Shown) -> None:
    advice = advice_views(profile_reading.advice(profile, sweep))
    show_summary(profile, sweep, advice, elsewhere(reading.profile_entries(), entry))
    if not profile.layers:
        st.info("There are no layers to show: the engine told of none.", icon=":material/info:")
        return
    sections = {
        SUMMARIES: lambda: show_types(shown),
        RESULTS: lambda: show_results(shown),
        ROOFLINE: lambda: show_roofline(
            profile, profile_reading.layers(profile), profile_reading.peaks(profile.target)
        ),
        PRUNING: lambda: show_pruning(profile, sweep),
        ADVICE: lambda: show_advice(profile, advice),
    }
    _show_open(sections)


def _show_open(sections: Mapping[str, Callable[[], None]]) -> None:
    """Draw the section whose tab is open, and no other."""
    for tab, draw in zip(st.tabs(list(sections), key="view", bind="query-params"), sections.values(), strict=True):
        if tab.open:
            with tab:
                draw()


def _show_failure(profile: Profile) -> None:
    if profile.failure is None:
        return
    failure = profile.failure
    kind = failure.kind.value.replace("_", " ").capitalize()
    st.error(f"**{inert(kind)}**: {inert(failure.message)}", icon=":material/error:")
    said = "\n\n".join(filter(None, (failure.detail, failure.stderr_tail)))
    if said:
        with st.expander("The engine's own words"):
            st.code(said, language=None, wrap_lines=True)


def _measured(profile: Profile, sweep: Sweep, pruned: Mapping[float, str]) -> Shown:
    """What the sections show of a profile; `pruned` are the passes with zeros imposed, each read when looked at."""

    def source(dataset: Dataset) -> Profile:
        return profile if dataset.sparsity is None else profile_reading.whole(pruned[dataset.sparsity])

    return Shown(
        key=profile.id,
        datasets=measured_datasets(pruned),
        layers=lambda dataset: profile_reading.layers(source(dataset)),
        savings=lambda dataset: savings(source(dataset), sweep, nearest_step(sweep, dataset.sparsity)),
        saving_basis=lambda dataset: saving_basis(sweep, dataset.sparsity),
        viewed=Viewed(profile.model_digest),
        series=sweep.prospects.series if sweep.prospects else None,
    )


def _show_theoretical(digest: str) -> None:
    model = _model(digest)
    st.title("FLOPS", anchor=False)
    st.caption(f"{inert(model.name)} · {inert(model.digest[:12])} · counted in the model, nothing was run")
    show_switch(siblings_of_model(model, reading.profile_entries()), FLOPS_KEY)
    counted = reading.theory(model, None)
    st.subheader("Model summary", anchor=False)
    show_cards(work_cards(counted.work, counted.nodes))
    show_facts(theory_facts(counted))
    views = node_views(counted.nodes)
    shown = Shown(
        key=model.digest,
        datasets=theoretical_datasets(),
        layers=lambda _dataset: views,
        savings=lambda _dataset: None,
        saving_basis=lambda _dataset: "",
        viewed=Viewed(model.digest),
        noun="node",
    )
    _show_open({SUMMARIES: lambda: show_types(shown), RESULTS: lambda: show_results(shown)})


def _model(digest: str) -> ModelVersion:
    found = [one for one in reading.known_models() if one.digest.startswith(digest)] if digest else []
    if len(found) != 1:
        raise InputError(f"there is no model version {digest!r}; see the list of profiles")
    return found[0]


show()
