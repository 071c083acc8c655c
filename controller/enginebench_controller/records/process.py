"""Processes: what each of a measurement's fresh processes did."""

from dataclasses import dataclass, field
from enum import StrEnum

from enginebench_controller.records.bystanders import Bystanders
from enginebench_controller.records.engine import Effective


class StopReason(StrEnum):
    """Why the steady state of a process ended."""

    TARGET_MET = "target_met"
    MAX_DURATION = "max_duration"
    DISTURBED = "disturbed"


@dataclass(frozen=True)
class Phase:
    """One stretch of a run with a purpose of its own, such as "compile"; `paused_ns` of it the process stood still."""

    name: str
    duration_ns: int
    peak_rss_bytes: int | None = None
    paused_ns: int | None = None


@dataclass(frozen=True)
class WarmUp:
    """How a warm-up went; `reason` says what still differed where it never became steady.

    `steady` is None where there were too few inferences to tell.
    """

    steady: bool | None
    iterations: int
    reason: str = ""


@dataclass(frozen=True)
class Calibration:
    """What measuring itself costs: a reading of the clock, and an iteration of the loop around an empty call."""

    timer_ns: float
    empty_loop_ns: float
    block_ns: int


@dataclass(frozen=True)
class Afterwards:
    """What the engine did after the timed blocks, one inference at a time.

    `late_difference`: how much outputs differ from those captured while warming up, the largest absolute difference ÷
    the larger of the two largest magnitudes, from 0 to 2; `repeat_difference` the same between two inferences of one
    input, one right after the other. `seen_ns` are latencies with inputs of the set, `fresh_ns` beside them with inputs
    that the engine had never been given.
    """

    late_difference: float | None = None
    repeat_difference: float | None = None
    seen_ns: tuple[int, ...] = ()
    fresh_ns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Process:
    """What one of a measurement's fresh processes did.

    `drift`: by how much the latency changed between the two halves of the steady state, as a share, where that is more
    than chance; None where it stayed as it was.
    """

    index: int
    started_at_unix_ns: int | None = None
    phases: tuple[Phase, ...] = ()
    effective: Effective = field(default_factory=Effective)
    calibration: Calibration | None = None
    warm_up: WarmUp | None = None
    stop_reason: StopReason | None = None
    iterations: int | None = None
    steady_state_ns: int | None = None
    cpu_time_ns: int | None = None
    median_ns: float | None = None
    drift: float | None = None
    throughput_items_per_s: float | None = None
    scheduled_arrivals: int | None = None
    unsent_arrivals: int | None = None
    clock_jump_ns: int | None = None
    agent_paused_ns: int | None = None
    afterwards: Afterwards | None = None
    bystanders: Bystanders | None = None
