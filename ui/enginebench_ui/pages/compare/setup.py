"""The setup: project A and project B, their experiments as points, the latency threshold and the sweet spots."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from enginebench_controller.files.palette import letters_on
from enginebench_controller.store.models import Contender
from enginebench_ui.pages import BENCHMARK, NEW_BENCHMARK
from enginebench_ui.pages.compare import address, stored
from enginebench_ui.pages.compare.shapes.points import (
    LETTERS,
    NO_POINT,
    Looks,
    ShownSide,
    alike,
    experiment_rows,
    lacking,
    lost_sentence,
    points_figure,
    selected,
    side,
    spot_sentence,
    toggled,
)
from enginebench_ui.pages.compare.shapes.sides import ChosenProjects, contender_key, facts, labels
from enginebench_ui.shared import choosing
from enginebench_ui.shared.showing import RATE, chart, row_cards
from enginebench_ui.shared.text import inert

_STYLE = (
    "display:inline-flex;align-items:center;justify-content:center;width:1.9rem;height:1.9rem;border-radius:50%;"
    "font-weight:700;color:{};background:{}"
)


def mark(letter: str, looks: Looks) -> None:
    """Draw A or B as the chart does."""
    colour = looks[letter].colour
    style = _STYLE.format(letters_on(colour), colour)
    st.html(
        f'<span role="img" aria-label="Side {letter}" style="{style}">{letter}</span>',
        width="content",
    )


_ID = 12
_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn


@dataclass(frozen=True)
class ViewOptions:
    """What a person wants of both sides: the largest latency in ms, None for any, and all runs or the newest only."""

    threshold_ms: float | None
    repeats: bool


PLACE = "setup"
"""Whether what is compared is unfolded."""


def show_projects(contenders: Sequence[Contender], choice: ChosenProjects, looks: Looks) -> None:
    """Draw the two lists of projects."""
    names = labels(contenders)
    chosen = {
        letter: contender_key(one) for letter, one in zip(LETTERS, (choice.first, choice.second), strict=True) if one
    }
    for letter, column in zip(LETTERS, st.columns(2, gap="large"), strict=True):
        with column, st.container(horizontal=True, vertical_alignment="bottom"):
            mark(letter, looks)
            key = address.follow(f"project {letter}", chosen[letter])
            st.selectbox(
                f"Project {letter}",
                list(names),
                format_func=lambda one: names.get(one, one),
                key=key,
                on_change=partial(_project_changed, letter, chosen),
                help="A model version on an engine, target and device, with the best throughput measured there.",
            )


def ask_view() -> ViewOptions:
    """Draw the latency threshold, and whether earlier runs are wanted; return both."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        threshold_ms = st.number_input(
            "Latency threshold (ms)",
            min_value=0.0,
            value=None,
            step=1.0,
            format="%0.3f",
            key=address.THRESHOLD,
            bind=address.BIND,
            width=220,
            placeholder="none",
            help="The sweet spot: the most throughput at a median latency of at most this. Empty or 0: none.",
        )
        repeats = st.toggle(
            "Earlier runs, too",
            key=address.REPEATS,
            bind=address.BIND,
            help="Without it, each configuration is shown by its newest measurement that has numbers.",
        )
    return ViewOptions(threshold_ms, repeats)


def read_sides(choice: ChosenProjects, wish: ViewOptions) -> tuple[ShownSide, ShownSide]:
    """Read the experiments of both sides, with the points and marks of the address."""
    one, other = (
        _read_side(letter, contender, wish)
        for letter, contender in zip(LETTERS, (choice.first, choice.second), strict=True)
    )
    chosen = {each.letter for each in (one, other) if address.value(address.POINTS[each.letter]) and not each.lost}
    return alike((one, other), chosen)


def show_chart(sides: tuple[ShownSide, ShownSide], threshold_ms: float | None, looks: Looks) -> None:
    """Draw the chart of both sides, and say where the sweet spots are."""
    spots = [(one.spot, spot_sentence(one, threshold_ms)) for one in sides]
    lines = [f":material/{'target' if spot else 'block'}: {inert(text)}" for spot, text in spots if text]
    if lines:
        st.markdown("  \n".join(lines))
    figure = points_figure(sides, threshold_ms, looks)
    if figure is None:
        st.info("There is no point to draw: no experiment of either side has numbers and its mark.")
        return
    chart(
        figure, "points", name="latency-throughput", alt="Throughput over median latency of both projects' experiments"
    )
    st.caption(
        "Round points on a thin line: inferences within one configuration, from small to large batches and streams. "
        "Square points on a dotted line: the fastest of each configuration; these differ in cores, precision, hint, "
        "load, input set or options. **A** and **B**: the selected points; B has hollow points and dashed lines. A "
        "blue ring: a sweet spot, the most throughput within the threshold."
    )


def show_experiments(sides: tuple[ShownSide, ShownSide], choice: ChosenProjects, looks: Looks) -> None:
    """Draw the tables in which points are selected, added and removed, and name the side that lacks one."""
    contenders = (choice.first, choice.second)
    for one, contender, column in zip(sides, contenders, st.columns(2, gap="large"), strict=True):
        if contender is None:
            continue
        with column:
            with st.container(horizontal=True, vertical_alignment="center"):
                mark(one.letter, looks)
                st.caption(inert(facts(contender)), width="content")
            show_missing([one])
            if one.experiments:
                _show_table(one)
            else:
                st.page_link(NEW_BENCHMARK, label="New benchmark", icon=":material/add_chart:")


def show_missing(sides: Iterable[ShownSide]) -> None:
    """Say which point of an address is not there, and which side has none."""
    for one in sides:
        if sentence := lost_sentence(one):
            st.warning(inert(sentence), icon=":material/link_off:")
        if sentence := lacking(one):
            st.warning(inert(sentence), icon=":material/touch_app:")


def _show_table(one: ShownSide) -> None:
    ids = tuple(entry.id for entry in one.experiments)
    # Another set of rows is another widget: a place in one means nothing in the other.
    key = f"experiments {one.letter} {hash(ids)}"
    rows, columns = experiment_rows(one), _columns(one, ids)
    st.dataframe(
        list(rows),
        key=choosing.follow_row(key, one.experiments.index(one.chosen) if one.chosen else None),
        hide_index=True,
        placeholder="–",
        height="content" if len(ids) <= 10 else 400,
        column_config=columns,
        on_select=partial(_row_selected, one, ids, key),
        selection_mode=["single-row", "single-cell"],
        alt=f"Experiments of project {one.letter}: select a row to make it {one.letter}",
    )
    row_cards(rows, len(ids), key, columns=columns)
    if one.chosen is not None:
        st.page_link(
            BENCHMARK,
            label=f"The benchmark of {one.letter}",
            icon=":material/speed:",
            query_params={"id": one.chosen.benchmark_id},
        )


def _columns(one: ShownSide, ids: tuple[str, ...]) -> Mapping[str, object]:
    letter, click = one.letter, f"drawn {one.letter} {hash(ids)}"
    drawn = st.column_config.ButtonColumn(
        "Draw",
        type="tertiary",
        width=50,
        pinned=True,
        key=click,
        on_click=partial(_mark_clicked, letter, ids, click, one.chosen.id if one.chosen else None),
        help="Whether its point is on the chart; a click adds or removes it.",
    )
    return {
        "Drawn": drawn,
        "Point": _TEXT(width=95, help=f"{letter} is the selected row; select another one to move it."),
        "Batch": _NUMBER(width=50),
        "Streams": _NUMBER(width=65),
        "Cores": _NUMBER(width=55),
        "Items/s": _NUMBER(format=RATE, width=65),
        "± items/s (%)": _NUMBER(format="%.1f", width=100, help="Half of the throughput's 95 % interval."),
        "Median (ms)": _NUMBER(format="%.3f", width=90),
        "± ms (%)": _NUMBER(format="%.1f", width=80, help="Half of the median's 95 % interval."),
        "Status": _TEXT(
            width=95, help="Inconclusive: a wider interval, less time or fewer iterations than was asked for."
        ),
        "Earlier": _NUMBER(help="Measurements of the very same configuration before this one."),
    }


def _read_side(letter: str, contender: Contender | None, wish: ViewOptions) -> ShownSide:
    named = address.value(address.POINTS[letter])
    also = [named] if named and named != NO_POINT else []
    found = stored.experiments(contender, repeats=wish.repeats, also=also) if contender else ()
    return side(letter, found, named, address.joined(address.HIDDEN), wish.threshold_ms)


def _project_changed(letter: str, chosen: Mapping[str, str]) -> None:
    """Write both projects, so that the other one stays who it is: one run may be told that both were chosen anew."""
    st.session_state[PLACE] = True  # it would fold under the hand of whoever chooses
    for each in LETTERS:
        address.put(address.PROJECTS[each], st.session_state.get(f"project {each}", chosen[each]))
    address.forget(address.POINTS[letter], address.PROFILES[letter], address.ROW)


def _row_selected(one: ShownSide, ids: tuple[str, ...], key: str) -> None:
    row = choosing.selected_row(key)
    if row is None or row >= len(ids):
        address.put(address.POINTS[one.letter], NO_POINT)
        return
    if one.chosen is not None and one.chosen.id == ids[row]:
        return
    address.put(address.POINTS[one.letter], ids[row][:_ID])
    address.put_joined(address.HIDDEN, selected(address.joined(address.HIDDEN), ids[row]))


def _mark_clicked(letter: str, ids: tuple[str, ...], click: str, chosen_id: str | None) -> None:
    """Add or remove a point; a side whose own point goes has none until another row is selected."""
    identity = ids[st.session_state[click]["row"]]
    hidden = toggled(address.joined(address.HIDDEN), identity)
    address.put_joined(address.HIDDEN, hidden)
    if identity == chosen_id and identity[:_ID] in hidden:
        address.put(address.POINTS[letter], NO_POINT)
