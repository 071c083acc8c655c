"""Whether what the machine did disturbed a block, and how much of it there was."""

from enginebench_agent.machine.evidence import TICK_NS
from enginebench_proto.v1.measurement_pb2 import Evidence, MachineUse

STEAL_SHARE = 0.01
"""Of the block's processor time (cores × duration), given to other guests by the hypervisor."""
OTHER_CPU_SHARE = 0.05
"""Of the block's processor time, used by other processes. They need not run on the same cores to disturb: caches,
memory bandwidth and turbo are shared."""
FEWEST_TICKS = 2
"""Times that /proc/stat counts in ticks of 10 ms say nothing below this many: one tick may be mere rounding."""
MEMORY_PRESSURE_SHARE = 0.01
"""Of the block's duration, in which some task waited for memory. Pressure on processors counts as other processes' time
and may be the engine's own doing; pressure on disks takes no processor away. Both are recorded and disturb nothing."""
LOWEST_FREQUENCY_SHARE = 0.75
"""Of the highest frequency seen in the run; nvbench discards trials below that share of the clock."""


def disturbances(
    evidence: Evidence, duration_ns: int, cores: int, highest_frequency_hz: int | None = None
) -> list[str]:
    """What disturbed a block of this duration on this many cores: one short phrase each, none for a clean block.

    `highest_frequency_hz` is what the evidence's frequency is held against, such as that of `EvidenceReader`; without
    it a low frequency goes unnoticed. What the machine does not tell does not disturb.
    """
    budget_ns = duration_ns * cores
    found: list[str] = []
    if _exceeds(evidence.steal_ns, STEAL_SHARE * budget_ns):
        found.append(f"steal {_percent(evidence.steal_ns, budget_ns)}")
    if _exceeds(evidence.other_cpu_time_ns, OTHER_CPU_SHARE * budget_ns):
        found.append(f"other processes {_percent(evidence.other_cpu_time_ns, budget_ns)}")
    if evidence.throttled_ns > 0:
        found.append(f"throttled for {evidence.throttled_ns / 1e6:.3g} ms")
    if evidence.memory_pressure_ns > MEMORY_PRESSURE_SHARE * duration_ns:
        found.append(f"memory pressure {_percent(evidence.memory_pressure_ns, duration_ns)}")
    if _is_slow(evidence, highest_frequency_hz or 0):
        share = _percent(evidence.max_frequency_hz, highest_frequency_hz or 0)
        found.append(f"frequency {evidence.max_frequency_hz / 1e9:.2f} GHz, {share} of the highest seen")
    return found


def _is_slow(evidence: Evidence, highest_frequency_hz: int) -> bool:
    # Of the processors used, the fastest one decides: another may already have been idle when the block was over.
    known = evidence.HasField("max_frequency_hz")
    return known and evidence.max_frequency_hz < LOWEST_FREQUENCY_SHARE * highest_frequency_hz


def _exceeds(counted_ns: int, limit_ns: float) -> bool:
    return counted_ns >= FEWEST_TICKS * TICK_NS and counted_ns > limit_ns


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2g} %" if part < whole else f"{100 * part / whole:.0f} %"


def is_quiet(used: MachineUse, cores: int) -> bool:
    """Whether a block on so many cores, as long as this look, would not be disturbed by what others use."""
    budget_ns = cores * used.duration_ns
    others = (used.other_cpu_time_ns, OTHER_CPU_SHARE), (used.steal_ns, STEAL_SHARE)
    return not any(ns >= FEWEST_TICKS * TICK_NS and ns > share * budget_ns for ns, share in others)
