"""One way to show a chart, a table and an empty page, so that each page offers the same with them."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from enginebench_controller.verdicts.answers import Answer, AnswerOutcome
from enginebench_ui.pages import BENCHMARK, NEW_BENCHMARK, OF_SEARCH
from enginebench_ui.shared.benchmarks import BenchmarkView
from enginebench_ui.shared.charts import DARK, LIGHT, dress
from enginebench_ui.shared.text import UNKNOWN, Row, cells, inert, isolated, number

_MOST_ROWS_PX = 560

RATE = "%,.5g"
"""How columns show items a second: five digits, for a language model may do 0.041234 of them, others 12,346."""

ICONS = {
    AnswerOutcome.RANKED: ":material/trophy:",
    AnswerOutcome.SAME: ":material/equal:",
    AnswerOutcome.PARTLY: ":material/rule:",
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
    with st.container(key=f"table-of-{key}"):
        st.dataframe(
            shown,
            key=key,
            hide_index=True,
            placeholder="–",
            column_config=dict(columns or {}),
            height=_MOST_ROWS_PX if tall else height,
        )
    row_cards(shown, len(shown), key, columns=columns)


MOST_CARDS = 60


def row_cards(rows: Sequence[Row], total: int, key: str, *, columns: Mapping[str, Any] | None = None) -> None:
    """Show a card a row to those whose screen is too narrow for the table; at most `MOST_CARDS` of `total` rows."""
    if not rows:
        return
    with st.container(key=f"cards-of-{key}"):
        st.html(cards_html(rows[:MOST_CARDS], columns or {}))
        if total > MOST_CARDS:
            st.caption(f"The first {MOST_CARDS} of {total:,} rows; a wider screen shows all.")


def cards_html(rows: Sequence[Row], columns: Mapping[str, Any]) -> str:
    """Return a closed card a row, named by what tells it from the others; opened it lists all, with names escaped."""
    named_by = _headings(rows, columns)
    return f'<div class="eb-cards">{"".join(_card(row, named_by, columns) for row in rows)}</div>'


_NAMED_BY = 3
_NAMED_BY_AT_MOST = 5


def _headings(rows: Sequence[Row], columns: Mapping[str, Any]) -> list[str]:
    """The columns that name a card: the first of those that differ, or others, in their order.

    There are some more of those that differ where two cards would have one name.
    """
    able = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if not _is_link(columns.get(name))
        and not any(isinstance(row.get(name), bool) for row in rows)
        and not all(_is_unknown(row.get(name)) for row in rows)
    ]
    differing = [name for name in able if len({str(row.get(name)) for row in rows}) > 1]
    chosen = list(dict.fromkeys([*differing, *able]))[:_NAMED_BY]
    for name in differing[_NAMED_BY:_NAMED_BY_AT_MOST]:
        if len({tuple(str(row.get(each)) for each in chosen) for row in rows}) == len(rows):
            break
        chosen.append(name)
    return [name for name in able if name in chosen]


def _card(row: Row, named_by: Sequence[str], columns: Mapping[str, Any]) -> str:
    told = {name: value for name, value in row.items() if not _is_unknown(value)}
    heading = " · ".join(_named(name, told[name], columns.get(name)) for name in named_by if name in told)
    facts = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{_fact_html(value, columns.get(name))}</dd>" for name, value in told.items()
    )
    return f"<details><summary>{html.escape(isolated(heading) or UNKNOWN)}</summary><dl>{facts}</dl></details>"


def _named(name: str, value: Any, column: Any) -> str:
    """A value in a heading, where nothing else says what a number is of."""
    text = _as_shown(value, column)
    return f"{name} {text}" if isinstance(value, int | float) else text


def _fact_html(value: Any, column: Any) -> str:
    text = _as_shown(value, column)
    is_link = _is_link(column)
    return f'<a href="{html.escape(text)}" target="_self">open</a>' if is_link else html.escape(isolated(text))


def _is_link(column: Any) -> bool:
    return _type_config(column).get("type") == "link"


def _type_config(column: Any) -> Mapping[str, Any]:
    """What a column's own kind is configured with; nothing of those that are none of a table, as a button's."""
    return (column.get("type_config") or {}) if isinstance(column, Mapping) else {}


def _is_unknown(value: Any) -> bool:
    return value is None or value == "" or value != value  # noqa: PLR0124  # not a number


def _as_shown(value: Any, column: Any) -> str:
    """A value as its column shows it, which speaks sprintf of JavaScript: also "%,.1f" and "%,.5g"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    form = str(_type_config(column).get("format") or "")
    if found := re.search(r"%([+,]*)\.(\d)([fg])", form):
        sign, comma = ("+" if "+" in found[1] else ""), ("," if "," in found[1] else "")
        if found[3] == "g":  # which JavaScript never writes as Python does, with an exponent from that many digits on
            return form.replace(found[0], f"{float(f'{value:.{found[2]}g}'):{sign}{comma}.15g}")
        return form.replace(found[0], f"{value:{sign}{comma}.{found[2]}f}")
    return str(value) if isinstance(value, int) else number(value)


def show_answers(answers: Sequence[Answer], of: str = "") -> None:
    """Show the sentences that a person came for, each with what must not be missed; what holds for all is said once.

    They begin with the name of what they are `of`, where it does not stand above them.
    """
    if not answers:
        return
    shared = [line for line in answers[0].remarks if all(line in one.remarks for one in answers)]
    with st.container(border=True, key="answer", gap="small"):
        if of:
            st.caption(f"What {inert(of)} has answered")
        for answer in answers:
            below = [f"  \n:gray[{inert(line)}]" for line in answer.remarks if line not in shared]
            st.markdown(f"{ICONS[answer.outcome]} **{inert(answer.sentence)}**{''.join(below)}")
        if shared:
            st.caption("  \n".join(map(inert, shared)))
        if commands := [answer for answer in answers if answer.command]:
            with st.expander("What would tell", icon=":material/terminal:"):
                for answer in commands:
                    st.caption(f"{inert(answer.work)}: {inert(answer.advice or '')}")
                    st.code(answer.command or "", language="shell", wrap_lines=True)


def warn_unlike(sentences: Sequence[str], heading: str = "Not a comparison of equals") -> None:
    """Say what a reader of a comparison must not miss, in one banner; nothing without sentences."""
    if sentences:
        lines = "".join(f"\n- {inert(sentence)}" for sentence in sentences)
        st.warning(f"**{heading}**\n{lines}", icon=":material/balance:")


def share_button(report: Callable[[], str], name: str) -> None:
    """Show the button that saves an HTML report; it is made once the button is pressed."""
    st.download_button(
        "Share",
        report,
        file_name=f"enginebench-{name}.html",
        mime="text/html",
        icon=":material/share:",
        on_click="ignore",
        help="Save a report that begins with the answer: one HTML file that needs no net.",
    )


def benchmark_card(view: BenchmarkView) -> None:
    """Show one benchmark or search in a list, as a link to its page."""
    page = OF_SEARCH[view.search.kind] if view.search else BENCHMARK
    with st.container(border=True):
        left, right = st.columns([3, 1], vertical_alignment="center")
        with left:
            st.page_link(page, label=f"**{inert(view.name)}**", query_params={"id": view.id})
            facts = (view.created, view.covered, view.id, view.note)
            lines = (" · ".join(filter(None, facts)), view.said)
            st.caption("  \n".join(inert(line) for line in lines if line))
        with right, st.container(horizontal=True, horizontal_alignment="right"):
            for text, colour in view.tallies:
                st.badge(text, color=colour)


def nothing_yet(sentence: str, command: str, page: Any = None, label: str = "") -> None:
    """Show an empty state: what is missing, the command that makes it, and the page that does the same."""
    st.info(sentence, icon=":material/info:")
    st.code(command, language="shell")
    if page is not None:
        st.page_link(page, label=label, icon=":material/add:")


def nothing_measured() -> None:
    """Show how a first measurement is made."""
    nothing_yet(
        "Nothing has been measured yet. Either of these puts a first benchmark here:",
        "enginebench demo\nenginebench run model.onnx --engine onnxruntime,openvino --batch 1,4",
        NEW_BENCHMARK,
        "Measure a model here",
    )
