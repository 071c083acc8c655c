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
    """A measurement ends when both minima are met, or at the latest at the maximum."""

    min_duration_ns: int = 5_000_000_000
    min_iterations: int = 10
    max_duration_ns: int = 60_000_000_000
    warmup_ns: int = 1_000_000_000


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
    inputs: tuple[InputTensor, ...] = ()
    input_seed: int = 0
    input_count: int = 8
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


@dataclass(frozen=True)
class LatencySummary:
    """Statistics over the raw latencies of one measurement. A percentile with too few samples behind it is None."""

    samples: int
    mean_ns: float
    sd_ns: float | None
    min_ns: int
    max_ns: int
    median_ns: float
    p90_ns: float | None
    p95_ns: float | None
    p99_ns: float | None


@dataclass(frozen=True, eq=False)
class Measurement:
    """The outcome of one configuration. `samples_ns`: int64 array of shape (iterations,), in order of completion.

    `latency` and `throughput_items_per_s` are None unless the status is ok or inconclusive.
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
    iterations: int | None = None
    steady_state_ns: int | None = None
    cpu_time_ns: int | None = None
    input_set_sha256: str | None = None
    latency: LatencySummary | None = None
    throughput_items_per_s: float | None = None
    samples_ns: NDArray[np.int64] | None = None


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
