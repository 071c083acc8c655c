"""The list of targets with their health: asked for beside the page, which is drawn meanwhile."""

import time
from collections.abc import Mapping, Sequence

import streamlit as st

from enginebench_controller.records import TargetSnapshot
from enginebench_controller.running.health import HealthAnswer, ask_health
from enginebench_ui.showing import table
from enginebench_ui.views.targets import TargetView, askable, overview_rows

LIMIT_S = 3.0
"""How long a target may take to answer."""
KEPT_S = 30.0
"""How long an answer holds, so that a click elsewhere on the page does not ask again."""

_ANSWERS = "health of targets"
COLUMNS = {
    "Health": st.column_config.TextColumn(help=f"Asked when this page was opened; at most {LIMIT_S:g} s each."),
    "Answer (ms)": st.column_config.NumberColumn(format="%.0f"),
    "Engines": st.column_config.TextColumn(help="Available, of those that are known there."),
}


def show_overview(views: Sequence[TargetView], snapshots: Sequence[TargetSnapshot]) -> None:
    """Show every target in a line, first with the health of a moment ago, then with what it answers now."""
    st.fragment(_show, parallel=True)(views, snapshots)


def _show(views: Sequence[TargetView], snapshots: Sequence[TargetSnapshot]) -> None:
    place = st.empty()
    asked_anew = st.button(
        "Check health", icon=":material/favorite:", help=f"Asks all targets at once, for {LIMIT_S:g} s at most."
    )
    known = {} if asked_anew else _kept()
    _draw(place, views, snapshots, known)
    if missing := [target for target in askable(views) if target.name not in known]:
        answers = {answer.target.name: answer for answer in ask_health(missing, LIMIT_S)}
        st.session_state[_ANSWERS] = (time.monotonic(), known | answers)
        _draw(place, views, snapshots, known | answers)


def _draw(
    place: st.delta_generator.DeltaGenerator,
    views: Sequence[TargetView],
    snapshots: Sequence[TargetSnapshot],
    answers: Mapping[str, HealthAnswer],
) -> None:
    with place.container():
        table(overview_rows(views, snapshots, answers), f"targets {len(answers)}", columns=COLUMNS)


def _kept() -> dict[str, HealthAnswer]:
    asked_at_s, answers = st.session_state.get(_ANSWERS, (0.0, {}))
    return dict(answers) if time.monotonic() - asked_at_s < KEPT_S else {}
