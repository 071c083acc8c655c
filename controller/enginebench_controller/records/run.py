"""What one run did: how it ended, phases, processes, blocks with evidence, and who else was there."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records.figures import Figure
from enginebench_proto.agreed.disturbances import Disturbance
from enginebench_proto.agreed.words import POWER_AT, ReadbackSource


@dataclass(frozen=True)
class Readback:
    """A value read back from an engine, with how it was obtained."""

    value: int | str
    source: ReadbackSource


@dataclass(frozen=True)
class Effective:
    """What the engine really used; None where unknown. `affinity` lists logical processors.

    `prepared` holds a short phrase for each thing done to the model before the engine took it.
    """

    threads: Readback | None = None
    streams: Readback | None = None
    precision: Readback | None = None
    provider: Readback | None = None
    isa: Readback | None = None
    affinity: tuple[int, ...] = ()
    prepared: tuple[str, ...] = ()

    @property
    def preparation(self) -> str:
        """What was done to the model, in one line; empty where nothing was."""
        return f"Prepared: {'; '.join(self.prepared)}" if self.prepared else ""


class Status(StrEnum):
    """How a measurement or profile ended."""

    OK = "ok"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_numbers(self) -> bool:
        """Whether a measurement that ended so has statistics, be they as sure as was asked for or not."""
        return self in (Status.OK, Status.INCONCLUSIVE)


class FailureKind(StrEnum):
    """Why there are no numbers; the same names as on the wire."""

    ENGINE_UNAVAILABLE = "engine_unavailable"
    COMPILE_FAILED = "compile_failed"
    INFERENCE_FAILED = "inference_failed"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    AGENT_LOST = "agent_lost"
    INTERNAL = "internal"
    SHORTAGE = "shortage"

    @property
    def tells_nothing(self) -> bool:
        """Whether it says nothing of what was to run: somebody ended it, or its agent went or was short of room."""
        return self in (FailureKind.CANCELLED, FailureKind.AGENT_LOST, FailureKind.SHORTAGE)


@dataclass(frozen=True)
class Failure:
    """Why a run has no numbers: `message` is a sentence for a person, `detail` the engine's own words.

    `cause` is the line of these words that tells, which the message holds, too; "" where there is none.
    """

    kind: FailureKind
    message: str
    detail: str = ""
    signal: str = ""
    exit_code: int | None = None
    stderr_tail: str = ""
    phase: str = ""
    cause: str = ""


OUT_OF_TIME = Failure(FailureKind.TIMED_OUT, "the budget ended before there was one process of each: give a longer one")
"""Of what was broken off because all had taken too long together: it says nothing of the one that has it."""


@dataclass(frozen=True)
class ProcessUse:
    """Processes of one name, with those that they started and that have ended; `pid` is that of the busiest."""

    name: str
    pid: int
    count: int
    cpu_time_ns: int


@dataclass(frozen=True)
class MachineUse:
    """What others used of all `processors` of a machine in so many nanoseconds; `busiest` are those that used most."""

    duration_ns: int
    processors: int
    other_cpu_time_ns: int
    steal_ns: int = 0
    busiest: tuple[ProcessUse, ...] = ()

    @property
    def share(self) -> float:
        """Of the machine's processor time, what others used."""
        return min(1.0, self.other_cpu_time_ns / (self.duration_ns * self.processors))

    @classmethod
    def together(cls, uses: Iterable["MachineUse"]) -> "MachineUse | None":
        """What was used over several stretches of time; None of none."""
        known = [one for one in uses if one.duration_ns * one.processors > 0]
        if not known:
            return None
        return cls(
            duration_ns=sum(one.duration_ns for one in known),
            processors=max(one.processors for one in known),
            other_cpu_time_ns=sum(one.other_cpu_time_ns for one in known),
            steal_ns=sum(one.steal_ns for one in known),
            busiest=_by_name([process for one in known for process in one.busiest]),
        )


@dataclass(frozen=True)
class Bystanders:
    """What an agent saw of others: `before` a process, for which it waited `waited_ns`, and `meanwhile`.

    None where it did not look, or could not. `unseen` says what cannot be seen from where it runs.
    """

    before: MachineUse | None = None
    waited_ns: int = 0
    meanwhile: MachineUse | None = None
    quota_cores: float | None = None
    unseen: tuple[str, ...] = ()


def _by_name(processes: list[ProcessUse]) -> tuple[ProcessUse, ...]:
    found: dict[str, ProcessUse] = {}
    for one in sorted(processes, key=lambda one: -one.cpu_time_ns):
        known = found.get(one.name, ProcessUse(one.name, one.pid, 0, 0))
        count, used_ns = max(known.count, one.count), known.cpu_time_ns + one.cpu_time_ns
        found[one.name] = ProcessUse(one.name, known.pid, count, used_ns)
    return tuple(sorted(found.values(), key=lambda one: -one.cpu_time_ns))


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
class MeasuringCost:
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
    started_at_unix_ns: Annotated[int | None, Figure("when it began, in ns since 1970")] = None
    phases: tuple[Phase, ...] = ()
    effective: Effective = field(default_factory=Effective)
    calibration: MeasuringCost | None = None
    warm_up: WarmUp | None = None
    stop_reason: Annotated[
        StopReason | None,
        Figure(
            "target_met; max_duration where the interval was not reached in time, or an open loop was overloaded; "
            "disturbed without quiet time"
        ),
    ] = None
    iterations: Annotated[int | None, Figure("timed inferences")] = None
    steady_state_ns: Annotated[int | None, Figure("length of the steady state, in ns")] = None
    cpu_time_ns: Annotated[int | None, Figure("processor time of the steady state, in ns")] = None
    median_ns: Annotated[float | None, Figure("median latency, in ns")] = None
    drift: Annotated[
        float | None,
        Figure("change of latency between the halves of the steady state, as a share; NULL where it may be chance"),
    ] = None
    throughput_items_per_s: Annotated[float | None, Figure("items per second of wall clock")] = None
    scheduled_arrivals: Annotated[int | None, Figure("of an open loop: inferences that were due")] = None
    unsent_arrivals: Annotated[
        int | None,
        Figure(
            "of an open loop: inferences that were due, and not sent as its schedule ended; those sent later count as "
            "iterations, too"
        ),
    ] = None
    clock_jump_ns: Annotated[
        int | None, Figure("by how much the machine's wall clock was set meanwhile, in ns; NULL where it was not")
    ] = None
    agent_paused_ns: Annotated[
        int | None, Figure("how long the agent stood still meanwhile, in ns; NULL where it was not seen to")
    ] = None
    written_bytes: Annotated[
        int | None, Figure("what it, what it started, and the agent for it wrote to storage, in bytes")
    ] = None
    afterwards: Afterwards | None = None
    bystanders: Bystanders | None = None


@dataclass(frozen=True)
class Evidence:
    """What a machine was doing during one block; None where it does not tell, and `missing` says why, by field.

    `reference_product_ns` and `reference_stream_ns` are what the same fixed work took just before it.
    """

    cpu_time_ns: Annotated[int | None, Figure("processor time of the process, in ns")] = None
    other_cpu_time_ns: Annotated[
        int | None, Figure("processor time of everything else on the same processors, in ns")
    ] = None
    steal_ns: Annotated[int | None, Figure("time that the hypervisor took, in ns")] = None
    involuntary_switches: Annotated[int | None, Figure("how often the process was made to give up a processor")] = None
    cpu_pressure_ns: Annotated[int | None, Figure("time that something waited for a processor, in ns")] = None
    memory_pressure_ns: Annotated[int | None, Figure("time that something waited for memory, in ns")] = None
    io_pressure_ns: Annotated[int | None, Figure("time that something waited for storage, in ns")] = None
    throttled_ns: Annotated[int | None, Figure("time that a quota stopped the process, in ns")] = None
    min_frequency_hz: Annotated[int | None, Figure("the lowest frequency seen, in Hz")] = None
    max_frequency_hz: Annotated[int | None, Figure("the highest frequency seen, in Hz")] = None
    temperature_millicelsius: Annotated[
        int | None, Figure("temperature of the processor, in thousandths of a degree")
    ] = None
    energy_uj: Annotated[int | None, Figure("energy by energy_source's meter, in microjoules")] = None
    governor: Annotated[str | None, Figure("frequency governor")] = None
    turbo: Annotated[bool | None, Figure("whether the processor may exceed its base frequency")] = None
    power_supply: Annotated[str | None, Figure("mains or battery")] = None
    reference_product_ns: Annotated[
        int | None, Figure("what fixed products of small matrices took just before it, in ns; NULL where none ran")
    ] = None
    reference_stream_ns: Annotated[
        int | None, Figure("what a fixed stream through memory took just before it, in ns; NULL where none ran")
    ] = None
    cluster_migrations: Annotated[
        int | None,
        Figure("how often a thread was found on a core of another kind; NULL where all cores of the run are alike"),
    ] = None
    held_back_by: Annotated[
        str | None, Figure("what held the processors back at its end, such as under-voltage; empty for nothing")
    ] = None
    energy_source: Annotated[str | None, Figure("which meter counted the energy")] = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A stretch of the steady state of one process. `disturbances` is empty for a clean block.

    `paused_ns`: how long the process stood still while inferences of the block were under way; such a block counts
    nowhere. None where nobody tells.
    """

    process: int
    index: int
    begin_ns: Annotated[int, Figure("when it began, in ns since the steady state did")]
    duration_ns: Annotated[int, Figure("its length, in ns")]
    iterations: Annotated[int, Figure("inferences that were completed in it")]
    evidence: Evidence = Evidence()
    disturbances: tuple[Disturbance, ...] = ()
    paused_ns: Annotated[
        int | None,
        Figure("how long the process stood still, in ns: a block that counts nowhere; NULL where nobody tells"),
    ] = None


@dataclass(frozen=True)
class MeteredEnergy:
    """Joules an inference and the meter that counted them; where there are none, `missing` says why.

    `is_coarse` if the meter tells what is drawn now and then, which is too little to decide between two by.
    """

    j_per_inference: float | None = None
    source: str | None = None
    missing: str = ""

    @property
    def is_coarse(self) -> bool:
        """Whether it is power at some moments, and not energy, that was read."""
        return self.source is not None and f", {POWER_AT} " in self.source


_ENOUGH_METERED = 0.9
"""Of the blocks with inferences: a bus may fail to answer now and then."""


def metered_energy(blocks: Collection[Block]) -> MeteredEnergy:
    """Joules an inference of the blocks that were metered, if nearly all were, and by one meter.

    The meter counts what the whole processor or board used, so also what others did meanwhile.
    """
    timed = [one for one in blocks if one.iterations]
    metered = [one for one in timed if one.evidence.energy_uj is not None]
    sources = sorted({one.evidence.energy_source or "unknown" for one in metered})
    used_uj = sum(one.evidence.energy_uj or 0 for one in metered)
    told = next(filter(None, (one.evidence.missing.get("energy_uj", "") for one in blocks)), "")
    if not timed:
        return MeteredEnergy(missing=told or "no block counts")
    if not metered:
        return MeteredEnergy(missing=told or "this machine has no energy meter that can be read")
    if len(sources) > 1:
        return MeteredEnergy(missing=f"not all processes were counted by one meter ({', '.join(sources)})")
    if len(metered) < _ENOUGH_METERED * len(timed):
        return MeteredEnergy(missing=f"the meter was read in {len(metered)} of {len(timed)} blocks only")
    if not used_uj:
        return MeteredEnergy(missing=f"the meter ({sources[0]}) counts nothing here")
    return MeteredEnergy(used_uj / 1e6 / sum(one.iterations for one in metered), metered[0].evidence.energy_source)


@dataclass(frozen=True, eq=False)
class BlockSamples:
    """The raw samples of one block: int64 arrays of shape (iterations,) in nanoseconds, in order of completion.

    The instants of an open loop count from the start of the process's steady state; elsewhere they are None.
    """

    process: int
    block: int
    latency_ns: NDArray[np.int64]
    scheduled_ns: NDArray[np.int64] | None = None
    sent_ns: NDArray[np.int64] | None = None
    completed_ns: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class BlockLatency:
    """The raw latencies of one block of a process: how many, their sum and their median, in nanoseconds."""

    process: int
    block: int
    samples: int
    total_ns: int
    median_ns: float
