"""A gate's result as a JSON document and as Markdown for a pull request."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from enginebench_controller.files.benchmarks import engine_document
from enginebench_controller.files.report_forms import cell, table
from enginebench_controller.plan.configurations import describe_load
from enginebench_controller.plan.plan import GateMetric, parse_duration_ns, parse_percent
from enginebench_controller.records import Measurement
from enginebench_controller.records.fields import CONFIGURATION, finite
from enginebench_controller.verdicts.gate_results import (
    BASE,
    HEAD,
    GateResult,
    LayerShare,
    MetricResult,
    able,
    budget_for,
    ratio_of_values,
)
from enginebench_controller.verdicts.gate_rule import GateOutcome
from enginebench_controller.verdicts.parity import engine_label

GATE_VERSION = 1
KIND = "enginebench-gate"
UNKNOWN = "–"
_ANYTHING = 1000.0

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


def remarks(result: GateResult) -> Iterator[str]:
    """What to know beside the verdict, the gravest first."""
    yield from result.problems
    yield from result.remarks
    if result.is_self_test:
        yield "base and head are the very same: a self-test, which shows what this machine takes for a difference"
    if result.explanation and (told := layers_sentence(result)):
        yield told
    if besides := [one.metric for one in result.judged.metrics if _is_worse_besides(one)]:
        yield f"worse, too, but no reason to fail, as --metric does not name it: {', '.join(besides)}"
    yield how_measured(result)
    if (next_time := able(result.judged)) is not None:
        yield f"this machine can tell {next_time:.1%} of latency in {result.terms.budget}, by what was seen"


def how_measured(result: GateResult) -> str:
    """Process pairs, and what the control said."""
    judged = result.judged
    latency = judged.metrics[0]
    control = "unknown" if latency.control is None else _interval(*latency.control.ratios)
    each = "" if judged.pair_seconds is None else f" of {judged.pair_seconds:.1f} s"
    return (
        f"{judged.pairs} process pair{'s' if judged.pairs != 1 else ''}{each}; base ÷ base, measured along: {control}"
    )


def meaning(result: GateResult) -> str:
    """What D is."""
    rule = result.judged.decisive.rule
    tolerated = f"what is tolerated ({rule.tolerance:.1%})"
    known = result.judged.decisive.metric in result.terms.promised
    promised = f"what can be told in {result.terms.budget} ({rule.difference:.1%}{'' if known else ', not known yet'})"
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
    """`Conv_4 (Conv, +0.31 ms, 62 % of the difference)`."""
    share = "" if layer.share is None else f", {layer.share:.0%} of the difference".replace("%", " %")
    return f"{layer.name} ({layer.operator}, {layer.difference_ns / 1e6:+.3f} ms{share})"


def amount(metric: GateMetric, value: float | None) -> str:
    """A figure with its unit."""
    scale, unit, digits = _UNITS[metric]
    return UNKNOWN if value is None else f"{value / scale:,.{digits}f} {unit}"


def ratio_words(one: MetricResult) -> tuple[str, str]:
    """Head ÷ base, and its interval."""
    found = ratio_of_values(one)
    if found is None:
        return UNKNOWN, UNKNOWN
    middle, low, high = found
    return f"{middle:.3f}", "counted" if one.metric is GateMetric.SIZE else interval_words(low, high)


def interval_words(low: float, high: float) -> str:
    """Of very few pairs the interval has no end that is worth printing."""
    return f"{low:.3f} to {f'{high:.3f}' if high < _ANYTHING else '∞'}"


def verdict_words(one: MetricResult) -> str:
    """The verdict of one metric."""
    if one.missing:
        return "not known"
    return "better" if one.verdict.is_better else TITLES[one.verdict.outcome]


def gate_document(result: GateResult) -> dict[str, Any]:
    """The result as JSON-able data; `outcome` is "pass" for a pass only."""
    judged = result.judged
    return {
        "schema_version": GATE_VERSION,
        "kind": KIND,
        "benchmark": {"id": result.benchmark.id, "name": result.benchmark.name},
        "outcome": result.outcome.value,
        "better": result.is_better,
        "sentence": headline(result),
        "self_test": result.is_self_test,
        "tolerance": parse_percent(result.terms.tolerate),
        "budget_ns": parse_duration_ns(result.terms.budget),
        "difference": judged.decisive.rule.bound,
        "promised_difference": result.terms.promised.get(judged.decisive.metric),
        "difference_seen": finite(able(judged)),
        "pairs": judged.pairs,
        "pair_seconds": finite(judged.pair_seconds),
        BASE: _side(result, BASE, result.terms.base),
        HEAD: _side(result, HEAD, result.terms.head),
        "metrics": [_metric(one) for one in judged.metrics],
        "layers": _layers(result),
        "problems": [*result.problems, *result.failures],
        "remarks": list(remarks(result)),
    }


def gate_markdown(result: GateResult) -> str:
    """A comment for a pull request: the verdict first, a small table, and how it was measured."""
    measured = result.measurements[BASE]
    asked = measured.configuration
    parts = [
        f"## enginebench gate: {TITLES[result.outcome]}{', and better' if result.is_better else ''}",
        f"**{cell(headline(result))}**",
    ]
    told = [("Outputs", one) for one in result.problems] + [("Failed", one) for one in result.failures]
    if told:
        parts.append("\n".join(f"> **{what}:** {cell(one)}  " for what, one in told))
    headings = ("", "base", "head", "head ÷ base", "95 % interval", "")
    rows = [
        [one.metric, amount(one.metric, one.base), amount(one.metric, one.head), *ratio_words(one), verdict_words(one)]
        for one in result.judged.metrics
        if one.base is not None or one.head is not None or one.decides
    ]
    parts.append(table(headings, rows, numbers=(1, 2, 3)))
    if layers := layers_sentence(result):
        parts.append(cell(layers[:1].upper() + layers[1:]) + ".")
    facts = [
        f"base: {_named(result, BASE)}; head: {_named(result, HEAD)}",
        f"{measured.model_name} on {engine_label(measured)}, {asked.device}, batch {asked.batch}, {asked.cores} cores, "
        f"{describe_load(asked)}; target {measured.target}",
        how_measured(result),
        meaning(result),
        *result.remarks,
    ]
    if result.is_self_test:
        facts.append("base and head are the very same: a self-test")
    listed = "\n".join(f"- {cell(one)}" for one in facts)
    parts.append(f"<details><summary>How it was measured</summary>\n\n{listed}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def gate_junit(result: GateResult, *, strict: bool) -> str:
    """A test case a metric that may fail the gate, and one for the outputs."""
    suite = ElementTree.Element("testsuite", {"name": _allowed(result.benchmark.name), "time": "0"})
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for one in result.judged.deciding:
        sentence = f"{_compared(result, one)}; {one.verdict.sentence}"
        outcome = GateOutcome.CANNOT_TELL if result.failures else one.verdict.outcome
        _case(suite, counts, str(one.metric), _allowed(sentence), outcome, strict=strict)
    told = [*result.problems, *result.failures]
    _case(suite, counts, "outputs", _allowed("; ".join(told)), GateOutcome.WORSE if told else GateOutcome.PASSES)
    for name, count in counts.items():
        suite.set(name, str(count))
    root = ElementTree.Element("testsuites", {name: str(count) for name, count in counts.items()})
    root.set("name", "enginebench gate")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(
    suite: ElementTree.Element,
    counts: dict[str, int],
    name: str,
    sentence: str,
    outcome: GateOutcome,
    *,
    strict: bool = False,
) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": "enginebench gate", "name": name, "time": "0"})
    counts["tests"] += 1
    if outcome is GateOutcome.WORSE or (strict and outcome is GateOutcome.CANNOT_TELL):
        counts["failures"] += 1
        message = sentence or TITLES[outcome]
        ElementTree.SubElement(case, "failure", {"message": message, "type": outcome.value}).text = message
    elif outcome is GateOutcome.CANNOT_TELL:
        counts["skipped"] += 1
        ElementTree.SubElement(case, "skipped", {"message": f"cannot tell: {sentence}"})
    else:
        ElementTree.SubElement(case, "system-out").text = sentence


def _reason(result: GateResult) -> str:
    if result.failures:
        return "; ".join(result.failures)
    one = result.judged.decisive
    compared = _compared(result, one)
    if result.outcome is GateOutcome.WORSE:
        return f"{compared}; {one.rule.tolerance:.1%} is tolerated"
    if result.outcome is GateOutcome.PASSES:
        return (
            compared
            if result.is_better
            else f"{compared}, less than D = {one.rule.bound:.1%} worse{_limit(result, one)}"
        )
    return _doubt(result, one, compared)


def _named(result: GateResult, role: str) -> str:
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
        return one.verdict.sentence + (f"; one takes {each:.1f} s here: raise --budget" if each else "")
    if one.control is not None and "base ÷ base" in one.verdict.sentence:
        return f"{one.verdict.sentence}; something else used the machine: run it again"
    return f"{compared}, which may be D = {one.rule.bound:.1%} worse, or not{_more_budget(result, one)}"


def _compared(result: GateResult, one: MetricResult) -> str:
    found = ratio_of_values(one)
    if found is None:
        return f"{one.metric}: {one.verdict.sentence}"
    middle, low, high = found
    what = _MORE[one.metric].format(f"{middle:.3f}×")
    interval = "" if one.metric is GateMetric.SIZE else f"{interval_words(low, high)}; "
    values = f"{amount(one.metric, one.base)} → {amount(one.metric, one.head)}"
    return f"head {what} base ({interval}{values})"


def _more_budget(result: GateResult, one: MetricResult) -> str:
    """The budget with which it could be told, where there is one."""
    seconds = budget_for(result.judged, one.rule.bound, one.metric)
    if seconds is None or seconds <= parse_duration_ns(result.terms.budget) / 1e9:
        return ""
    wanted = f"{int(seconds) + 1}s" if seconds < 120 else f"{int(seconds / 60) + 1}m"
    return f"; --budget {wanted} would tell"


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.3f} ({interval_words(low, high)})"


def _is_worse_besides(one: MetricResult) -> bool:
    return not one.decides and one.verdict.outcome is GateOutcome.WORSE


def _side(result: GateResult, role: str, called: str) -> dict[str, Any]:
    one: Measurement = result.measurements[role]
    return {
        "called": called,
        "measurement": one.id,
        "target": one.target,
        "engine": engine_document(one.engine),
        "model": {"name": one.model_name, "digest": one.model_digest},
        "configuration": CONFIGURATION.to_data(one.configuration),
    }


def _metric(one: MetricResult) -> dict[str, Any]:
    found = ratio_of_values(one)
    middle, low, high = found or (None, None, None)
    control = [finite(value) for value in one.control.ratios] if one.control else None
    return {
        "metric": one.metric.value,
        "unit": {"ms": "ns", "MB": "bytes", "mJ": "J"}.get(_UNITS[one.metric][1], "items_per_s"),
        "decides": one.decides,
        BASE: finite(one.base),
        HEAD: finite(one.head),
        "ratio": finite(middle),
        "ratio_low": finite(low),
        "ratio_high": finite(high),
        "control": None if control is None else dict(zip(("ratio", "low", "high"), control, strict=True)),
        "difference": one.rule.bound,
        "outcome": None if one.missing else one.verdict.outcome.value,
        "better": one.verdict.is_better,
        "sentence": one.verdict.sentence,
    }


def _layers(result: GateResult) -> dict[str, Any] | None:
    found = result.explanation
    if found is None:
        return None
    return {
        "profiles": list(found.profiles),
        "difference_ns": found.total_ns,
        "note": found.note or None,
        "layers": [
            {"name": one.name, "operator": one.operator, "difference_ns": one.difference_ns, "share": one.share}
            for one in found.layers
        ],
    }


def _allowed(text: str) -> str:
    """The text without characters that XML 1.0 has no way to write."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
