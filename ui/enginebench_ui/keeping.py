"""What pages read from the store, kept in memory until it changes: one copy for all sessions, since records are frozen.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import streamlit as st

from enginebench_controller.home import default_home
from enginebench_controller.store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

READ_TIMEOUT_S = 10.0


def kept(most: int, spinner: str | bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep so many answers, as they are; arguments that begin with an underscore do not tell answers apart.

    The `generation` among the arguments is there for that only: an equal one, an equal answer.
    """
    keeping: Callable[[Callable[P, R]], Callable[P, R]] = st.cache_resource(show_spinner=spinner, max_entries=most)
    return keeping


def place() -> tuple[str, str]:
    """Return where the store is, and its generation: the first arguments of what is kept."""
    own = default_home().store
    return str(own.path), own.generation()


def store_at(path: str) -> Store:
    """Return the store there, as pages read it: they do not wait for long."""
    return Store(Path(path), timeout_s=READ_TIMEOUT_S)
