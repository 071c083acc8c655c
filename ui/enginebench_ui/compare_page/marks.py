"""The letters A and B in the colours of their points, and lists of sentences."""

from collections.abc import Sequence

import streamlit as st

from enginebench_ui.views.compare_chart import COLOURS
from enginebench_ui.views.text import inert

_STYLE = (
    "display:inline-flex;align-items:center;justify-content:center;width:1.9rem;height:1.9rem;border-radius:50%;"
    "font-weight:700;color:#000;background:{}"
)


def mark(letter: str) -> None:
    """Draw A or B as the chart does."""
    st.html(
        f'<span role="img" aria-label="Side {letter}" style="{_STYLE.format(COLOURS[letter])}">{letter}</span>',
        width="content",
    )


def warn_unlike(heading: str, sentences: Sequence[str]) -> None:
    """Say what a reader of a comparison must not miss, in one banner; nothing without sentences."""
    if sentences:
        lines = "".join(f"\n- {inert(sentence)}" for sentence in sentences)
        st.warning(f"**{heading}**\n{lines}", icon=":material/balance:")
