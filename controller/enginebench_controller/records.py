"""The controller's own nouns, frozen: what comes off the wire, goes into the store and onto the page.

Durations are integer nanoseconds; instants are nanoseconds since the Unix epoch. None means unknown, never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOCAL_TARGET = "local"
"""Name of the embedded target: an agent the controller starts for one benchmark and stops afterwards."""


class Status(StrEnum):
    """How a measurement or profile ended."""

    OK = "ok"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    CANCELLED = "cancelled"


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


class Hint(StrEnum):
    """What the engine is told to optimize for."""

    NONE = "none"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    CUMULATIVE_THROUGHPUT = "cumulative"


class Load(StrEnum):
    """How requests reach the engine."""

    SYNC = "sync"
    ASYNC = "async"
    OPEN_LOOP = "open-loop"


class ArrivalProcess(StrEnum):
    """How the arrivals of an open loop are spaced."""

    CONSTANT = "constant"
    POISSON = "poisson"


class StopReason(StrEnum):
    """Why the steady state of a process ended."""

    TARGET_MET = "target_met"
    MAX_DURATION = "max_duration"


class Source(StrEnum):
    """How a read-back value was obtained."""

    ENGINE_API = "engine_api"
    OBSERVED = "observed"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class ModelFile:
    """One file of a model version; `name` is relative, as the main file refers to it."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ModelVersion:
    """One exact file set, the main file first. `parent_digest` and `derivation` tell how it was made from another."""

    digest: str
    name: str
    format: str
    files: tuple[ModelFile, ...]
    created_at_unix_ns: int
    parent_digest: str | None = None
    derivation: str | None = None

    @property
    def size_bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True)
class InputTensor:
    """One input with the shape of a run. Integers are drawn below `integer_bound`, or from {0, 1} without one."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    integer_bound: int | None = None


@dataclass(frozen=True)
class StopRule:
    """When a measurement ends: when all minima are met, or at the latest at the maximum.

    Durations and iterations are those of all processes together; each process gets an equal share. A target of 0 asks
    for no interval; `block_ns` 0 leaves the length of blocks to the worker.
    """

    min_duration_ns: int = 6_000_000_000
    min_iterations: int = 30
    max_duration_ns: int = 30_000_000_000
    warmup_ns: int = 500_000_000
    target_relative_half_width: float = 0.01
    processes: int = 3
    block_ns: int = 0
    retry_noisy: bool = False


@dataclass(frozen=True)
class Arrivals:
    """The schedule of an open loop: inferences per second, each of a whole batch."""

    rate_per_s: float
    process: ArrivalProcess = ArrivalProcess.POISSON


@dataclass(frozen=True)
class InputFile:
    """One tensor as a .npy file of exactly the shape and type of the run's input named `input`."""

    input: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class InputSet:
    """What the requests rotate through: `count` inputs drawn with a seed, or, where there are `items`, given ones.

    An item has a file for each of the model's inputs. `preparation` says how they were made from the user's files.
    """

    seed: int = 0
    count: int = 8
    name: str = "random"
    items: tuple[tuple[InputFile, ...], ...] = ()
    preparation: str = ""


@dataclass(frozen=True)
class Configuration:
    """How one model version runs on one engine: every axis a user can choose."""

    device: str
    batch: int
    cores: int
    streams: int = 1
    precision: str = "f32"
    hint: Hint = Hint.NONE
    load: Load = Load.SYNC
    requests: int = 1
    arrivals: Arrivals | None = None
    inputs: tuple[InputTensor, ...] = ()
    input_set: InputSet = InputSet()
    options: Mapping[str, str] = field(default_factory=dict)
    stop: StopRule = StopRule()


@dataclass(frozen=True)
class EngineRef:
    """An engine in an environment; `version` is None until the agent told it."""

    name: str
    environment: str
    version: str | None = None


@dataclass(frozen=True)
class Readback:
    """A value read back from an engine, with how it was obtained."""

    value: int | str
    source: Source


@dataclass(frozen=True)
class Effective:
    """What the engine really used; None where unknown. `affinity` lists logical processors."""

    threads: Readback | None = None
    streams: Readback | None = None
    precision: Readback | None = None
    provider: Readback | None = None
    isa: Readback | None = None
    affinity: tuple[int, ...] = ()


@dataclass(frozen=True)
class Phase:
    """One stretch of a run with a purpose of its own, such as "compile"."""

    name: str
    duration_ns: int
    peak_rss_bytes: int | None = None


@dataclass(frozen=True)
class Failure:
    """Why a run has no numbers: `message` is a sentence for a person, `detail` the engine's own words."""

    kind: FailureKind
    message: str
    detail: str = ""
    signal: str = ""
    exit_code: int | None = None
    stderr_tail: str = ""
    phase: str = ""


class IntervalMethod(StrEnum):
    """How a confidence interval was obtained; see stats/intervals.py."""

    BLOCKS = "order_statistics_over_blocks"
    BLOCKS_T = "t_over_blocks"
    PROCESSES_T = "t_over_processes"


@dataclass(frozen=True)
class Interval:
    """A confidence interval in the unit of what it belongs to; `level` is its nominal coverage."""

    low: float
    high: float
    level: float
    method: IntervalMethod


@dataclass(frozen=True)
class Percentile:
    """A percentile of latency, or None with fewer than `samples_needed` samples; `interval` None where unknown."""

    percent: float
    value_ns: float | None
    samples_needed: int
    interval: Interval | None = None


@dataclass(frozen=True)
class LatencySummary:
    """Statistics over the raw latencies of one measurement; None where there is too little to tell.

    `mad_ns` is the median absolute deviation from the median, not scaled. `outliers` are samples outside Tukey's
    fences, 1.5 interquartile ranges below the first or above the third quartile. `excluded` samples are kept but count
    nowhere here: those of disturbed blocks that were measured again.
    """

    samples: int
    mean_ns: float
    sd_ns: float | None
    cv: float | None
    min_ns: int
    max_ns: int
    median_ns: float
    median_interval: Interval | None
    mad_ns: float
    percentiles: tuple[Percentile, ...]
    outliers: int
    excluded: int = 0

    def percentile_ns(self, percent: float) -> float | None:
        """The value of a percentile that is among `percentiles`, else None."""
        return next((one.value_ns for one in self.percentiles if one.percent == percent), None)

    @property
    def median_relative_half_width(self) -> float | None:
        """Half the width of the median's interval ÷ the median; None without an interval."""
        interval = self.median_interval
        return (interval.high - interval.low) / 2 / self.median_ns if interval and self.median_ns else None


@dataclass(frozen=True)
class Evidence:
    """What a machine was doing during one block; None where it does not tell, and `missing` says why, by field."""

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
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A stretch of the steady state of one process. `disturbances` is empty for a clean block."""

    process: int
    index: int
    begin_ns: int
    duration_ns: int
    iterations: int
    evidence: Evidence = Evidence()
    disturbances: tuple[str, ...] = ()


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
class WarmUp:
    """How a warm-up went; `reason` says what still differed where it never became steady."""

    steady: bool
    iterations: int
    reason: str = ""


@dataclass(frozen=True)
class Calibration:
    """What measuring itself costs: a reading of the clock, and an iteration of the loop around an empty call."""

    timer_ns: float
    empty_loop_ns: float
    block_ns: int


@dataclass(frozen=True)
class Process:
    """What one of a measurement's fresh processes did.

    `drift`: by how much the latency changed between the two halves of the steady state, as a share, where that is more
    than chance; None where it stayed as it was.
    """

    index: int
    started_at_unix_ns: int | None = None
    phases: tuple[Phase, ...] = ()
    effective: Effective = Effective()
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


@dataclass(frozen=True)
class OutputCheck:
    """How one engine's outputs compare with another's on the same inputs, or what is wrong with them by themselves.

    `reference` is the measurement compared with; None for what shows without one. `problem` is a sentence, or empty
    where the outputs agree within `tolerance`, a bound on `max_relative_error`: the largest absolute difference ÷ the
    reference's largest magnitude, over all captured elements of all outputs. `cosine` is the smallest of any output.
    """

    reference: str | None
    max_absolute_error: float | None
    max_relative_error: float | None
    cosine: float | None
    tolerance: float | None
    problem: str = ""


@dataclass(frozen=True, eq=False)
class CapturedOutput:
    """What came out as `name` for the input at `input_index` of the set: every `stride`-th element, float32."""

    input_index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: int
    values: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Measurement:
    """The outcome of one configuration, over all its processes. Raw samples are kept apart, in `BlockSamples`.

    `latency` and `throughput_items_per_s` are None unless the status is ok or inconclusive. `phases` and `effective`
    are those of the first process; `iterations`, `steady_state_ns` and `cpu_time_ns` sums over all of them.
    `process_spread` is the largest median of a process ÷ the smallest, less 1; None with a single process.
    `captured_outputs` are those of the first process.
    """

    id: str
    benchmark_id: str
    target: str
    engine: EngineRef
    model_digest: str
    model_name: str
    configuration: Configuration
    status: Status
    started_at_unix_ns: int | None = None
    failure: Failure | None = None
    effective: Effective = Effective()
    phases: tuple[Phase, ...] = ()
    processes: tuple[Process, ...] = ()
    blocks: tuple[Block, ...] = ()
    iterations: int | None = None
    steady_state_ns: int | None = None
    cpu_time_ns: int | None = None
    input_set_sha256: str | None = None
    latency: LatencySummary | None = None
    throughput_items_per_s: float | None = None
    throughput_interval: Interval | None = None
    process_spread: float | None = None
    captured_outputs: tuple[CapturedOutput, ...] = ()
    interleaving_group: str | None = None


@dataclass(frozen=True)
class Layer:
    """One executed layer; `time_ns` has one entry a profiled inference."""

    name: str
    type: str
    order: int
    state: str
    time_ns: tuple[int, ...]
    calls: int
    kernel: str
    precision: str
    output_shapes: tuple[tuple[int, ...], ...]
    source_nodes: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """The outcome of one per-layer pass."""

    id: str
    name: str
    target: str
    engine: EngineRef
    model_digest: str
    model_name: str
    configuration: Configuration
    status: Status
    created_at_unix_ns: int
    failure: Failure | None = None
    effective: Effective = Effective()
    iterations: int | None = None
    profiled_latency_ns: int | None = None
    unprofiled_latency_ns: int | None = None
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """What a person asked for. `plan` is the versioned document it can be run from again."""

    id: str
    name: str
    created_at_unix_ns: int
    plan: Mapping[str, Any]
    rerun_of: str | None = None
    imported: bool = False


@dataclass(frozen=True)
class Target:
    """A machine that runs an agent; `address` is "host:port"."""

    name: str
    address: str
    added_at_unix_ns: int


@dataclass(frozen=True)
class TargetSnapshot:
    """What a target said of itself when last seen: host facts and engines as plain JSON-able data.

    `engines` entries have: name, environment, python_version, distribution, hidden, and either `available`
    (version, formats, loads, hints, multiple_streams, profiling, options, devices) or `unavailable`
    (kind, reason, detail).
    """

    target: str
    address: str
    seen_at_unix_ns: int
    host: Mapping[str, Any]
    engines: tuple[Mapping[str, Any], ...]
