"""The state of the page in its address, so that a comparison can be sent: names that stay, ids as values.

The address is what holds; tables and lists follow it. Widgets whose labels say it all are bound by Streamlit itself,
under the names in capitals here.
"""

from collections.abc import Iterable
from typing import Any

import streamlit as st

PROJECTS = {"A": "a", "B": "b"}
POINTS = {"A": "ea", "B": "eb"}
PROFILES = {"A": "pa", "B": "pb"}
HIDDEN = "off"
EXCLUDED = "without"
FILTERS = "f"
ROW = "row"

THRESHOLD = "t"
REPEATS = "runs"
VIEW = "view"
BARS = "bars"
WORDS = "words"
ORDER = "order"
BIND = "query-params"

_SEPARATOR = ","


def value(name: str) -> str:
    """Return what the address says, "" where nothing."""
    return str(st.query_params.get(name, ""))


def joined(name: str) -> frozenset[str]:
    """Return the set of short ids that the address keeps under one name."""
    return frozenset(part for part in value(name).split(_SEPARATOR) if part)


def repeated(name: str) -> tuple[str, ...]:
    """Return all that the address says under one name."""
    return tuple(text for text in st.query_params.get_all(name) if text)


def put(name: str, text: str | Iterable[str]) -> None:
    """Write into the address; nothing is said where the text, or the list, is empty. A list repeats the name."""
    kept = text if isinstance(text, str) else list(text)
    if kept:
        st.query_params[name] = kept
    else:
        st.query_params.pop(name, None)


def put_joined(name: str, parts: Iterable[str]) -> None:
    """Write a set of short ids into the address."""
    put(name, _SEPARATOR.join(sorted(parts)))


def forget(*names: str) -> None:
    """Take names out of the address: what they said is of something that is no longer shown."""
    for name in names:
        put(name, "")


def follow(key: str, state: Any) -> str:
    """Bring a widget to what the address says, before it is drawn; return its key.

    In each run, also where the session knows it already: only a run that sets it tells the browser, and of a run that
    another one overtakes Streamlit throws away what it had not sent.
    """
    st.session_state[key] = state
    return key
