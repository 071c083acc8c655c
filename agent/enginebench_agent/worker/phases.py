"""The phases of a run: how long each took, how much memory it held at most, and how far it has come."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enginebench_agent.machine import this_process
from enginebench_agent.worker.keeper import Pauses
from enginebench_proto.v1.measurement_pb2 import Phase

ReportProgress = Callable[[int, int, int], None]
"""Called with nanoseconds elapsed, nanoseconds expected and inferences completed."""

REPORT_PERIOD_NS = 250_000_000
TIMED_PERIOD_NS = 500_000_000
"""While blocks are timed: each report wakes the agent, and whoever watches the run on the same machine."""


def a_few_times_a_second(report: ReportProgress, period_ns: int = REPORT_PERIOD_NS) -> ReportProgress:
    """`report`, called at most once in a period, and not before the first of them is over."""
    due = time.perf_counter_ns() + period_ns

    def report_when_due(elapsed_ns: int, expected_ns: int, iterations: int) -> None:
        nonlocal due
        now = time.perf_counter_ns()
        if now >= due:
            due = now + period_ns
            report(elapsed_ns, expected_ns, iterations)

    return report_when_due


READ = "read"
CONVERT = "convert"
COMPILE = "compile"
FIRST_INFERENCE = "first_inference"
WARM_UP = "warm_up"
STEADY_STATE = "steady_state"
TEARDOWN = "teardown"
PEAKS = "peaks"


class PhaseRecorder:
    """Times phases with the monotonic clock. `announce` is told each phase's name as it begins; `pauses` tell how long
    the process stood still in one.
    """

    def __init__(self, announce: Callable[[str], None], pauses: Pauses | None = None) -> None:
        self._announce = announce
        self._pauses = pauses
        self.completed: list[Phase] = []
        self.current = ""
        """The phase begun last, also after an error in it; "" before the first."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body as one phase. A phase that raises is not recorded."""
        self.current = name
        self._announce(name)
        has_peak = this_process.reset_peak_rss()
        begin = time.perf_counter_ns()
        yield
        duration_ns = time.perf_counter_ns() - begin
        peak = this_process.peak_rss_bytes() if has_peak else None
        paused_ns = self._paused_ns(name, begin, begin + duration_ns)
        self.completed.append(Phase(name=name, duration_ns=duration_ns, peak_rss_bytes=peak, paused_ns=paused_ns))

    def _paused_ns(self, name: str, begin_ns: int, end_ns: int) -> int | None:
        # Blocks tell of their own pauses, and between those of a group the process rests.
        if self._pauses is None or name == STEADY_STATE:
            return None
        return self._pauses.total_ns(begin_ns, end_ns) or None
