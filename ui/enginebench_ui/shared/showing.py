"""One way to show a chart, a table and an empty page, so that each page offers the same with them."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from enginebench_controller.verdicts.answers import Answer, AnswerOutcome
from enginebench_ui.shared.charts import DARK, LIGHT, dress
from enginebench_ui.shared.text import Row, cells, inert

_MOST_ROWS_PX = 560

ICONS = {
    AnswerOutcome.RANKED: ":material/trophy:",
    AnswerOutcome.SAME: ":material/equal:",
    AnswerOutcome.PARTLY: ":material/trophy:",
    AnswerOutcome.CANNOT_TELL: ":material/help:",
}
"""What stands before an answer."""


def chart(figure: go.Figure, key: str, *, name: str | None = None, alt: str | None = None) -> None:
    """Draw a figure; its toolbar saves it as SVG, under `name`. `alt` says what it shows to those who do not see it."""
    dress(figure, DARK if st.context.theme.type == "dark" else LIGHT)
    # Streamlit hands each figure to Plotly twice, the second time as a copy: so Plotly need not compute its data again.
    figure.update_layout(datarevision=0)
    st.plotly_chart(figure, key=key, theme=None, config=_options(name or key), alt=alt)


def _options(name: str) -> dict[str, Any]:
    image = {"format": "svg", "filename": f"enginebench-{name}"}
    return {"displaylogo": False, "toImageButtonOptions": image, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def table(
    rows: Sequence[Row],
    key: str,
    *,
    columns: Mapping[str, Any] | None = None,
    height: int | str = "content",
) -> None:
    """Show rows that a person can sort, search, and save as CSV with the toolbar; what is unknown shows as a dash."""
    shown = [cells(row) for row in rows]
    tall = len(shown) > 14 and height == "content"
    st.dataframe(
        shown,
        key=key,
        hide_index=True,
        placeholder="–",
        column_config=dict(columns or {}),
        height=_MOST_ROWS_PX if tall else height,
    )


def show_answers(answers: Sequence[Answer]) -> None:
    """Show the sentences that a person came for, each with what must not be missed."""
    if not answers:
        return
    with st.container(border=True):
        for answer in answers:
            icon = ICONS[answer.outcome]
            below = [f"  \n:gray[{inert(line)}]" for line in answer.remarks]
            st.markdown(f"{icon} **{inert(answer.sentence)}**{''.join(below)}")
            if answer.command:
                st.caption(f"{inert(answer.advice or '')}:")
                st.code(answer.command, language="shell", wrap_lines=True)


def nothing_yet(sentence: str, command: str, page: Any = None, label: str = "") -> None:
    """Show an empty state: what is missing, the command that makes it, and the page that does the same."""
    st.info(sentence, icon=":material/info:")
    st.code(command, language="shell")
    if page is not None:
        st.page_link(page, label=label, icon=":material/add:")
