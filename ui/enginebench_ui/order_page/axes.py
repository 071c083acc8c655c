"""Choosing batch sizes and numbers of cores: one of each, or several that multiply out to a grid."""

from collections.abc import Sequence

import streamlit as st

from enginebench_ui.views.ordering.choices import BATCHES
from enginebench_ui.views.ordering.fields import Fields

_SEVERAL = "Enable multiple"


def choose_batch() -> Fields:
    """Let a person choose one batch size or several."""
    with st.container(border=True, height="stretch"):
        several = _toggle("Batch size", "batches_on")
        if several:
            chosen = _several("batches", BATCHES, default=[1, 4])
        else:
            one = st.number_input(
                "Batch size", min_value=1, value=1, key="batch", bind="query-params", label_visibility="collapsed"
            )
            chosen = [one]
        st.caption("Items in one inference.")
    return {"batch": chosen}


def choose_cores(offered: Sequence[int], most: int | None) -> Fields:
    """Let a person choose how many cores may work, or leave it at all the target has."""
    with st.container(border=True, height="stretch"):
        several = _toggle("Cores", "cores_on")
        every = "all" if most is None else f"all ({most})"
        if several:
            chosen = _several("several_cores", offered, default=list(offered[:2]))
        else:
            one = st.number_input(
                "Cores",
                min_value=1,
                value=None,
                placeholder=every,
                key="cores",
                bind="query-params",
                label_visibility="collapsed",
            )
            chosen = [] if one is None else [one]
        st.caption("Physical cores; by default all that the target has.")
    return {"cores": chosen} if chosen else {}


def _toggle(label: str, key: str) -> bool:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"**{label}**", width="content")
        return bool(st.toggle(_SEVERAL, key=key, bind="query-params"))


def _several(key: str, offered: Sequence[int], default: list[int]) -> list[int | str]:
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
