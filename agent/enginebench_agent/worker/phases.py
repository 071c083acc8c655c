"""Records the phases of a run: how long each took and how much memory it held at most."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enginebench_agent.worker import observe
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
    """Times phases with the monotonic clock. `announce` is told each phase's name as it begins."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
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
        self.completed.append(Phase(name=name, duration_ns=duration_ns, peak_rss_bytes=peak))
