"""Two projects against each other, named by `?a=…&b=…`: their points, their layer types, and every layer of both."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from enginebench_controller.records import Measurement
from enginebench_controller.stats.layers import unevenness
from enginebench_controller.store.models import Contender, Experiment
from enginebench_controller.verdicts.layers.profiles import told_remarks
from enginebench_controller.verdicts.layers.quantizing import INT8_UNUSED
from enginebench_ui.pages import NEW_BENCHMARK, NEW_PROFILE, PROFILE, PROJECTS
from enginebench_ui.pages.compare import address, setup, stored
from enginebench_ui.pages.compare.by_layer import show_layers, show_precisions, show_types
from enginebench_ui.pages.compare.shapes.inference import (
    Bars,
    bars_figure,
    interval_sentences,
    point_rows,
    side_text,
    verdict_line,
)
from enginebench_ui.pages.compare.shapes.points import LETTERS, Looks, ShownSide
from enginebench_ui.pages.compare.shapes.sides import (
    ID_CHARACTERS,
    ChosenProjects,
    LayerSource,
    Wanted,
    choose,
    entry_labels,
    layers_doubt,
    lost_sentence,
    median_ratio,
    profile_address,
    profile_command,
    source,
    source_sentence,
)
from enginebench_ui.pages.compare.shapes.summary import advice_lines, setting_rows
from enginebench_ui.pages.compare.stored import ComparedLayers
from enginebench_ui.shared import reading
from enginebench_ui.shared.quantizing import show_quantize
from enginebench_ui.shared.showing import RATE, chart, nothing_yet, share_button, show_answers, table, warn_unlike
from enginebench_ui.shared.text import count_of, inert


def show_more(found: ComparedLayers) -> None:
    """Draw the settings that differ and the advice, each out of the way until it is wanted."""
    comparison = found.comparison
    if rows := setting_rows(comparison.settings):
        with st.expander(f"{count_of(len(rows), 'setting')} not the same on both sides"):
            table(rows, "settings")
    if lines := advice_lines(comparison):
        with st.expander(f"Advice ({len(lines)})"):
            for line in lines:
                st.markdown(f"- {inert(line)}")
            profiles = {one.id: one for one in comparison.profiles}  # both sides may be of one
            for letter, profile in zip(LETTERS, profiles.values(), strict=False):
                if any(one.rule == INT8_UNUSED and one.profile_id == profile.id for one in comparison.advice):
                    show_quantize(profile, letter if len(profiles) > 1 else "")


def show_share(sides: tuple[ShownSide, ShownSide], choice: ChosenProjects) -> None:
    """Draw the button that saves the report: the verdict, and where both sides have a profile the layers behind it."""
    points = [stored.measured(one.chosen.id) for one in sides if one.chosen is not None]
    points = points if len(points) == len(sides) and all(one.latency is not None for one in points) else []
    found = sources(sides, choice)
    profiles = [one.taken.id for one in found if one.taken is not None]
    if len(profiles) == len(sides):
        share_button(lambda: layers_report(found, profiles, points), "-".join(one[:8] for one in profiles))
    elif points:
        share_button(lambda: stored.report(*points), "-".join(one.id[:8] for one in points))


def layers_report(found: Sequence[LayerSource], profiles: Sequence[str], points: Sequence[Measurement]) -> str:
    """Return the report of two profiles, and of the points they stand beside; calls no page."""
    doubt = doubt_about(found, points, stored.layers(*profiles)) if points else None
    return stored.report_of_layers(profiles, points, () if doubt is None else (doubt,))


def doubt_about(found: Sequence[LayerSource], points: Sequence[Measurement], layers: ComparedLayers) -> str | None:
    """Return why the layers may not explain the verdict; None where they may. Calls no page."""
    compared = stored.compared(*points) if len(points) == len(LETTERS) else None
    ratio = (compared.comparison.ratio or median_ratio(*points)) if compared else None
    pair = layers.pair
    return layers_doubt(found, ratio, pair.coverage.total_ns, (unevenness(pair.first), unevenness(pair.second)))


def sources(sides: tuple[ShownSide, ShownSide], choice: ChosenProjects) -> list[LayerSource]:
    """Return where the layers of each side come from, as the address says."""
    entries, contenders = stored.profile_entries(), (choice.first, choice.second)
    return [
        source(Wanted(one.letter, contender, one.chosen), entries, address.value(address.PROFILES[one.letter]))
        for one, contender in zip(sides, contenders, strict=True)
        if contender is not None
    ]


_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn
COLUMNS = {
    "Point": _TEXT(width=55, pinned=True),
    "Items/s": _NUMBER(format=RATE),
    "± items/s (%)": _NUMBER(format="%.1f", help="Half of the throughput's 95 % interval."),
    "Median (ms)": _NUMBER(format="%.3f"),
    "± ms (%)": _NUMBER(format="%.1f", help="Half of the median's 95 % interval."),
    "p95 (ms)": _NUMBER(format="%.3f", help="Needs 130 samples; empty with fewer."),
    "Precision": _TEXT(help="What the engine really executed in, and how that is known."),
    "Threads": _TEXT(help="The threads that did the work, and how that is known."),
    "Remarks": _TEXT(width="large", help="What to know before trusting the numbers."),
}


def show_verdict(sides: tuple[ShownSide, ShownSide], choice: ChosenProjects, looks: Looks) -> None:
    """Draw the bar that stays: A and B, which is faster and by how much, and what saves that for others."""
    found = {one.letter: stored.measured(one.chosen.id) for one in sides if one.chosen is not None}
    with st.container(horizontal=True, gap="medium"):
        for one in sides:
            with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
                setup.mark(one.letter, looks)
                text = side_text(one, found.get(one.letter))
                st.markdown(inert(text), width="content")
    left, right = st.columns([7, 1], vertical_alignment="center")
    with left:
        if len(found) == len(sides):
            _show_outcome(*found.values())
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        show_share(sides, choice)


def _show_outcome(first: Measurement, second: Measurement) -> None:
    if first.id == second.id:
        st.markdown(":material/equal: **A and B are the same measurement.**")
    elif (compared := stored.compared(first, second)) is not None:
        outcome = verdict_line(compared)
        st.markdown(f"{outcome.icon} :{outcome.colour}[**{inert(outcome.sentence)}**]")


def show_doubts(sides: tuple[ShownSide, ShownSide]) -> None:
    """Say in what A and B are no equals."""
    found = [stored.measured(one.chosen.id) for one in sides if one.chosen is not None]
    if len(found) < len(sides):
        return
    compared = stored.compared(*found)
    unlike = dict.fromkeys(compared.remarks if compared else ())
    if unlike:
        st.caption(f":material/balance: Not the same work on equal terms: {inert('; '.join(unlike))}.")


def show_inference(sides: tuple[ShownSide, ShownSide], looks: Looks) -> None:
    """Draw throughput or latency of both points as bars with their intervals, and what the points are."""
    points = {one.letter: stored.measured(one.chosen.id) for one in sides if one.chosen is not None}
    bars = Bars(
        st.segmented_control(
            "Bars show", list(Bars), required=True, default=Bars.THROUGHPUT, key=address.BARS, bind=address.BIND
        )
    )
    figure = bars_figure(points, bars, looks)
    if figure is None:
        st.info("There are no bars to draw: select a row with numbers in the table of A or B.")
        return
    left, right = st.columns([3, 2], gap="large", vertical_alignment="center")
    with left:
        chart(figure, f"inference {bars}", name=f"inference-{bars.lower()}", alt=f"{bars} of the points A and B")
    with right:
        st.markdown("**More is better.**" if bars is Bars.THROUGHPUT else "**Less is better.**")
        for sentence in interval_sentences(points, bars):
            st.markdown(inert(sentence))
        if len(points) == len(sides):
            show_answers(stored.answers(*points.values()))
    table(point_rows(points), "the points", columns=COLUMNS)


def choose_layers(sides: tuple[ShownSide, ShownSide], choice: ChosenProjects) -> ComparedLayers | None:
    """Draw which profiles stand for the sides; return them compared, or None where one is missing."""
    found = sources(sides, choice)
    for one, column in zip(found, st.columns(len(sides), gap="large"), strict=False):
        with column:
            _show_source(one)
    if any(one.lost for one in found):
        address.forget(address.ROW)  # it is a number in the layers of the profiles that were named
    ids = [one.taken.id for one in found if one.taken is not None]
    if len(ids) < len(sides):
        return None
    with st.spinner("Comparing layers …"):
        return stored.layers(ids[0], ids[1])


def _show_source(found: LayerSource) -> None:
    if sentence := lost_sentence(found):
        st.warning(inert(sentence), icon=":material/link_off:")
    st.caption(inert(source_sentence(found)))
    if found.taken is None:
        st.code(profile_command(found.wanted), language="shell", wrap_lines=True)
        parameters = dict(profile_address(found.wanted))
        st.page_link(NEW_PROFILE, label="New profile", icon=":material/add_notes:", query_params=parameters)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Profile of {found.wanted.letter}"
        st.page_link(PROFILE, label=label, icon=":material/layers:", query_params={"id": found.taken.id})
        if len(found.candidates) > 1:
            _show_others(found)


def _show_others(found: LayerSource) -> None:
    letter, names = found.wanted.letter, entry_labels(found.candidates)
    key = f"profile {letter}"
    taken = found.taken.id[:ID_CHARACTERS] if found.taken else None
    st.selectbox(
        f"Layers of {letter} from",
        list(names),
        format_func=lambda one: names.get(one, one),
        key=address.follow(key, taken),
        on_change=partial(_profile_changed, letter, key),
        label_visibility="collapsed",
    )


def _profile_changed(letter: str, key: str) -> None:
    address.put(address.PROFILES[letter], st.session_state[key])
    address.forget(address.ROW)


SUMMARY, INFERENCE = "Performance summary", "Inference time"
KERNELS, PRECISIONS = "Kernel-level performance", "Precisions"


def show() -> None:
    """Draw the page."""
    st.title("Compare", anchor=False)
    with reading.banner_on_error():
        contenders = stored.contenders()
        if not contenders:
            nothing_yet(
                "Nothing was measured yet, so there is nothing to compare. Measure a model on two engines:",
                "enginebench run zoo:squeezenet --engine onnxruntime,openvino --batch 1,2,4",
                NEW_BENCHMARK,
                "New benchmark",
            )
            return
        a, b = (address.value(address.PROJECTS[letter]) for letter in "AB")
        choice = choose(contenders, stored.families(), a, b)
        _show_setup(contenders, choice)


def _show_setup(contenders: tuple[Contender, ...], choice: ChosenProjects) -> None:
    for key in choice.unknown:
        st.warning(f"There is no project {inert(key)} in this store; another one is shown.", icon=":material/link_off:")
        st.page_link(PROJECTS, label="All projects", icon=":material/deployed_code:")
    engines = (one.engine if one else "" for one in (choice.first, choice.second))
    looks = dict(zip(LETTERS, reading.engine_looks().of_sides(*engines), strict=True))
    is_chosen = all(address.value(address.PROJECTS[letter]) for letter in LETTERS)
    # It comes first, and is filled once it is known below what is compared.
    bar = st.container(border=True, key="verdict", gap="small")
    # What is folded is not drawn: the chart and the tables are most of the page.
    label = "What is compared: projects, points, threshold"
    place = st.expander(label, expanded=not is_chosen, key=setup.PLACE, on_change="rerun")
    drawn: list[Points] = []
    with place:
        setup.show_projects(contenders, choice, looks)
        sides = st.fragment(_show_points)(choice, looks, drawn, with_chart=bool(place.open))
    drawn.append(_points_of(sides))
    with bar:
        show_verdict(sides, choice, looks)
    if not place.open:
        setup.show_missing(sides)
    show_doubts(sides)
    st.fragment(_show_analysis)(sides, choice, looks)


Points = tuple[tuple[Experiment | None, str], ...]
"""What the rest of the page knows of the sides: the point of each, and the one that is lost."""


def _points_of(sides: tuple[ShownSide, ShownSide]) -> Points:
    return tuple((one.chosen, one.lost) for one in sides)


def _show_points(
    choice: ChosenProjects, looks: Looks, drawn: Sequence[Points], *, with_chart: bool
) -> tuple[ShownSide, ShownSide]:
    """Draw what a threshold or a row changes, and the rest of the page only where A or B is another than it was drawn.

    `drawn` is empty while the page is drawn.
    """
    with reading.banner_on_error():
        wish = setup.ask_view()
        sides = setup.read_sides(choice, wish)
        if drawn and drawn[0] != _points_of(sides):
            st.rerun()
        if with_chart:
            setup.show_chart(sides, wish.threshold_ms, looks)
            setup.show_experiments(sides, choice, looks)
    return sides


def _show_analysis(sides: tuple[ShownSide, ShownSide], choice: ChosenProjects, looks: Looks) -> None:
    names = (SUMMARY, INFERENCE, KERNELS, PRECISIONS)
    for tab, name in zip(st.tabs(names, key=address.VIEW, bind=address.BIND), names, strict=True):
        if not tab.open:
            continue
        with tab, reading.banner_on_error():
            if name == INFERENCE:
                show_inference(sides, looks)
            else:
                _show_by_layer(name, sides, choice, looks)


def _show_by_layer(name: str, sides: tuple[ShownSide, ShownSide], choice: ChosenProjects, looks: Looks) -> None:
    found = choose_layers(sides, choice)
    if found is None:
        st.info("Layers are compared once both sides have a profile.", icon=":material/layers:")
        return
    points = [stored.measured(one.chosen.id) for one in sides if one.chosen is not None]
    if doubt := doubt_about(sources(sides, choice), points, found):
        st.warning(inert(doubt), icon=":material/compare_arrows:")
    for sentence in told_remarks(found.comparison.pairs):
        st.warning(f"{inert(sentence[:1].upper() + sentence[1:])}.", icon=":material/compare_arrows:")
    if name == SUMMARY:
        show_types(found, looks)
    elif name == KERNELS:
        show_layers(found, looks)
    else:
        show_precisions(found, looks)
    warn_unlike(found.comparison.remarks, "The profiles are not the same work on equal terms")
    show_more(found)


show()
