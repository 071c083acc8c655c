"""Configurations: every axis a user can choose for one measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
