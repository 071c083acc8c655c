"""Tells a few times a second how far a phase has come."""

from collections.abc import Callable

from enginebench_agent.worker.loads.block import clock

ReportProgress = Callable[[int, int, int], None]
"""Called with nanoseconds elapsed, nanoseconds expected and inferences completed."""

REPORT_PERIOD_NS = 250_000_000


def a_few_times_a_second(report: ReportProgress) -> ReportProgress:
    """`report`, called at most once in `REPORT_PERIOD_NS`, and not before the first of them is over."""
    due = clock() + REPORT_PERIOD_NS

    def report_when_due(elapsed_ns: int, expected_ns: int, iterations: int) -> None:
        nonlocal due
        now = clock()
        if now >= due:
            due = now + REPORT_PERIOD_NS
            report(elapsed_ns, expected_ns, iterations)

    return report_when_due
