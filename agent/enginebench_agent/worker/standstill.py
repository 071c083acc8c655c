"""Whether this process stood still in a block, and for how long: stopped, frozen, held by a debugger, or suspended.

Three witnesses: its keeper, whom the kernel tells of SIGSTOP and SIGCONT; the clock that goes on while the machine is
suspended; and, for all that nobody tells of, an inference that took far longer than the others, or a gap between two,
in which neither this process nor anything that it waited for used a processor.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.loads.block import TimedBlock, clock
from enginebench_proto.agreed.disturbances import Disturbance, DisturbanceKind
from enginebench_proto.v1.measurement_pb2 import Evidence

_AT_ONCE_NS = 100_000
_TRIES = 100

_Times = NDArray[np.int64]

SHORTEST_NS = 1_000_000
"""What is shorter is no longer than the scheduler lets anybody wait."""

UNTOLD_SHORTEST_NS = 500_000_000
UNTOLD_FACTOR = 10
"""Nobody told of it: only what takes so long, and so many times a usual inference, is taken for a pause."""

KEEPER_SECONDS = 0.02
"""What a keeper that was stopped together with its engine gets, to tell that both go on."""

IDLE_SHARE = 0.05
"""Of a gap, in which the process may have used a processor all the same, or waited for one or for memory or a disk."""

USUAL_BLOCKS = 20
"""The usual is the median of so many blocks before; of the first block itself, where it has half as many inferences."""

JUMP_NS = 500_000_000
"""By so much the wall clock must leave the clock that nobody sets, to have been set itself."""


@dataclass(frozen=True)
class Pause:
    """How long the process stood still in a block or since the one before, and how much of the block that is.

    None is known where nobody tells. A block can feel an earlier pause: by requests that were in flight, or a queue.
    """

    paused_ns: int | None
    lost_ns: int = 0

    @property
    def is_felt(self) -> bool:
        """Whether the block's times are not the engine's."""
        return bool(self.paused_ns)

    def disturbances(self) -> list[Disturbance]:
        """What it is among the disturbances of the block."""
        return [Disturbance(DisturbanceKind.PAUSED, duration_ns=self.paused_ns)] if self.paused_ns else []


class Standstill:
    """Judges one block after the other; `pauses` is what the keeper tells, None where there is none."""

    def __init__(self, pauses: Pauses | None, cores: int) -> None:
        self._pauses = pauses
        self._cores = cores
        self._usual_ns: deque[float] = deque(maxlen=USUAL_BLOCKS)
        self._usual_cores: deque[float] = deque(maxlen=USUAL_BLOCKS)
        self._behind = (0, 0)  # the last pause that was felt: until when what was due waits behind it, and its length
        self._wall_ns = _wall_offset_ns()
        self._since_ns = self._suspended_ns = self._waited_ns = 0
        self.go_on()
        self.begin()

    def go_on(self) -> None:
        """From now on nobody has a reason to stop this process: it has not rested, or its turn has come."""
        self._since_ns, self._suspended_ns = clock(), _suspended_ns()

    def begin(self) -> None:
        """Mark the start of a block."""
        self._waited_ns = _waited_ns()

    def clock_jump_ns(self) -> int | None:
        """By how much the wall clock was set since this began; None where it was not."""
        jump_ns = _wall_offset_ns() - self._wall_ns
        return jump_ns if abs(jump_ns) >= JUMP_NS else None

    def within(self, timed: TimedBlock, evidence: Evidence, *, goes_on: bool) -> Pause:
        """What a block that has just ended felt. `goes_on`: inferences may have been in flight when it began."""
        latency_ns = np.frombuffer(timed.latency_ns, dtype=np.int64)
        told = list(self._pauses.within(self._since_ns, timed.end_ns)) if self._pauses else []
        lost_ns = sum(max(0, end_ns - max(begin_ns, timed.begin_ns)) for begin_ns, end_ns in told)
        suspended_ns = _suspended_ns() - self._suspended_ns
        paused_ns = sum(end_ns - begin_ns for begin_ns, end_ns in told)
        paused_ns += suspended_ns if suspended_ns >= SHORTEST_NS else 0
        if paused_ns < SHORTEST_NS:
            paused_ns = lost_ns = self._untold_ns(timed, latency_ns, evidence, goes_on=goes_on)
        if paused_ns:
            self._behind = (told[-1][1] if told else timed.end_ns, paused_ns)
        elif not goes_on or not (paused_ns := self._felt_ns(timed, latency_ns)):
            self._learn(latency_ns, timed.duration_ns, evidence)
        self._since_ns, self._suspended_ns = timed.end_ns, _suspended_ns()
        known = self._pauses is not None or paused_ns
        return Pause(paused_ns if known else None, min(lost_ns, timed.duration_ns))

    def _felt_ns(self, timed: TimedBlock, latency_ns: _Times) -> int:
        """The length of an earlier pause that requests of this block still waited for."""
        until_ns, paused_ns = self._behind
        if not paused_ns:
            return 0
        if timed.scheduled_ns:
            series = (timed.scheduled_ns, timed.sent_ns)
            scheduled_ns, sent_ns = (np.frombuffer(each, dtype=np.int64) for each in series)
            late = scheduled_ns < until_ns
            if late.any():  # those that are due before these are sent wait for them
                self._behind = (max(until_ns, int(sent_ns[late].max())), paused_ns)
                return paused_ns
        elif int(latency_ns.max()) >= paused_ns:
            return paused_ns
        self._behind = (0, 0)
        return 0

    def _untold_ns(self, timed: TimedBlock, latency_ns: _Times, evidence: Evidence, *, goes_on: bool) -> int:
        """A stretch in which nothing was done that anybody could see; 0 for none."""
        usual_ns = self._usual_latency_ns(latency_ns)
        if usual_ns is None or not evidence.HasField("cpu_time_ns"):
            return 0
        # An open loop waits for what is due next.
        between_ns = 0 if goes_on or timed.sent_ns else timed.duration_ns - int(latency_ns.sum())
        gap_ns = max(_service_ns(timed, latency_ns) - round(usual_ns), between_ns)
        if gap_ns < max(UNTOLD_SHORTEST_NS, UNTOLD_FACTOR * usual_ns):
            return 0
        if self._pauses is not None:
            time.sleep(KEEPER_SECONDS)
            if self._pauses.went_on(self._since_ns):
                return gap_ns
        rest_ns = max(0, timed.duration_ns - gap_ns)
        cores = statistics.median(self._usual_cores) if self._usual_cores else float(self._cores)
        busy_ns = evidence.cpu_time_ns - 1.5 * cores * rest_ns + _waited_ns() - self._waited_ns + _hindered_ns(evidence)
        return gap_ns if busy_ns <= IDLE_SHARE * gap_ns else 0

    def _usual_latency_ns(self, latency_ns: _Times) -> float | None:
        if self._usual_ns:
            return statistics.median(self._usual_ns)
        return float(np.median(latency_ns)) if latency_ns.size >= USUAL_BLOCKS // 2 else None

    def _learn(self, latency_ns: _Times, duration_ns: int, evidence: Evidence) -> None:
        if latency_ns.size and duration_ns:
            self._usual_ns.append(float(np.median(latency_ns)))
            if evidence.HasField("cpu_time_ns"):
                self._usual_cores.append(evidence.cpu_time_ns / duration_ns)


def _service_ns(timed: TimedBlock, latency_ns: _Times) -> int:
    """The longest inference; under an open loop without its wait to be sent, which a queue makes long."""
    if not timed.sent_ns:
        return int(latency_ns.max(initial=0))
    sent_ns, completed_ns = (np.frombuffer(each, dtype=np.int64) for each in (timed.sent_ns, timed.completed_ns))
    return int((completed_ns - sent_ns).max(initial=0))


def _hindered_ns(evidence: Evidence) -> int:
    """Time for which the machine says itself why somebody could not go on: that is a disturbance of another kind."""
    pressures: Sequence[int] = (evidence.cpu_pressure_ns, evidence.memory_pressure_ns, evidence.io_pressure_ns)
    return max(*pressures, evidence.throttled_ns, evidence.steal_ns)


def _suspended_ns() -> int:
    """How long the machine has been suspended since it was started; only its changes mean something."""
    try:
        return _ahead_ns(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    except (AttributeError, OSError):
        return 0


def _wall_offset_ns() -> int:
    return _ahead_ns(time.time_ns) - _suspended_ns()


def _ahead_ns(other: Callable[[], int]) -> int:
    """How far another clock is ahead, read where nobody took the processor between the two readings."""
    for _ in range(_TRIES):
        begin_ns, other_ns, end_ns = clock(), other(), clock()
        if end_ns - begin_ns < _AT_ONCE_NS:
            break
    return other_ns - end_ns


def _waited_ns() -> int:
    """How long the main thread has wanted a processor and got none."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
