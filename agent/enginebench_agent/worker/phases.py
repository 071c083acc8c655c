"""Records the phases of a run: how long each took and how much memory it held at most."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enginebench_agent.worker import observe
from enginebench_agent.worker.pauses import Pauses
from enginebench_proto.v1.measurement_pb2 import Phase

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
        has_peak = observe.reset_peak_rss()
        begin = time.perf_counter_ns()
        yield
        duration_ns = time.perf_counter_ns() - begin
        peak = observe.peak_rss_bytes() if has_peak else None
        paused_ns = self._paused_ns(name, begin, begin + duration_ns)
        self.completed.append(Phase(name=name, duration_ns=duration_ns, peak_rss_bytes=peak, paused_ns=paused_ns))

    def _paused_ns(self, name: str, begin_ns: int, end_ns: int) -> int | None:
        # Blocks tell of their own pauses, and between those of a group the process rests.
        if self._pauses is None or name == STEADY_STATE:
            return None
        return self._pauses.total_ns(begin_ns, end_ns) or None
