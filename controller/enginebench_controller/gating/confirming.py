"""Alerts confirmed: a gate of the versions before and after a change, here and now, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from enginebench_controller.comparing.alerts import Alert, Cause, HistoryAlerts
from enginebench_controller.comparing.gate import GateOutcome
from enginebench_controller.errors import EnginebenchError
from enginebench_controller.gating.gate import GateOrder, GateWatcher, gate, gate_of
from enginebench_controller.gating.reports import headline
from enginebench_controller.gating.results import BASE, GateResult
from enginebench_controller.home import Home
from enginebench_controller.records import LOCAL_TARGET, Configuration, Load, Measurement
from enginebench_controller.records.json_form import CONFIGURATION
from enginebench_controller.stats.change_points import FEWEST_POINTS
from enginebench_controller.store.queries import BenchmarkEntry
from enginebench_controller.store.trends import TrendPoint

KIND, TREND_VERSION = "enginebench-trend", 1


class Finding(StrEnum):
    """What is known of a candidate; only what is confirmed is a regression or an improvement."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NOT_CONFIRMED = "not confirmed"
    CANNOT_TELL = "cannot tell"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True)
class Confirmation:
    """What a gate said of an alert, and in a sentence why; `benchmark_id` is that gate, where there was one."""

    finding: Finding
    sentence: str
    benchmark_id: str | None = None


def known(home: Home, alerts: Sequence[Alert]) -> tuple[Confirmation | None, ...]:
    """What the newest stored gates say of candidates; None for what needs none, as it cannot be the engine."""
    entries = [one for one in home.store.benchmarks() if one.benchmark.plan.get("gate")]
    return tuple(_known(home, alert, entries) if alert.cause is Cause.CANDIDATE else None for alert in alerts)


def confirm(home: Home, alert: Alert, budget: str = "2m", watcher: GateWatcher | None = None) -> Confirmation:
    """Run the gate of a candidate, on this machine; what stands in its way is told as a reason, not raised."""
    if reason := _obstacle(alert):
        return Confirmation(Finding.UNCONFIRMED, reason)
    before, after = (_side(alert, version) for version in alert.versions)
    original = {one.digest: one.original_digest for one in home.store.models()}
    model = original.get(alert.history.model_digest, alert.history.model_digest)
    order = GateOrder(before, after, model, budget=budget, fields=_fields(alert), explain=alert.is_slower)
    try:
        return _read(gate(home, order, watcher))
    except EnginebenchError as error:
        return Confirmation(Finding.UNCONFIRMED, f"no gate could be run: {str(error).splitlines()[0]}")


def gate_command(alert: Alert) -> str | None:
    """What a person types to confirm a candidate; None where it cannot be."""
    if alert.cause is not Cause.CANDIDATE or _obstacle(alert):
        return None
    before, after = (_side(alert, version) for version in alert.versions)
    chosen = alert.history.configuration
    place = f"--device {chosen.device} --batch {chosen.batch} --cores {chosen.cores} --precision {chosen.precision}"
    return f"enginebench gate {alert.history.model_digest[:12]} --base {before} --head {after} {place}"


def _obstacle(alert: Alert) -> str:
    """Why there can be no gate."""
    if None in alert.versions:
        return "the engine's version is not known on one side, so no gate can be run of it"
    if alert.history.configuration.load is Load.OPEN_LOOP:
        return "a gate has no open loop: what is slower in it needs a closed load to confirm"
    if alert.history.target != LOCAL_TARGET:
        return (
            f"both versions can be installed on this machine only; on {alert.history.target!r}, make environments of "
            f"them and run: enginebench gate MODEL --target {alert.history.target} --base E@OLD --head E@NEW"
        )
    return ""


def _side(alert: Alert, version: str | None) -> str:
    return f"{alert.history.engine}=={(version or '').partition('+')[0]}"


def _fields(alert: Alert) -> Mapping[str, Any]:
    """The plan's fields that make the gate measure what the history is of."""
    chosen = alert.history.configuration
    return {
        "devices": [chosen.device],
        "batch": [chosen.batch],
        "cores": [chosen.cores],
        "streams": [chosen.streams],
        "precision": [chosen.precision],
        "hint": [str(chosen.hint)],
        "load": [str(chosen.load)],
        "requests": [chosen.requests] if chosen.load is Load.ASYNC else [],
        "shapes": {one.name: "x".join(map(str, one.shape)) for one in chosen.inputs if one.shape},
        "input_values": dict(str(one).split("=", 1) for one in chosen.input_set.values),
        "options": {f"{alert.history.engine}.{name}": value for name, value in chosen.options.items()},
    }


def _known(home: Home, alert: Alert, entries: Sequence[BenchmarkEntry]) -> Confirmation:
    before, after = (_side(alert, version) for version in alert.versions)
    for entry in entries:
        terms = entry.benchmark.plan["gate"]
        if (terms.get("base"), terms.get("head")) != (before, after) or alert.history.target not in entry.targets:
            continue
        result = gate_of(home, entry.benchmark)
        if result is not None and _is_of(alert, result.measurements[BASE]):
            return _read(result)
    command = gate_command(alert)
    return Confirmation(
        Finding.UNCONFIRMED, _obstacle(alert) or f"not confirmed by a gate yet: --confirm runs it, or {command}"
    )


def _is_of(alert: Alert, base: Measurement) -> bool:
    return base.model_digest == alert.history.model_digest and _work(base.configuration) == _work(
        alert.history.configuration
    )


def _work(chosen: Configuration) -> Configuration:
    """What is done, whenever it stops and with which values."""
    bare = Configuration(chosen.device, chosen.batch, chosen.cores)
    return replace(chosen, stop=bare.stop, input_set=bare.input_set)


def _read(result: GateResult) -> Confirmation:
    if result.outcome is GateOutcome.WORSE:
        finding = Finding.REGRESSION
    elif result.outcome is GateOutcome.CANNOT_TELL:
        finding = Finding.CANNOT_TELL
    else:
        finding = Finding.IMPROVEMENT if result.is_better else Finding.NOT_CONFIRMED
    return Confirmation(finding, headline(result), result.benchmark.id)


def alerts_document(found: Sequence[tuple[HistoryAlerts, Sequence[Confirmation | None]]]) -> dict[str, Any]:
    """The histories with their alerts, and what is confirmed of them, as a JSON document."""
    return {
        "kind": KIND,
        "schema_version": TREND_VERSION,
        "points_needed": FEWEST_POINTS,
        "histories": [_history_document(one, confirmations) for one, confirmations in found],
    }


def _history_document(one: HistoryAlerts, confirmations: Sequence[Confirmation | None]) -> dict[str, Any]:
    history = one.history
    return {
        "model": history.model_name,
        "model_digest": history.model_digest,
        "target": history.target,
        "engine": history.engine,
        "environment": history.environment,
        "configuration": CONFIGURATION.to_data(history.configuration),
        "points": one.usable,
        "shortage": one.shortage or None,
        "newest": _point_document(history.points[-1]),
        "alerts": [_alert_document(*each) for each in zip(one.alerts, confirmations, strict=True)],
    }


def _alert_document(alert: Alert, confirmation: Confirmation | None) -> dict[str, Any]:
    return {
        "before": _point_document(alert.before),
        "after": _point_document(alert.after),
        "points_before": alert.points[0],
        "points_after": alert.points[1],
        "time_ratio": alert.ratio,
        "reference_ratio": alert.reference_ratio,
        "cause": str(alert.cause),
        "sentence": alert.sentence,
        "finding": None if confirmation is None else str(confirmation.finding),
        "finding_sentence": None if confirmation is None else confirmation.sentence,
        "gate": None if confirmation is None else confirmation.benchmark_id,
    }


def _point_document(point: TrendPoint) -> dict[str, Any]:
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
