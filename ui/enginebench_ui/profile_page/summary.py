"""The model summary, and what to know before trusting it."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.prospects import Severity
from enginebench_controller.records import Profile
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui.pages import PROFILE
from enginebench_ui.views.magnitudes import engine_text
from enginebench_ui.views.profiles.advice import AdviceView, of_severity
from enginebench_ui.views.profiles.pruning import Sweep, other_settings
from enginebench_ui.views.profiles.summary import (
    Card,
    chosen_outcome,
    estimate_basis,
    facts,
    measured_cards,
    trust_facts,
)
from enginebench_ui.views.text import inert

PENDING = "What pruning would bring is being worked out from its passes …"
_FACT_PX = 232


def show_summary(
    profile: Profile, sweep: Sweep, advice: Sequence[AdviceView], other: ProfileEntry | None = None
) -> None:
    """Draw the large figures, how they are known, and the circumstances. `other` is a sweep with another engine."""
    st.subheader("Model summary", anchor=False)
    show_cards(measured_cards(profile, sweep.prospects))
    if profile.layers:
        _show_estimate(profile, sweep, other)
    warnings = of_severity(advice, Severity.WARNING)
    if warnings:
        sentences = "  \n".join(inert(sentence) for one in warnings for sentence in one.sentences)
        st.warning(f"**Before trusting these numbers**  \n{sentences}", icon=":material/warning:")
    show_facts(facts(profile))
    with st.expander("How far the figures can be trusted"):
        show_facts(trust_facts(profile), border=False)


def show_cards(cards: Sequence[Card]) -> None:
    """Draw large figures side by side."""
    for column, card in zip(st.columns(len(cards)), cards, strict=True):
        column.metric(
            card.label,
            card.value,
            card.below or None,
            delta_color="off",
            delta_arrow="off",
            help=card.known_from or None,
            border=True,
        )


def show_facts(found: Sequence[tuple[str, str]], *, border: bool = True) -> None:
    """Draw (heading, raw text) pairs in as many columns as there is room for."""
    with st.container(border=border, horizontal=True, gap="small"):
        for heading, value in found:
            st.markdown(f":gray[{inert(heading)}]  \n{inert(value)}", width=_FACT_PX)


def _show_estimate(profile: Profile, sweep: Sweep, other: ProfileEntry | None) -> None:
    if sweep.is_pending:
        st.caption(PENDING)
    elif sweep.problem:
        st.caption(f"There are passes with zeros imposed, but no estimate: {inert(sweep.problem)}.")
    elif sweep.prospects is None:
        st.caption(
            "How fast it may become when pruned is unknown: this engine was not timed here with zeros imposed on this "
            "model, which takes an engine that can impose them, such as DeepSparse."
        )
        if other is not None:
            label = f"See {inert(engine_text(other))}, which was timed so"
            st.page_link(PROFILE, label=label, icon=":material/layers:", query_params={"id": other.id})
    elif (chosen := chosen_outcome(sweep.prospects)) is not None:
        st.caption(inert(estimate_basis(chosen)))
        if sentence := other_settings(profile, sweep):
            st.warning(inert(sentence), icon=":material/balance:")
