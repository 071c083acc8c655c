"""Whether what the machine did disturbed a block, and how much of it there was."""

from collections.abc import Iterator

from enginebench_agent.machine.sources import JIFFY_NS, TICK_NS
from enginebench_proto.agreed.disturbances import Disturbance, DisturbanceKind
from enginebench_proto.v1 import measurement_pb2
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
) -> list[Disturbance]:
    """What disturbed a block of this duration on this many cores; nothing for a clean block.

    `highest_frequency_hz` is what the evidence's frequency is held against, such as that of `EvidenceReader`; without
    it a low frequency goes unnoticed. What the machine does not tell does not disturb.
    """
    return list(_found(evidence, duration_ns, cores, highest_frequency_hz or 0))


def _found(evidence: Evidence, duration_ns: int, cores: int, highest_frequency_hz: int) -> Iterator[Disturbance]:
    budget_ns = duration_ns * cores
    if _exceeds(evidence.steal_ns, STEAL_SHARE * budget_ns):
        yield Disturbance(DisturbanceKind.STEAL, share=evidence.steal_ns / budget_ns)
    if _exceeds(evidence.other_cpu_time_ns, max(OTHER_CPU_SHARE * budget_ns, _miscounted_ns(cores))):
        yield Disturbance(DisturbanceKind.OTHER_PROCESSES, share=evidence.other_cpu_time_ns / budget_ns)
    if evidence.throttled_ns > 0:
        yield Disturbance(DisturbanceKind.THROTTLED, duration_ns=evidence.throttled_ns)
    if evidence.memory_pressure_ns > MEMORY_PRESSURE_SHARE * duration_ns:
        yield Disturbance(DisturbanceKind.MEMORY_PRESSURE, share=evidence.memory_pressure_ns / duration_ns)
    if evidence.held_back_by:
        yield Disturbance(DisturbanceKind.HELD_BACK)
    if _is_slow(evidence, highest_frequency_hz):
        hz = evidence.max_frequency_hz
        yield Disturbance(DisturbanceKind.FREQUENCY, share=hz / highest_frequency_hz, frequency_hz=hz)


def to_message(found: Disturbance) -> measurement_pb2.Disturbance:
    """A disturbance as the wire carries it."""
    return measurement_pb2.Disturbance(
        kind=f"DISTURBANCE_KIND_{found.kind.name}",
        share=found.share,
        duration_ns=found.duration_ns,
        frequency_hz=found.frequency_hz,
    )


def _is_slow(evidence: Evidence, highest_frequency_hz: int) -> bool:
    # Of the processors used, the fastest one decides: another may already have been idle when the block was over.
    known = evidence.HasField("max_frequency_hz")
    return known and evidence.max_frequency_hz < LOWEST_FREQUENCY_SHARE * highest_frequency_hz


def _exceeds(counted_ns: int, limit_ns: float) -> bool:
    return counted_ns >= FEWEST_TICKS * TICK_NS and counted_ns > limit_ns


def _miscounted_ns(cores: int) -> int:
    """How much time of others /proc/stat may show where so many cores were at work for this process alone.

    The timer ticks on all of them at once: a stretch that holds a tick of it more than its length is shown as longer by
    up to a jiffy on each core, while this process's own time, which is subtracted, is exact.
    """
    rounding_ns = TICK_NS if JIFFY_NS % TICK_NS else 0
    return cores * JIFFY_NS + rounding_ns


def is_quiet(used: MachineUse, cores: int) -> bool:
    """Whether a block on so many cores, as long as this look, would not be disturbed by what others use."""
    budget_ns = cores * used.duration_ns
    others = (used.other_cpu_time_ns, OTHER_CPU_SHARE), (used.steal_ns, STEAL_SHARE)
    return not any(ns >= FEWEST_TICKS * TICK_NS and ns > share * budget_ns for ns, share in others)
