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
"""What each key does; those with a button of their own are that button's."""

# "/" and "?" are no keys that a Streamlit button can have. Nothing happens where a person types.
_JS = """
const SEARCH = '[data-testid=stMain] input[aria-label=Search]';
const BENCHMARKS = '[data-testid=stSidebarNav] a[href$="/benchmarks"]';

function search(tries) {
  const field = document.querySelector(SEARCH);
  if (field) field.focus();
  else if (tries) setTimeout(search, 100, tries - 1);
}

const ACTS = {
  '/': () => {
    if (!document.querySelector(SEARCH)) document.querySelector(BENCHMARKS)?.click();
    search(50);
  },
  '?': () => document.querySelector('.st-key-keys summary')?.click(),
  'b': () => history.back(),
};

export default function () {
  const pressed = event => {
    const isTyping = event.target.closest?.('input, textarea, select, [contenteditable=true]');
    const act = ACTS[event.key];
    if (!act || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };
  document.addEventListener('keydown', pressed);
  return () => document.removeEventListener('keydown', pressed);
}
"""


def show_keys() -> None:
    """Show the list of keys at the foot of the sidebar, and let them work."""
    with st.sidebar.container(key="keys"):
        with st.expander("Keys", icon=":material/keyboard:"):
            st.markdown("  \n".join(f"`{key}` {does}" for key, does in KEYS.items()))
        st.components.v2.component("enginebench_keys", js=_JS)(key="keys of all pages")


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
