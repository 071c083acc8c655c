"""What can be done without a mouse: the keys of all pages, and the buttons that step from one thing to the next."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import streamlit as st

T = TypeVar("T")

KEYS: Mapping[str, str] = {
    "/": "search, here or among the benchmarks",
    "N": "the next cell or layer",
    "P": "the previous one",
    "B": "back",
    "?": "this list",
}
"""What each key does; those with a button of their own are that button's, the others are `entry/keys.js`."""


def show_keys() -> None:
    """Show the list of keys at the foot of the sidebar."""
    listed = "".join(f"<dt><kbd>{key}</kbd></dt><dd>{does}</dd>" for key, does in KEYS.items())
    with st.sidebar.container(key="keys"):
        # Not an expander with Markdown, which every page would have to draw: it is closed.
        switch = '<label><input type="checkbox" checked> Keys are on, in this browser</label>'
        st.html(f"<details><summary>Keys</summary><dl>{listed}</dl>{switch}</details>")


def show_steps(what: str, offered: Sequence[T], chosen: T | None, choose: Callable[[T], None]) -> None:
    """Show the buttons to the previous and the next of what is `offered`; without a choice, the next is the first."""
    place = offered.index(chosen) if chosen in offered else -1
    with st.container(horizontal=True, width="content", gap="small"):
        _step(f"Previous {what}", "P", ":material/chevron_left:", offered, place - 1, choose)
        _step(f"Next {what}", "N", ":material/chevron_right:", offered, place + 1, choose)


def _step(label: str, key: str, icon: str, offered: Sequence[T], place: int, choose: Callable[[T], None]) -> None:
    is_there = 0 <= place < len(offered)
    st.button(
        label,
        icon=icon,
        type="tertiary",
        shortcut=key,
        disabled=not is_there,
        on_click=choose,
        args=(offered[place],) if is_there else (),
    )
