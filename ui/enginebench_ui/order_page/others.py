"""Choosing an existing benchmark to compare the new one with."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from enginebench_controller.records import Benchmark
from enginebench_ui.choosing import choose_one
from enginebench_ui.order_page import reading as kept
from enginebench_ui.views.ordering.fields import axes_of
from enginebench_ui.views.text import instant

_NOTHING = "none"
_MOST = 100
"""So many of the newest are offered; any other may stand in the address."""


def choose_other() -> str | None:
    """Let a person choose a benchmark to be compared with, and take its configurations over; None for no comparison."""
    offered = {one.id: one for one in _offered()}
    if not offered:
        return None
    labels = {_NOTHING: "No existing benchmark"} | {key: _label(one) for key, one in offered.items()}
    chosen = choose_one(
        "Compare with",
        labels,
        "with",
        default=_NOTHING,
        help="Its points are drawn over the new ones. To compare two engines, choose both above.",
    )
    if chosen == _NOTHING:
        return None
    st.button(
        "Same configurations as that one",
        icon=":material/content_copy:",
        on_click=_take_over,
        args=(offered[chosen].plan,),
    )
    return chosen


def _offered() -> list[Benchmark]:
    found = list(kept.newest_benchmarks(_MOST))
    asked = st.query_params.get("with", _NOTHING)
    if asked not in (_NOTHING, *(one.id for one in found)):
        found += [one for one in [kept.benchmark_or_none(asked)] if one]
    return found


def _label(benchmark: Benchmark) -> str:
    return f"{benchmark.name} · {instant(benchmark.created_at_unix_ns)} · {benchmark.id}"


def _take_over(plan: Mapping[str, Any]) -> None:
    """Set the widgets of the form to what a plan says; runs before they are drawn."""
    axes = axes_of(plan)
    for several, name, one, toggle in (
        ("batches", "batch", "batch", "batches_on"),
        ("several_cores", "cores", "cores", "cores_on"),
    ):
        values = axes.get(name) or []
        st.session_state[toggle] = len(values) > 1
        st.session_state[several] = values
        st.session_state[one] = values[0] if values else (1 if one == "batch" else None)
    for name in ("precision", "load", "hint"):
        if axes.get(name):
            st.session_state[name] = axes[name]
    st.session_state["streams"] = ", ".join(map(str, axes.get("streams", ())))
