"""Configurations: every axis a user can choose for one measurement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from enginebench_proto.agreed.words import DEFAULT_DEVICE, IMPOSED_SPARSITY, OPTIMIZATION_LEVEL, Hint, Load

_MOST_DIGITS = 9
"""Of a level: what its column holds."""


class ArrivalProcess(StrEnum):
    """How the arrivals of an open loop are spaced."""

    CONSTANT = "constant"
    POISSON = "poisson"


@dataclass(frozen=True)
class InputTensor:
    """One input with the shape of a run. Integers are drawn below `integer_bound`, or from {0, 1} without one.

    `batch_axis` is the dimension that holds the items of the batch; None for an input without one, such as a scalar.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    integer_bound: int | None = None
    batch_axis: int | None = 0

    @property
    def items(self) -> int | None:
        """How many items of the batch it holds; None where none of its dimensions is the batch."""
        has_batch = self.batch_axis is not None and self.batch_axis < len(self.shape)
        return self.shape[self.batch_axis or 0] if has_batch else None

    def with_items(self, items: int) -> "InputTensor":
        """The same input with so many items of the batch; itself where it has none."""
        if self.items is None:
            return self
        return replace(self, shape=tuple(items if axis == self.batch_axis else n for axis, n in enumerate(self.shape)))


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

    def __str__(self) -> str:
        """As tables have it: "50/s poisson"."""
        return f"{self.rate_per_s:g}/s {self.process}"


@dataclass(frozen=True)
class InputFile:
    """One tensor as a .npy file of exactly the shape and type of the run's input named `input`."""

    input: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class InputValues:
    """What a person fills the input named `input` with: one number, or numbers drawn from a range, both ends included.

    They are integers for integers and bools, else floating-point numbers.
    """

    input: str
    lowest: int | float
    highest: int | float

    @property
    def is_constant(self) -> bool:
        """Whether every element is the same number."""
        return self.lowest == self.highest

    def __str__(self) -> str:
        """As `--input` takes it: "sr=16000", "ids=0..30521"."""
        return f"{self.input}={self.lowest}" + ("" if self.is_constant else f"..{self.highest}")


@dataclass(frozen=True)
class InputSet:
    """What the requests rotate through: `count` inputs drawn with a seed, or, where there are `items`, given ones.

    An item has a file for each of the model's inputs, but for those whose `values` were said. `preparation` says how
    they were made from the user's files.
    """

    seed: int = 0
    count: int = 8
    name: str = "random"
    items: tuple[tuple[InputFile, ...], ...] = ()
    preparation: str = ""
    values: tuple[InputValues, ...] = ()

    def is_constant(self, inputs: Sequence[InputTensor]) -> bool:
        """Whether every input of a model, of which there is one at least, has the same content throughout the set."""
        constant = {one.input for one in self.values if one.is_constant}
        return bool(inputs) and all(one.name in constant for one in inputs)


def place_of(cores: int, cluster: str = "") -> int | str:
    """Cores as `--cores` takes them: 2, or "big:2" of a kind."""
    return f"{cluster}:{cores}" if cluster else cores


def cores_in_words(cores: int, cluster: str = "") -> str:
    """ "2 cores", or "1 big core" of a kind."""
    kind = f"{cluster} " if cluster else ""
    return f"{cores} {kind}{'core' if cores == 1 else 'cores'}"


@dataclass(frozen=True)
class Configuration:
    """How one model version runs on one engine: every axis a user can choose.

    `cluster` is the kind of the `cores`, by its name in the target's facts; "" for the fastest ones, whatever they are.
    """

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
    output_batch_axes: Mapping[str, int] = field(default_factory=dict)
    """Which dimension of an output is the batch, as far as the model's own names tell."""
    cluster: str = ""

    @property
    def place(self) -> int | str:
        """The cores as `--cores` takes them: 2, or "big:2"."""
        return place_of(self.cores, self.cluster)

    @property
    def cores_in_words(self) -> str:
        """The cores as sentences have them: "2 cores", "1 big core"."""
        return cores_in_words(self.cores, self.cluster)

    @property
    def size(self) -> str:
        """Batch and cores in words, as sentences and headings about one configuration have them."""
        return f"batch {self.batch}, {self.cores_in_words}"

    @property
    def place_and_size(self) -> str:
        """The same, behind the device where that is not the usual one."""
        return self.size if self.device == DEFAULT_DEVICE else f"{self.device}, {self.size}"

    @property
    def load_in_words(self) -> str:
        """How requests reach the engine: "sync", "async 4" or "open-loop 50/s poisson"."""
        if self.arrivals is not None:
            return f"{self.load} {self.arrivals}"
        return str(self.load) if self.load is Load.SYNC else f"async {self.requests}"

    @property
    def settings_in_words(self) -> tuple[str, ...]:
        """What was asked of the engine beside its load, and is no default: "4 streams", "hint latency", "level=low"."""
        streams = [f"{self.streams} streams"] if self.streams > 1 else []
        hint = [] if self.hint is Hint.NONE else [f"hint {self.hint}"]
        return (*streams, *hint, *(f"{name}={value}" for name, value in sorted(self.options.items())))

    @property
    def in_words(self) -> str:
        """Place and size, and of load and settings what is no default: "batch 1, 2 cores, async 4, hint latency"."""
        load = () if self.load is Load.SYNC else (self.load_in_words,)
        return ", ".join((self.place_and_size, *load, *self.settings_in_words))

    @property
    def imposed_sparsity(self) -> float | None:
        """The share of weights that the engine is to take for zero, 0 included; None where it is asked for no share."""
        try:
            share = float(self.options.get(IMPOSED_SPARSITY, ""))
        except ValueError:  # not given, or of an engine that means something else by it
            return None
        return share if 0 <= share <= 1 else None

    @property
    def optimization_level(self) -> int | None:
        """How much the engine is to rewrite the graph, from 0 on; None where it is asked for no such number."""
        chosen = self.options.get(OPTIMIZATION_LEVEL, "")
        return int(chosen) if chosen.isdecimal() and len(chosen) <= _MOST_DIGITS else None

    def output_batch_axis(self, name: str, shape: tuple[int, ...]) -> int | None:
        """Which dimension of an output holds the items of the batch; None where none can be told to.

        As the model's names say; else where the inputs have it; else, unless that is in front, the only dimension of
        the batch's size.
        """
        named = self.output_batch_axes.get(name)
        if named is not None and named < len(shape) and shape[named] == self.batch:
            return named
        axes = dict.fromkeys(one.batch_axis for one in self.inputs if one.items is not None) or {0: None}
        for axis in axes:
            if axis is not None and axis < len(shape) and shape[axis] == self.batch:
                return axis
        return shape.index(self.batch) if 0 not in axes and shape.count(self.batch) == 1 else None
