"""What a bisect found, in words: the sentence first, and the way that led there."""

from collections.abc import Iterator

from enginebench_controller.plan.bisect import BisectKind
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.verdicts.bisect.answer import BisectAnswer, BisectGate, Ratio
from enginebench_controller.verdicts.bisect.decision import BisectFinding, GatePurpose
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import amount
from enginebench_controller.verdicts.words import UNKNOWN

WHAT = {
    GateMetric.LATENCY: "slower",
    GateMetric.FIRST_INFERENCE: "slower to its first inference",
    GateMetric.COMPILE: "slower to compile",
    GateMetric.MEMORY: "larger in memory",
}
"""What one is that is worse, by the metric."""

_MARKS = {GateOutcome.WORSE: "worse", GateOutcome.PASSES: "as good", GateOutcome.CANNOT_TELL: "cannot tell"}
ALL_OF_IT = 0.95
_WIDE = 2.0
"""Times as large as its lower end the upper end of an interval may be, where its middle is told as the difference."""


def headline(answer: BisectAnswer) -> str:
    """The answer in one sentence."""
    good, bad = called(answer, answer.good), called(answer, answer.bad)
    match answer.finding:
        case BisectFinding.CULPRIT:
            return f"{called(answer, answer.culprit)} is {_by(answer)} than {answer.before}{_part(answer)}"
        case BisectFinding.ONE_OF:
            one_of = ", ".join(answer.suspects)
            told = f"{called(answer, answer.suspects[-1])} is {_by(answer)} than {answer.before}"
            return f"one of {one_of} has made it {WHAT[answer.metric]}: {told}, and those between came to nothing"
        case BisectFinding.EXCHANGED:
            return f"good and bad are exchanged: {bad} is better than {good} ({_compared(answer, answer.whole)})"
        case BisectFinding.NOT_APART:
            ratio = f" ({_compared(answer, answer.whole)})" if answer.whole else ""
            why = f"; {answer.reason}{_what_would_tell(answer)}" if answer.reason else ""
            return f"cannot tell {good} and {bad} apart by {100 * answer.worse:.3g} %{ratio}{why}"
        case BisectFinding.CANNOT_RUN:
            return f"nothing can be bisected: {answer.reason}"
        case _:
            return f"cannot tell which: {_among(answer)}; {answer.reason}{_what_would_tell(answer)}"


def called(answer: BisectAnswer, candidate: str | None) -> str:
    """A candidate with what it is of."""
    if answer.bisected is BisectKind.VERSIONS:
        return f"{answer.subject} {candidate}"
    return str(candidate) if answer.bisected is BisectKind.MODELS else f"{answer.engine}.{answer.option}={candidate}"


def ratio_words(found: Ratio | None) -> str:
    """`1.103×, 1.081 to 1.126`."""
    if found is None:
        return UNKNOWN
    low, high = (f"{one:.3f}" if one is not None and one < 1000 else "∞" for one in (found.low, found.high))
    return f"{found.ratio:.3f}×, {low} to {high}"


def figures_words(metric: GateMetric, gate: BisectGate) -> str:
    """Both sides of a gate: `376.0 ms → 380.9 ms`."""
    if gate.base_figure is None or gate.head_figure is None:
        return UNKNOWN
    return f"{amount(metric, gate.base_figure)} → {amount(metric, gate.head_figure)}"


def verdict_words(gate: BisectGate) -> str:
    """What a gate said, short. Only of what came to nothing itself it says that: without base, nothing is told."""
    if gate.outcome is None and not gate.reason:
        return f"not told, as {gate.base} came to nothing"
    if gate.outcome is None:
        return "skipped" if gate.purpose is GatePurpose.STEP else "came to nothing"
    return "better" if gate.better else _MARKS[gate.outcome]


def full_verdict(gate: BisectGate) -> str:
    """What a gate said, and of what is as good the D that it may be worse by."""
    return verdict_words(gate) + _less_than(gate)


WAY = ("", "against", "ratio", "95 % interval", "from → to", "is", "worse by less than")
"""The headings of `way_rows`, behind what the candidates are; the last is D of what is as good."""


def way_rows(answer: BisectAnswer) -> Iterator[tuple[str, ...]]:
    """A row a gate, in the order in which they were carried out."""
    for one in answer.gates:
        ratio, _, interval = ratio_words(one.ratio).partition(", ")
        figures = figures_words(answer.metric, one)
        longer = " (longer)" if one.patience > 1 else ""
        yield one.head, one.base, ratio, interval or UNKNOWN, figures, f"{verdict_words(one)}{longer}", _bound(one)


def gate_sentence(gate: BisectGate) -> str:
    """What a gate said, `1.22.0 is worse than 1.21.0: 1.098×, 1.070 to 1.130`; or why it said nothing."""
    if gate.outcome is None and gate.purpose is GatePurpose.STEP and not gate.base_reason:
        return f"{gate.head} is {verdict_words(gate)}: {gate.reason}"
    if gate.outcome is None:
        return f"{gate.head} against {gate.base} came to nothing: {why_nothing(gate)}"
    ratio = "" if gate.ratio is None else f": {ratio_words(gate.ratio)}"
    if gate.outcome is GateOutcome.CANNOT_TELL:
        return f"cannot tell whether {gate.head} is worse than {gate.base}{ratio}"
    what = "as good as" if _is_as_good(gate) else f"{verdict_words(gate)} than"
    return f"{gate.head} is {what} {gate.base}{_less_than(gate)}{ratio}"


def why_nothing(gate: BisectGate) -> str:
    """Why a gate came to nothing, of each side that did; "" of one that told something."""
    sides = ((gate.base, gate.base_reason), (gate.head, gate.reason))
    return "; ".join(f"{name}: {reason}" for name, reason in sides if reason)


def _is_as_good(gate: BisectGate) -> bool:
    return gate.outcome is GateOutcome.PASSES and not gate.better


def _less_than(gate: BisectGate) -> str:
    bound = _bound(gate)
    return f", less than D = {bound} worse" if bound else ""


def _bound(gate: BisectGate) -> str:
    """D, of what is as good."""
    return "" if gate.difference is None or not _is_as_good(gate) else f"{100 * gate.difference:.3g} %"


def way_words(answer: BisectAnswer) -> str:
    """The candidates that were looked at in their order, each with what became of it: `1.20 good · 1.24 as good`."""
    told = {answer.good: "good", answer.bad: "bad"}
    for gate in answer.gates:
        if gate.purpose is not GatePurpose.NEIGHBOURS and gate.head != answer.bad:
            told[gate.head] = verdict_words(gate)
    if answer.culprit is not None:
        told[answer.culprit] = "culprit"
    return " · ".join(f"{one} {told[one]}" for one in answer.candidates if one in told)


def remarks(answer: BisectAnswer) -> Iterator[str]:
    """What to know beside the answer, the gravest first."""
    yield from answer.remarks
    share = answer.share or 0.0
    if answer.further_steps and share < ALL_OF_IT:
        rest = f"{1 - share:.0%}".replace("%", " %")
        yield f"further steps: the rest of the difference, {rest}, came with other {answer.bisected}"
    yield from (f"skipped {called(answer, name)}: {reason}" for name, reason in answer.skipped.items())
    if answer.layers_note:
        yield answer.layers_note


def _by(answer: BisectAnswer) -> str:
    percent = "" if answer.step is None else f"{_percent(answer.step)} "
    return f"{percent}{WHAT[answer.metric]} ({_compared(answer, answer.step)})"


def _compared(answer: BisectAnswer, found: Ratio | None) -> str:
    """A ratio of the answer, and both figures of the gate that found it."""
    gate = next((one for one in reversed(answer.gates) if one.ratio is not None and one.ratio == found), None)
    figures = UNKNOWN if gate is None else figures_words(answer.metric, gate)
    return ratio_words(found) + ("" if figures == UNKNOWN else f"; {figures}")


def _what_would_tell(answer: BisectAnswer) -> str:
    """The budget with which the gate could tell whose doubt ended the search, where there is one."""
    last = _last_word(answer)
    told = last.would_tell if last is not None and last.patience > 1 else None
    return f"; `--budget {told}` would tell" if told else ""


def _last_word(answer: BisectAnswer) -> BisectGate | None:
    """The gate that the answer follows from: the last one, or that of the neighbours before those that led to it.

    These are carried out once more where the neighbours are not told apart: without an answer they changed nothing.
    """
    last = answer.gates[-1] if answer.gates else None
    neighbours = next((one for one in reversed(answer.gates) if one.purpose is GatePurpose.NEIGHBOURS), None)
    if answer.finding is not BisectFinding.CANNOT_TELL or last is None or neighbours is None:
        return last
    return neighbours if last.head in (neighbours.base, neighbours.head) else last


def _percent(found: Ratio) -> str:
    """By how much; where the interval is very wide, by how much at the least."""
    if found.low is None or found.low <= 1 or (found.high is not None and found.high < _WIDE * found.low):
        return f"{100 * (found.ratio - 1):.1f} %"
    return f"at least {100 * (found.low - 1):.1f} %"


def _part(answer: BisectAnswer) -> str:
    """What it explains of the whole, where that is not all."""
    if answer.share is None or len(answer.candidates) == 2:
        return ""
    whole = f"the difference between {answer.good} and {answer.bad} ({ratio_words(answer.whole)})"
    if answer.share >= ALL_OF_IT:
        return f", which explains all of {whole}"
    return f", which explains {answer.share:.0%} of {whole}".replace("%", " %")


def _among(answer: BisectAnswer) -> str:
    if len(answer.suspects) == 1:
        return f"{called(answer, answer.suspects[0])} is suspected, and not confirmed"
    return f"it is one of the {len(answer.suspects)} from {answer.suspects[0]} to {answer.suspects[-1]}"
