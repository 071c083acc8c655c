"""Tells a few times a second how far a phase has come."""

from collections.abc import Callable

from enginebench_agent.worker.loads.block import clock

ReportProgress = Callable[[int, int, int], None]
"""Called with nanoseconds elapsed, nanoseconds expected and inferences completed."""

REPORT_PERIOD_NS = 250_000_000
TIMED_PERIOD_NS = 500_000_000
"""While blocks are timed: each report wakes the agent, and whoever watches the run on the same machine."""


def a_few_times_a_second(report: ReportProgress, period_ns: int = REPORT_PERIOD_NS) -> ReportProgress:
    """`report`, called at most once in a period, and not before the first of them is over."""
    due = clock() + period_ns

    def report_when_due(elapsed_ns: int, expected_ns: int, iterations: int) -> None:
        nonlocal due
        now = clock()
        if now >= due:
            due = now + period_ns
            report(elapsed_ns, expected_ns, iterations)

    return report_when_due
