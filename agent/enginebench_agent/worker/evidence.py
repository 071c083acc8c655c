"""What the machine was doing during a block: read at its two ends, never within, and judged."""

import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from enginebench_agent.worker import machine_state, observe
from enginebench_agent.worker.kernel_files import AbsentError
from enginebench_agent.worker.machine_state import TICK_NS, Source
from enginebench_proto.v1.measurement_pb2 import Evidence

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


_Sources = Mapping[tuple[str, ...], Callable[[], Source]]
"""Fields of the message, with the function that opens where they are read."""


class EvidenceReader:
    """Reads the evidence of one block after the other. Keeps its files open.

    A pair of `begin` and `end` costs about 60 µs on a virtual machine with two processors (/proc/stat is the dearest,
    and grows with their number), all of it outside the block.
    """

    def __init__(self, cpus: Sequence[int], root: Path = Path("/")) -> None:
        """`cpus` are the logical processors the run is confined to; `root` is the root of /proc and /sys.

        Processor time and switches of this process itself are always the real ones.
        """
        self._missing: dict[str, str] = {}
        self._counters = list(self._open(_counter_sources(root)))
        self._states = list(self._open(_state_sources(root, cpus)))
        self._begun: dict[str, Any] = {}
        self.highest_frequency_hz: int | None = None
        """The highest frequency any block so far ended with; None where the machine does not tell."""

    def begin(self) -> None:
        """Mark the start of a block."""
        self._begun = _readings(self._counters) | _own_counters()

    def end(self) -> Evidence:
        """What changed since `begin`, and how things stand. Says what is missing, and why, in the first call only."""
        ended = _own_counters() | _readings(self._counters)
        changes = {name: max(0, now - self._begun[name]) for name, now in ended.items() if name in self._begun}
        evidence = Evidence(**changes, **_readings(self._states), missing=self._missing)
        self._missing = {}
        if evidence.HasField("max_frequency_hz"):
            self.highest_frequency_hz = max(self.highest_frequency_hz or 0, evidence.max_frequency_hz)
        return evidence

    def _open(self, sources: _Sources) -> Iterator[Source]:
        """The sources this machine has; the fields of all others are noted as missing."""
        for fields, open_source in sources.items():
            try:
                source = open_source()
                source()
            except AbsentError as error:
                self._missing |= dict.fromkeys(fields, str(error))
            except ValueError:
                self._missing |= dict.fromkeys(fields, "this kernel writes it in a form not known here")
            else:
                yield source


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


def _counter_sources(root: Path) -> _Sources:
    return {
        ("other_cpu_time_ns", "steal_ns"): partial(machine_state.processor_times, root),
        ("cpu_pressure_ns",): partial(machine_state.pressure, root, "cpu"),
        ("memory_pressure_ns",): partial(machine_state.pressure, root, "memory"),
        ("io_pressure_ns",): partial(machine_state.pressure, root, "io"),
        ("throttled_ns",): partial(machine_state.throttling, root),
        ("energy_uj",): partial(machine_state.energy, root),
    }


def _state_sources(root: Path, cpus: Sequence[int]) -> _Sources:
    return {
        ("min_frequency_hz", "max_frequency_hz"): partial(machine_state.frequency, root, cpus),
        ("governor",): partial(machine_state.governor, root, cpus),
        ("turbo",): partial(machine_state.turbo, root),
        ("temperature_millicelsius",): partial(machine_state.temperature, root),
        ("power_supply",): partial(machine_state.power_supply, root),
    }


def _readings(sources: Sequence[Source]) -> dict[str, Any]:
    """All that can be read now; a source that fails in the middle of a run is absent from that block."""
    readings: dict[str, Any] = {}
    for source in sources:
        try:
            readings |= source()
        except (AbsentError, ValueError):
            continue
    return readings


def _own_counters() -> dict[str, int]:
    # getrusage counts all threads, those that have ended too.
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return {"cpu_time_ns": observe.process_cpu_time_ns(), "involuntary_switches": switches}
