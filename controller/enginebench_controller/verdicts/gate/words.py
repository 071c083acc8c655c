"""A gate's result in words: the verdict in a sentence, and what to know beside it."""

from collections.abc import Iterator

from enginebench_controller.plan.plan import (
    BASE,
    HEAD,
    LONGEST_BUDGET_NS,
    GateMetric,
    GateTerms,
    parse_duration_ns,
    parse_percent,
)
from enginebench_controller.verdicts.gate.results import (
    GateResult,
    Judged,
    LayerShare,
    MetricResult,
    able,
    budget_for,
    ratio_of_values,
)
from enginebench_controller.verdicts.gate.rule import ANYTHING, MOST_PROMISED, GateOutcome, GateRule
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import UNKNOWN, rate

_PAIRS_THAT_TELL = 5
"""Of fewer process pairs the interval is so wide that hardly anything is told."""
TITLES = {GateOutcome.WORSE: "worse", GateOutcome.PASSES: "pass", GateOutcome.CANNOT_TELL: "cannot tell"}
_MORE = {
    GateMetric.LATENCY: "takes {} as long as",
    GateMetric.THROUGHPUT: "does {} the items a second of",
    GateMetric.FIRST_INFERENCE: "takes {} as long for its first inference as",
    GateMetric.COMPILE: "takes {} as long to compile as",
    GateMetric.MEMORY: "has {} the peak memory of",
    GateMetric.SIZE: "is {} as large as",
    GateMetric.ENERGY: "uses {} the energy of",
}
_UNITS = {
    GateMetric.LATENCY: (1e6, "ms", 3),
    GateMetric.THROUGHPUT: (1.0, "items/s", 1),
    GateMetric.FIRST_INFERENCE: (1e6, "ms", 2),
    GateMetric.COMPILE: (1e6, "ms", 1),
    GateMetric.MEMORY: (1e6, "MB", 1),
    GateMetric.SIZE: (1e6, "MB", 3),
    GateMetric.ENERGY: (1e-3, "mJ", 2),
}


def headline(result: GateResult) -> str:
    """The verdict in one sentence, with what it means."""
    return f"{TITLES[result.outcome]}{', and better' if result.is_better else ''}: {_reason(result)}"


def gate_remarks(result: GateResult) -> Iterator[str]:
    """What to know beside the verdict, the gravest first."""
    yield from result.problems
    yield from result.remarks
    if result.is_self_test:
        yield "base and head are the very same: a self-test, which shows what this machine takes for a difference"
    if result.explanation and (told := layers_sentence(result)):
        yield told
    if besides := [one.metric for one in result.judged.metrics if _is_worse_besides(one)]:
        yield f"worse, too, but no reason to fail, as --metric does not name it: {', '.join(besides)}"
    if len(engines := engines_of(result)) > 1:
        yield f"base ran on {engines[0]}, head on {engines[1]}"
    yield how_measured(result)
    metric = result.judged.decisive.metric
    if (next_time := able(result.judged, metric)) is not None:
        yield f"{able_words(next_time, metric, result.terms)}, by what was seen"


def engines_of(result: GateResult) -> tuple[str, ...]:
    """What base and head ran on, by version and environment; once where it is the same."""
    return tuple(dict.fromkeys(engine_label(result.measurements[role]) for role in (BASE, HEAD)))


def how_measured(result: GateResult) -> str:
    """Process pairs, and what the control said of the metric that decided; a size is counted, and has no control."""
    judged, one = result.judged, result.judged.decisive
    control = "unknown" if one.control is None else _interval(*one.rule.of_figures(one.control).ratios)
    each = "" if judged.pair_seconds is None else f" of {judged.pair_seconds:.1f} s"
    along = "" if one.metric is GateMetric.SIZE else f"; base ÷ base, measured along: {one.metric} {control}"
    return f"{judged.pairs} process pair{'s' if judged.pairs != 1 else ''}{each}{along}"


def able_words(share: float, metric: GateMetric, terms: GateTerms) -> str:
    """What this machine can tell, where that is anything: a difference of more than double is no promise.

    However quiet it is, that is more than what is tolerated, which is said where it is more than usual.
    """
    tolerance = parse_percent(terms.tolerate)
    told = f"can tell {share:.1%}" if share < 1 + tolerance else "cannot tell even 100%"
    where = f" where {100 * tolerance:.3g}% is tolerated" if tolerance > GateRule.tolerance else ""
    return f"this machine {told} of {metric} in {terms.budget}{where}"


def meaning(result: GateResult) -> str:
    """What D is; nothing that can be told is promised of a metric that is not known."""
    rule, one = result.judged.decisive.rule, result.judged.decisive
    if one.missing:
        return f"D means nothing here, as the {one.metric} is not known"
    if rule.difference <= rule.tolerance:
        return f"D = {rule.bound:.1%}, what is tolerated: a pass is less than D worse"
    tolerated = f"what is tolerated ({rule.tolerance:.1%})"
    known = one.metric in result.terms.promised
    promised = f"what can be told in {result.terms.budget} ({rule.difference:.1%}{'' if known else ', not known yet'})"
    if known and rule.difference >= MOST_PROMISED:
        promised = f"{rule.difference:.1%}, the most that this may be, as {result.terms.budget} here can tell no less"
    return f"D = {rule.bound:.1%}, the larger of {tolerated} and {promised}: a pass is less than D worse"


def layers_sentence(result: GateResult) -> str:
    """The layers that explain the difference, the largest first."""
    found = result.explanation
    if found is None:
        return ""
    if not found.layers:
        return found.note
    return "layers that differ most, by a profile of each side: " + ", ".join(map(layer_words, found.layers))


def layer_words(layer: LayerShare) -> str:
    """`Conv_4 (Conv, +0.31 ms, 62 % of the difference)`; where others took less, one may be more than all of it."""
    share = "" if layer.share is None else f", {layer.share:.0%} of the difference".replace("%", " %")
    if layer.share is not None and layer.share > 1:
        share = ", more than the whole difference"
    return f"{layer.name} ({layer.operator}, {layer.difference_ns / 1e6:+.3f} ms{share})"


def amount(metric: GateMetric, value: float | None) -> str:
    """A figure with its unit."""
    if value is None:
        return UNKNOWN
    scale, unit, digits = _UNITS[metric]
    figure = rate(value) if metric is GateMetric.THROUGHPUT else f"{value / scale:,.{digits}f}"
    return f"{figure} {unit}"


def ratio_words(one: MetricResult) -> tuple[str, str]:
    """Head ÷ base, and its interval."""
    found = ratio_of_values(one)
    if found is None:
        return UNKNOWN, UNKNOWN
    middle, low, high = found
    return f"{middle:.3f}", "counted" if one.metric is GateMetric.SIZE else interval_words(low, high)


def interval_words(low: float, high: float) -> str:
    """Of very few pairs the interval has no end that is worth printing."""
    return f"{low:.3f} to {f'{high:.3f}' if high < ANYTHING else '∞'}"


def verdict_words(one: MetricResult) -> str:
    """The verdict of one metric."""
    if one.missing:
        return "not known"
    return "better" if one.verdict.is_better else TITLES[one.verdict.outcome]


def never_known(judged: Judged) -> Iterator[str]:
    """What a gate goes on without, as no further process can make it known: so it cannot pass."""
    for one in judged.deciding:
        if one.missing and one.verdict.stands:
            yield f"the {one.metric} will not be known, so that this cannot pass: {one.missing}"


def _reason(result: GateResult) -> str:
    """What is wrong or has failed, and then what the figures say, where there are any."""
    return "; ".join((*result.problems, *(result.failures or (_of_figures(result),))))


def _of_figures(result: GateResult) -> str:
    judged = result.judged
    one = judged.decisive
    compared = compared_words(result, one)
    doubted = ", ".join(each.metric for each in _others(judged, GateOutcome.CANNOT_TELL))
    if judged.outcome is GateOutcome.WORSE:
        untold = f"; cannot tell of {doubted}" if doubted else ""
        return f"{compared}{_worse_too(judged)}; {one.rule.tolerance:.1%} is tolerated{untold}"
    if judged.outcome is GateOutcome.CANNOT_TELL:
        either = f"; cannot tell of {doubted}, either" if doubted else ""
        budget = budget_that_tells(result)
        return _doubt(result, one, compared) + either + (f"; --budget {budget} would tell" if budget else "")
    if judged.is_better or result.problems:
        return compared
    return f"{compared}, less than D = {one.rule.bound:.1%} worse{_limit(result, one)}"


def _others(judged: Judged, outcome: GateOutcome) -> list[MetricResult]:
    """Those of such an outcome that were to decide, too, beside the one that is told."""
    return [one for one in judged.deciding if one.verdict.outcome is outcome and one is not judged.decisive]


def _worse_too(judged: Judged) -> str:
    """`; memory, too (1.106×)`."""
    told = [f"{one.metric}, too ({ratio_words(one)[0]}×)" for one in _others(judged, GateOutcome.WORSE)]
    return "".join(f"; {one}" for one in told)


def named(result: GateResult, role: str) -> str:
    """A side as it was written; of a model the name of its file, since checkouts lie anywhere, and which version."""
    told = result.terms.base if role == BASE else result.terms.head
    if len({one.model_digest for one in result.measurements.values()}) == 1:
        return told
    return f"{told.rpartition('/')[2]} ({result.measurements[role].model_digest[:8]})"


def _limit(result: GateResult, one: MetricResult) -> str:
    """Why D is more than is tolerated, where it is."""
    if one.rule.bound <= one.rule.tolerance:
        return ""
    known = one.metric in result.terms.promised
    why = f"{result.terms.budget} here can tell no less" if known else "what this machine can tell was not known"
    return f" ({why})"


def _doubt(result: GateResult, one: MetricResult, compared: str) -> str:
    if one.missing:
        return one.verdict.sentence
    if one.ratio is None:
        each = result.judged.pair_seconds
        return one.verdict.sentence + (_enough(each, result.terms.budget) if each else "")
    if one.verdict.control_differs:
        return f"{one.verdict.sentence}; something else used the machine: run it again"
    return f"{compared}, which may be D = {one.rule.bound:.1%} worse, or not"


def _enough(pair_seconds: float, budget: str) -> str:
    """What a pair takes, and the budget for enough of them where this one was too short, rather than broken off."""
    wanted = _PAIRS_THAT_TELL * pair_seconds
    more = f": {budget_words(wanted)}" if wanted > parse_duration_ns(budget) / 1e9 else ""
    return f"; one takes {pair_seconds:.1f} s here{more}"


def compared_words(result: GateResult, one: MetricResult) -> str:
    """What a metric came to, in words: how many times base's, with its interval and both values."""
    found = ratio_of_values(one)
    if found is None:
        return f"{one.metric}: {one.verdict.sentence}"
    middle, low, high = found
    what = _MORE[one.metric].format(f"{middle:.3f}×")
    interval = "" if one.metric is GateMetric.SIZE else f"{interval_words(low, high)}; "
    values = f"{amount(one.metric, one.base)} → {amount(one.metric, one.head)}"
    return f"head {what} base ({interval}{values})"


def budget_that_tells(result: GateResult) -> str | None:
    """The budget with which all that decides, and is in doubt, could be told; None where there is none."""
    judged = result.judged
    if judged.outcome is not GateOutcome.CANNOT_TELL:
        return None
    doubted = [judged.decisive, *_others(judged, GateOutcome.CANNOT_TELL)]
    seconds = [needed for one in doubted if (needed := _seconds_that_tell(judged, one)) is not None]
    longest = max(seconds, default=0.0)
    if len(seconds) < len(doubted) or longest <= parse_duration_ns(result.terms.budget) / 1e9:
        return None
    return whole_seconds(longest)


def _seconds_that_tell(judged: Judged, one: MetricResult) -> float | None:
    """How long it takes to tell a metric; None where more time alone would not, or nobody knows."""
    if one.ratio is None or one.verdict.control_differs:
        return None
    return budget_for(judged, one.rule.bound, one.metric)


def budget_words(seconds: float) -> str:
    """Which `--budget` has so much time, and that none has where it is more than the longest."""
    if seconds * 1e9 >= LONGEST_BUDGET_NS:
        return "too few go into an hour, the longest budget, to tell anything"
    return f"give --budget {whole_seconds(seconds)} or more"


def whole_seconds(seconds: float) -> str:
    """A time as `--budget` takes it, rounded up: `37s`, `3m`."""
    return f"{int(seconds) + 1}s" if seconds < 120 else f"{int(seconds / 60) + 1}m"


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.3f} ({interval_words(low, high)})"


def _is_worse_besides(one: MetricResult) -> bool:
    return not one.decides and one.verdict.outcome is GateOutcome.WORSE
