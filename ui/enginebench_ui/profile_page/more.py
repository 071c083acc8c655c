"""The roofline, pruning and the advisor."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.records import Peak, Profile
from enginebench_ui.pages import PROFILE
from enginebench_ui.profile_page.summary import PENDING
from enginebench_ui.showing import chart, table
from enginebench_ui.views.profiles.advice import HEADINGS, ICONS, AdviceView, layer_query, of_severity
from enginebench_ui.views.profiles.layers import LayerView
from enginebench_ui.views.profiles.pruning import Sweep, outcome_rows
from enginebench_ui.views.profiles.roofline import calibration_command, roofline_view
from enginebench_ui.views.text import inert


def show_roofline(profile: Profile, layers: Sequence[LayerView], peaks: Sequence[Peak]) -> None:
    """Draw the layers under the roofs of their target."""
    view = roofline_view(profile, layers, peaks)
    if view.figure is not None and not view.is_calibrated:
        st.info("These layers have no roof yet: this engine was not calibrated here. Where the machine is quiet, run")
        st.code(calibration_command(profile), language="shell")
    if view.figure is None:
        st.info("No layer can be drawn: either none was timed, or the operations and bytes of none are known.")
    else:
        st.caption(
            "Measured rates over operations counted in the model. The larger a mark, the more time the layer takes. "
            "Open diamonds do fewer operations than are counted (Winograd, sparse), so they may lie above the roof."
        )
        chart(view.figure, "roofline", name="roofline", alt="Achieved operations a second over arithmetic intensity")
    for remark in view.remarks:
        st.caption(remark)


def show_pruning(profile: Profile, sweep: Sweep) -> None:
    """Draw what passes with zeros imposed told."""
    if sweep.is_pending:
        st.info(PENDING)
        return
    if sweep.prospects is None:
        st.info(f"No estimate: {inert(sweep.problem)}." if sweep.problem else "This model was never timed with zeros.")
        st.code(f"enginebench prospects pruning {profile.model_name}", language="shell")
        return
    st.caption(
        "Estimated: worked out from layers timed with zeros imposed; nothing ran like that. Imposed: timed with the "
        "engine taking so many weights for zero. Measured: a copy of the model that has them. All at one optimization "
        "level; × is dense ÷ pruned."
    )
    number = st.column_config.NumberColumn
    times = {name: number(format="%.2f×") for name in ("Estimated ×", "Imposed ×", "Measured ×")}
    spent = {name: number(format="%.3f") for name in ("Estimated (ms)", "Imposed (ms)", "Measured (ms)")}
    others = {"Zeros (%)": number(format="%.1f"), "Estimate's error": st.column_config.TextColumn()}
    counts = {name: number(format="compact") for name in ("Parameters", "FLOPs (estimated)")}
    what = {"What": st.column_config.TextColumn(width=260)}
    table(outcome_rows(sweep.prospects), "outcomes", columns={**what, **times, **spent, **others, **counts})
    dense = sweep.prospects.series.dense
    if dense.id != profile.id:
        st.page_link(PROFILE, label="Open the dense pass", icon=":material/layers:", query_params={"id": dense.id})


def show_advice(profile: Profile, advice: Sequence[AdviceView]) -> None:
    """Draw what the advisor says, with links to the layers that it is about."""
    if not advice:
        st.success("No rule applies: the numbers are sound as far as they tell, and no layer stands out.")
    for severity, heading in HEADINGS.items():
        found = of_severity(advice, severity)
        if found:
            st.markdown(f"**{heading}**")
        for one in found:
            _show_one(profile, one, ICONS[severity])


def _show_one(profile: Profile, one: AdviceView, icon: str) -> None:
    with st.container(border=True):
        if len(one.sentences) == 1:
            st.markdown(f"{icon} {inert(one.sentences[0])}")
        else:
            st.markdown("\n".join(f"- {inert(sentence)}" for sentence in one.sentences))
        st.caption(inert(one.remedy))
        if one.layers:
            with st.container(horizontal=True):
                for layer in one.layers:
                    st.page_link(
                        PROFILE,
                        label=inert(layer.label),
                        icon=":material/layers:",
                        query_params=layer_query(profile.id, layer.position),
                    )
