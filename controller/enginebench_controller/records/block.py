"""Blocks: stretches of a steady state, with their evidence and their raw samples."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Evidence:
    """What a machine was doing during one block; None where it does not tell, and `missing` says why, by field.

    `reference_product_ns` and `reference_stream_ns` are what the same fixed work took just before it.
    """

    cpu_time_ns: int | None = None
    other_cpu_time_ns: int | None = None
    steal_ns: int | None = None
    involuntary_switches: int | None = None
    cpu_pressure_ns: int | None = None
    memory_pressure_ns: int | None = None
    io_pressure_ns: int | None = None
    throttled_ns: int | None = None
    min_frequency_hz: int | None = None
    max_frequency_hz: int | None = None
    temperature_millicelsius: int | None = None
    energy_uj: int | None = None
    governor: str | None = None
    turbo: bool | None = None
    power_supply: str | None = None
    reference_product_ns: int | None = None
    reference_stream_ns: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A stretch of the steady state of one process. `disturbances` is empty for a clean block.

    `paused_ns`: how long the process stood still while inferences of the block were under way; such a block counts
    nowhere. None where nobody tells.
    """

    process: int
    index: int
    begin_ns: int
    duration_ns: int
    iterations: int
    evidence: Evidence = Evidence()
    disturbances: tuple[str, ...] = ()
    paused_ns: int | None = None


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
