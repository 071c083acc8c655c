"""What an order comes to before it is run: its cells, how long they will take, or why they cannot be."""

from collections.abc import Sequence

import streamlit as st

from enginebench_ui.views.text import inert


def show_refusals(reasons: Sequence[str]) -> None:
    """Say why nothing can be run, in the planner's words."""
    heading = "This cannot be run:" if len(reasons) == 1 else f"This cannot be run, for {len(reasons)} reasons:"
    st.error("\n".join([heading, "", *(f"- {inert(reason)}" for reason in reasons)]), icon=":material/block:")
