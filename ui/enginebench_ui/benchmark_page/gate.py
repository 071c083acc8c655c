"""What a gate found: its sentence, a row a metric, and what to know beside it."""

import streamlit as st

from enginebench_controller.comparing.gate import GateOutcome
from enginebench_controller.gating import GateResult
from enginebench_controller.gating.reports import amount, headline, meaning, ratio_words, remarks, verdict_words
from enginebench_controller.gating.results import MetricResult
from enginebench_ui.showing import table
from enginebench_ui.views.text import Row, inert

ICONS = {
    GateOutcome.WORSE: ":material/trending_down:",
    GateOutcome.PASSES: ":material/check:",
    GateOutcome.CANNOT_TELL: ":material/help:",
}


def show_gate(result: GateResult) -> None:
    """Show the verdict first, then what it rests on."""
    with st.container(border=True):
        st.markdown(f"{ICONS[result.outcome]} **{inert(headline(result))}**")
        for line in remarks(result):
            (st.error if line in result.problems else st.caption)(inert(line))
        known = (one for one in result.judged.metrics if one.base is not None or one.head is not None or one.decides)
        table([_row(one) for one in known], "gate")
        st.caption(inert(f"× is head ÷ base with its 95 % interval. {meaning(result)}"))


def _row(one: MetricResult) -> Row:
    ratio, interval = ratio_words(one)
    return {
        "Metric": one.metric.value,
        "Decides": one.decides,
        "Verdict": verdict_words(one),
        "Head ÷ base": ratio,
        "95 % interval": interval,
        "Base": amount(one.metric, one.base),
        "Head": amount(one.metric, one.head),
    }
