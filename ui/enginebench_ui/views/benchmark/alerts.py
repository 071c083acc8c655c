"""Where histories changed, as rows: who it was, and what a gate of the versions before and after said."""

from collections.abc import Sequence

from enginebench_controller.comparing.alerts import Alert, Cause, HistoryAlerts, history_words
from enginebench_controller.gating.confirming import Confirmation
from enginebench_controller.records import Measurement
from enginebench_controller.stats.change import factor_words
from enginebench_ui.views.text import UNKNOWN, Row, cells, instant

CAUSES = {Cause.MACHINE: "the machine", Cause.CANDIDATE: "perhaps the engine", Cause.UNEXPLAINED: "unexplained"}


def is_shown(found: HistoryAlerts, measurement: Measurement) -> bool:
    """Whether a history is of the configuration of a measurement, on whatever engine and with whatever options."""
    chosen, asked = found.history.configuration, measurement.configuration
    axes = ("device", "batch", "cores", "streams", "precision", "hint", "load", "requests", "arrivals")
    return all(getattr(chosen, axis) == getattr(asked, axis) for axis in axes)


def alert_rows(found: Sequence[tuple[HistoryAlerts, Sequence[Confirmation | None]]]) -> tuple[Row, ...]:
    """A row a change, newest first."""
    every = [each for one, confirmations in found for each in zip(one.alerts, confirmations, strict=True)]
    newest_first = sorted(every, key=lambda each: each[0].after.at_unix_ns, reverse=True)
    return tuple(cells(_row(*each)) for each in newest_first)


def _row(alert: Alert, confirmation: Confirmation | None) -> Row:
    before, after = (one or UNKNOWN for one in alert.versions)
    said = confirmation.sentence if confirmation else ""
    return {
        "Since": instant(alert.after.at_unix_ns),
        "Benchmark": f"benchmark?id={alert.after.benchmark_id}",
        "History": history_words(alert.history),
        "Time": factor_words(alert.ratio),
        "Version": before if before == after else f"{before} → {after}",
        "Cause": CAUSES[alert.cause],
        "Found": str(confirmation.finding) if confirmation else None,
        "Remarks": "; ".join(filter(None, (alert.sentence, said))),
    }
