"""The profiles whose layers stand for A and B: which were taken, other ones to take, and how to make one."""

from functools import partial

import streamlit as st

from enginebench_controller.store.experiments import Contender
from enginebench_ui.compare_page import address, reading
from enginebench_ui.compare_page.reading import ComparedLayers
from enginebench_ui.pages import NEW_PROFILE, PROFILE
from enginebench_ui.views.compare_points import Side
from enginebench_ui.views.compare_projects import Choice
from enginebench_ui.views.compare_sources import (
    ID_CHARACTERS,
    Source,
    Wanted,
    entry_labels,
    lost_sentence,
    profile_address,
    profile_command,
    source,
    source_sentence,
)
from enginebench_ui.views.text import inert


def choose_layers(sides: tuple[Side, Side], choice: Choice) -> ComparedLayers | None:
    """Draw which profiles stand for the sides; return them compared, or None where one is missing."""
    entries = reading.profile_entries()
    found: list[Source] = []
    for one, contender, column in zip(sides, (choice.first, choice.second), st.columns(2, gap="large"), strict=True):
        if contender is not None:
            with column:
                named = address.value(address.PROFILES[one.letter])
                found.append(source(_wanted(one, contender), entries, named))
                _show_source(found[-1])
    if any(one.lost for one in found):
        address.forget(address.ROW)  # it is a number in the layers of the profiles that were named
    ids = [one.taken.id for one in found if one.taken is not None]
    if len(ids) < len(sides):
        return None
    with st.spinner("Comparing layers …"):
        return reading.layers(ids[0], ids[1])


def _wanted(one: Side, contender: Contender) -> Wanted:
    return Wanted(one.letter, contender, one.chosen)


def _show_source(found: Source) -> None:
    if sentence := lost_sentence(found):
        st.warning(inert(sentence), icon=":material/link_off:")
    st.caption(inert(source_sentence(found)))
    if found.taken is None:
        st.code(profile_command(found.wanted), language="shell", wrap_lines=True)
        parameters = dict(profile_address(found.wanted))
        st.page_link(NEW_PROFILE, label="New profile", icon=":material/add_notes:", query_params=parameters)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Profile of {found.wanted.letter}"
        st.page_link(PROFILE, label=label, icon=":material/layers:", query_params={"id": found.taken.id})
        if len(found.candidates) > 1:
            _show_others(found)


def _show_others(found: Source) -> None:
    letter, names = found.wanted.letter, entry_labels(found.candidates)
    key = f"profile {letter}"
    taken = found.taken.id[:ID_CHARACTERS] if found.taken else None
    st.selectbox(
        f"Layers of {letter} from",
        list(names),
        format_func=lambda one: names.get(one, one),
        key=address.follow(key, taken),
        on_change=partial(_profile_changed, letter, key),
        label_visibility="collapsed",
    )


def _profile_changed(letter: str, key: str) -> None:
    address.put(address.PROFILES[letter], st.session_state[key])
    address.forget(address.ROW)
