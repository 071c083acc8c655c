"""A gate's result as a JSON document and as Markdown for a pull request."""

from collections.abc import Sequence
from typing import Literal

from enginebench_controller.files.benchmarks import BenchmarkForm
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import (
    DocumentForm,
    EngineForm,
    Form,
    ModelForm,
    NamedForm,
    engine_document,
)
from enginebench_controller.files.report_forms import cell, table
from enginebench_controller.plan.plan import BASE, HEAD, GateMetric, parse_duration_ns, parse_percent
from enginebench_controller.records import Configuration, Measurement
from enginebench_controller.records.fields import CONFIGURATION, finite
from enginebench_controller.stats.change_points import FEWEST_POINTS
from enginebench_controller.store.trends import TrendPoint
from enginebench_controller.verdicts.alerts import Alert, Cause, Confirmation, Finding, HistoryAlerts
from enginebench_controller.verdicts.gate.results import GateResult, LayerShare, MetricResult, able, ratio_of_values
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import (
    TITLES,
    amount,
    engines_of,
    gate_remarks,
    headline,
    how_measured,
    layers_sentence,
    meaning,
    named,
    ratio_words,
    verdict_words,
)

_UNITS = {
    GateMetric.LATENCY: "ns",
    GateMetric.THROUGHPUT: "items_per_s",
    GateMetric.FIRST_INFERENCE: "ns",
    GateMetric.COMPILE: "ns",
    GateMetric.MEMORY: "bytes",
    GateMetric.SIZE: "bytes",
    GateMetric.ENERGY: "J",
}
"""Those of the records, as `MetricForm.unit` has them."""


def gate_document(result: GateResult) -> Document:
    """The result as JSON-able data; `outcome` is "pass" for a pass only."""
    judged = result.judged
    return {
        **head("gate"),
        "benchmark": {"id": result.benchmark.id, "name": result.benchmark.name},
        "outcome": result.outcome.value,
        "better": result.is_better,
        "sentence": headline(result),
        "self_test": result.is_self_test,
        "tolerance": parse_percent(result.terms.tolerate),
        "budget_ns": parse_duration_ns(result.terms.budget),
        "difference": judged.decisive.rule.bound,
        "promised_difference": result.terms.promised.get(judged.decisive.metric),
        "difference_seen": finite(able(judged, judged.decisive.metric)),
        "pairs": judged.pairs,
        "pair_seconds": finite(judged.pair_seconds),
        BASE: _side(result, BASE, result.terms.base),
        HEAD: _side(result, HEAD, result.terms.head),
        "metrics": [_metric(one) for one in judged.metrics],
        "layers": _layers(result),
        "problems": [*result.problems, *result.failures],
        "remarks": list(gate_remarks(result)),
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
        [
            f"{one.metric} (decides)" if one.decides else one.metric,
            *(amount(one.metric, side) for side in (one.base, one.head)),
            *ratio_words(one),
            verdict_words(one),
        ]
        for one in result.judged.metrics
        if one.base is not None or one.head is not None or one.decides
    ]
    parts.append(table(headings, rows, numbers=(1, 2, 3)))
    if layers := layers_sentence(result):
        parts.append(cell(layers[:1].upper() + layers[1:]) + ".")
    facts = [
        f"base: {named(result, BASE)}; head: {named(result, HEAD)}",
        f"{_model_words(result)} on {' and '.join(engines_of(result))}, {asked.device}, {asked.size}, "
        f"{asked.load_in_words}; target {measured.target}",
        how_measured(result),
        meaning(result),
        *result.remarks,
    ]
    if result.is_self_test:
        facts.append("base and head are the very same: a self-test")
    listed = "\n".join(f"- {cell(one)}" for one in facts)
    parts.append(f"<details><summary>How it was measured</summary>\n\n{listed}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _model_words(result: GateResult) -> str:
    """The model that both sides run; of two, which the line before names as they were given, only that it is both."""
    base, head = result.measurements[BASE], result.measurements[HEAD]
    return base.model_name if base.model_digest == head.model_digest else "both"


def _side(result: GateResult, role: str, called: str) -> Document:
    one: Measurement = result.measurements[role]
    return {
        "called": called,
        "measurement": one.id,
        "target": one.target,
        "engine": engine_document(one.engine),
        "model": {"name": one.model_name, "digest": one.model_digest},
        "configuration": CONFIGURATION.to_data(one.configuration),
    }


def _metric(one: MetricResult) -> Document:
    found = ratio_of_values(one)
    middle, low, high = found or (None, None, None)
    control = [finite(value) for value in one.rule.of_figures(one.control).ratios] if one.control else None
    return {
        "metric": one.metric.value,
        "unit": _UNITS[one.metric],
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


def _layers(result: GateResult) -> Document | None:
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


def alerts_document(found: Sequence[tuple[HistoryAlerts, Sequence[Confirmation | None]]]) -> Document:
    """The histories with their alerts, and what is confirmed of them, as a JSON document."""
    return {
        **head("trend"),
        "points_needed": FEWEST_POINTS,
        "histories": [_history_document(one, confirmations) for one, confirmations in found],
    }


def _history_document(one: HistoryAlerts, confirmations: Sequence[Confirmation | None]) -> Document:
    history = one.history
    told = [_alert_document(*each) for each in zip(one.alerts, confirmations, strict=True)]
    return {
        "model": history.model_name,
        "model_digest": history.model_digest,
        "target": history.target,
        "engine": history.engine,
        "environment": history.environment,
        "imported": history.imported,
        "processors": list(history.processors),
        "configuration": CONFIGURATION.to_data(history.configuration),
        "points": one.usable,
        "shortage": one.shortage or None,
        "versions": list(history.versions),
        "oldest": _point_document(history.points[0]),
        "newest": _point_document(history.points[-1]),
        "since_oldest_ratio": history.since_oldest,
        "alerts": told if one.is_searched else None,
    }


def _alert_document(alert: Alert, confirmation: Confirmation | None) -> Document:
    return {
        "before": _point_document(alert.before),
        "after": _point_document(alert.after),
        "points_before": alert.points[0],
        "points_after": alert.points[1],
        "time_ratio": alert.ratio,
        "reference_ratio": alert.reference_ratio,
        "beside_reference": alert.beside_reference,
        "lasts": alert.lasts,
        "cause": str(alert.cause),
        "sentence": alert.sentence,
        "finding": None if confirmation is None else str(confirmation.finding),
        "finding_sentence": None if confirmation is None else confirmation.sentence,
        "gate": None if confirmation is None else confirmation.benchmark_id,
    }


def _point_document(point: TrendPoint) -> Document:
    return {
        "measurement_id": point.measurement_id,
        "benchmark_id": point.benchmark_id,
        "at_unix_ns": point.at_unix_ns,
        "version": point.engine.version,
        "median_ns": point.median_ns,
        "throughput_items_per_s": point.throughput_items_per_s,
        "reference_product_ns": point.reference_product_ns,
        "reference_stream_ns": point.reference_stream_ns,
    }


class MemberForm(Form):
    """Base or head: what it was called, and its measurement."""

    called: str
    measurement: str
    target: str
    engine: EngineForm
    model: ModelForm
    configuration: Configuration


class ControlForm(Form):
    """Base ÷ base, measured along, with its interval."""

    ratio: float | None
    low: float | None
    high: float | None


class MetricForm(Form):
    """What is known of one metric; `ratio` is head ÷ base of the figure itself, and `base` counts the control, too."""

    metric: GateMetric
    unit: Literal["ns", "bytes", "J", "items_per_s"]
    decides: bool
    base: float | None
    head: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    control: ControlForm | None
    difference: float
    outcome: GateOutcome | None
    better: bool
    sentence: str


class ExplanationForm(Form):
    """The layers that differ most, or in a note why none are known."""

    profiles: tuple[str, ...]
    difference_ns: int | None
    note: str | None
    layers: tuple[LayerShare, ...]


class GateDocument(DocumentForm):
    """Whether head is worse than base.

    `difference` is D of the metric that decided, and `difference_seen` what these pairs could have told of it.
    """

    document = "gate"

    kind: str
    benchmark: NamedForm
    outcome: GateOutcome
    better: bool
    sentence: str
    self_test: bool
    tolerance: float
    budget_ns: int
    difference: float
    promised_difference: float | None
    difference_seen: float | None
    pairs: int
    pair_seconds: float | None
    base: MemberForm
    head: MemberForm
    metrics: tuple[MetricForm, ...]
    layers: ExplanationForm | None
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


class GatedBenchmarkDocument(BenchmarkForm):
    """The benchmark that a gate is stored as; the gate's verdict stands in the place of answers."""

    document = "gated_benchmark"

    gate: GateDocument


class PointForm(Form):
    """A measurement among its like in other benchmarks."""

    measurement_id: str
    benchmark_id: str
    at_unix_ns: int
    version: str | None
    median_ns: float | None
    throughput_items_per_s: float | None
    reference_product_ns: float | None
    reference_stream_ns: float | None


class AlertForm(Form):
    """A change of level, what it is put down to, and what a gate says of it, if there was one.

    It `lasts` as long as the newest level is still beyond the one before it, but for what the machine has done since.
    """

    before: PointForm
    after: PointForm
    points_before: int
    points_after: int
    time_ratio: float
    reference_ratio: float | None
    beside_reference: float | None
    lasts: bool
    cause: Cause
    sentence: str
    finding: Finding | None
    finding_sentence: str | None
    gate: str | None


class HistoryForm(Form):
    """What has been measured again and again; `shortage` says where there are too few points to tell.

    `processors` and `versions` are those of its points, as far as they are known, in the order of time. What was
    imported is a history of its own, of each processor one. `alerts` are null where nobody has looked for any.
    """

    model: str
    model_digest: str
    target: str
    engine: str
    environment: str
    imported: bool
    processors: tuple[str, ...]
    configuration: Configuration
    points: int
    shortage: str | None
    versions: tuple[str, ...]
    oldest: PointForm
    newest: PointForm
    since_oldest_ratio: float | None
    alerts: tuple[AlertForm, ...] | None


class TrendDocument(DocumentForm):
    """Histories with their changes of level."""

    document = "trend"

    kind: str
    points_needed: int
    histories: tuple[HistoryForm, ...]
