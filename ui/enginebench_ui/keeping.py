"""Answers kept in memory, one copy for all sessions: what is kept is frozen."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import streamlit as st

P = ParamSpec("P")
R = TypeVar("R")


def kept(most: int, spinner: str | bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep so many answers; arguments that begin with an underscore only serve to find one."""
    keeping: Callable[[Callable[P, R]], Callable[P, R]] = st.cache_resource(show_spinner=spinner, max_entries=most)
    return keeping
