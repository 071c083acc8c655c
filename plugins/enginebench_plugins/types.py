"""The data that passes between a plugin and the worker: frozen, with units in the names.

`spec.py` re-exports everything here, so a plugin imports from one module only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from enginebench_proto.agreed.names import begins_as
from enginebench_proto.agreed.words import (
    DEFAULT_DEVICE,
    PROCESSOR,
    Hint,
    LayerState,
    Load,
    ModelFormat,
    Precision,
)
from enginebench_proto.agreed.words import ReadbackSource as Source

__all__ = [
    "Device",
    "Effective",
    "EngineInfo",
    "EngineUnavailableError",
    "Hint",
    "LayerProfile",
    "LayerState",
    "Load",
    "ModelFormat",
    "ModelProfile",
    "ModelSource",
    "OptionSpec",
    "OptionValue",
    "Precision",
    "Readback",
    "Settings",
    "Source",
    "TensorSpec",
    "UnsupportedSettingsError",
]

OptionValue = bool | int | float | str
T = TypeVar("T", int, str)


@dataclass(frozen=True)
class Readback(Generic[T]):
    """A value read back from the engine after compiling, with how it was obtained.

    `Source` is `ENGINE_API` where the engine itself tells it, `OBSERVED` where it was seen at work, and `ASSUMED` where
    it follows from how the engine is made and nobody asked it.
    """

    value: T
    source: Source


@dataclass(frozen=True)
class Effective:
    """What the engine really uses. None means unknown; the worker then observes what it can (threads).

    `precision` is what most of the time is computed in: "f32", "f16", "bf16", "int8", or "mixed". `provider` is what
    runs the model within the engine, by the engine's own name ("CPUExecutionProvider"), `isa` its widest instruction
    set.
    `prepared` tells what was done to the model before the engine took it, each a short phrase without an engine's name:
    "5 weights made by Constant nodes kept as weights".
    """

    threads: Readback[int] | None = None
    streams: Readback[int] | None = None
    precision: Readback[str] | None = None
    provider: Readback[str] | None = None
    isa: Readback[str] | None = None
    prepared: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptionSpec:
    """One option on an engine's allow-list. Never an option that names a file, a library or a cache folder.

    An agent lists 64 options, and 64 choices of each, and refuses what stands behind these. One that is `profile_only`
    changes how layers are profiled, and is refused where nothing is. Two names have a meaning: `imposed_sparsity`, a
    float, is the share of weights that a profile is to take for zero, and `optimization_level`, an int from 0 on, how
    much of the graph is rewritten for it.
    """

    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    help: str
    choices: tuple[OptionValue, ...] = ()
    profile_only: bool = False


@dataclass(frozen=True)
class FileFormat:
    """A model format that a plugin brings: files that nobody but its engine reads.

    `name` is "tflite" or the like: 1 to 32 small letters, digits or '_', and none of `ModelFormat`. `suffixes` is how
    the name of the main file ends (".tflite"), `companions` how those of the files end that belong to it, beside it and
    called like it (".bin": net.bin beside net.param); all in small letters, each one point and what follows.
    `begins` are places and bytes of which one stands in every such main file; without any, only the name tells.
    Where loading a file can run code that came with it, `runs_code` has it refused unless the machine's owner trusts
    it.
    """

    name: str
    suffixes: tuple[str, ...]
    companions: tuple[str, ...] = ()
    begins: tuple[tuple[int, bytes], ...] = ()
    runs_code: bool = False

    def begins_in(self, path: Path) -> bool:
        """Whether the file at `path` begins as one of this format does. Raises `OSError`."""
        return begins_as(path, self.begins)


@dataclass(frozen=True)
class EngineInfo:
    """What an engine is and can do, as far as it can be told without a model.

    `version` has 1 to 100 characters, and every engine takes the load sync and the hint none. `own_formats` are those
    that it reads besides `formats` and that nobody else does. `batches` are the only batch sizes it can run, where it
    cannot run any: (1,) runs one item at a time, and every other batch is refused before a model is read. An agent
    lists 4096 of them. `integer_inputs` is False where inputs are floating-point numbers only.

    With `mean_profiles`, profile() brings means over its inferences, which every layer then has for each of them, and
    `between` may be called at any time or never; the bench keeps one mean a layer, and shows no interval of it. An
    engine that chooses the number of inferences itself tells it as `ModelProfile.inferences`.

    With `single_threaded`, an inference runs on one thread: more cores than there are requests in flight are refused
    before a model is read, or left out of a plan.
    """

    version: str
    formats: frozenset[ModelFormat] = frozenset()
    loads: frozenset[Load] = frozenset({Load.SYNC, Load.ASYNC})
    hints: frozenset[Hint] = frozenset({Hint.NONE})
    multiple_streams: bool = False
    profiling: bool = False
    options: tuple[OptionSpec, ...] = ()
    batches: tuple[int, ...] = ()
    integer_inputs: bool = True
    mean_profiles: bool = False
    single_threaded: bool = False
    own_formats: tuple[FileFormat, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The names of all formats that it reads."""
        return self.formats | {one.name for one in self.own_formats}


@dataclass(frozen=True)
class Device:
    """Something the engine can run on, by the engine's own name for it.

    Every device has a name of its own, a full name, precisions and resources, the last in small letters. An agent lists
    64 devices, with names of 100 characters.
    `resources` are the physical parts that compute ("cpu", "cuda:0"). Whatever they are, an agent has one run, or group
    of runs that take turns, at a time: the processor feeds all of them.
    `properties` are further facts in the engine's own words.
    """

    name: str
    full_name: str
    precisions: tuple[Precision, ...] = (Precision.F32,)
    resources: tuple[str, ...] = (PROCESSOR,)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorSpec:
    """Name, NumPy element type (such as "float32") and shape of an input or output; None is an open dimension."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class ModelSource:
    """The model's main file in a private folder (further files beside it), and the input shapes of this run.

    `format` is a `ModelFormat`, or the name of one of the engine's own. `inputs` has no open dimension. It is empty
    when the caller could not know the inputs; the model's own, fixed shapes then hold. In a format of the engine's own
    it holds what was given and no more: `toolkit.engine.own_inputs` makes the model's inputs of it. `settings` are
    those that `compile` is given, for an importer or converter that has to know the precision or the number of threads;
    None where nobody compiles.
    """

    path: Path
    format: ModelFormat | str
    inputs: tuple[TensorSpec, ...] = ()
    settings: "Settings | None" = None


@dataclass(frozen=True)
class Settings:
    """How to compile: one configuration, already checked against `EngineInfo` and `Device`.

    The worker has confined the process to `cores` physical cores before the engine was imported; an engine keeps to
    them, with all threads that work for it, those of its processes too: requests divide them or take turns.
    `requests` is the number that will be in flight at once (1 when synchronous).
    """

    device: str = DEFAULT_DEVICE
    batch: int = 1
    cores: int = 1
    streams: int = 1
    precision: Precision = Precision.F32
    hint: Hint = Hint.NONE
    load: Load = Load.SYNC
    requests: int = 1
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    profiling: bool = False


@dataclass(frozen=True)
class LayerProfile:
    """One executed layer over all profiled inferences, weights and what runs within another layer's time left out.

    No two layers of a profile have the same `name`. A node that became part of another layer is named by that one
    alone, or is a layer that is `OPTIMIZED_AWAY`; `precision` is the engine's own word for its element type ("f32",
    "FP16", "i8"), empty where it tells none, and `output_shapes` are as the engine lays them out.
    `time_ns` has one entry an inference, summed over the layer's calls within it; it is empty unless the layer was
    executed. `source_nodes` are the nodes or tensors of the model as given that the engine names as its origin.
    `inputs` and `outputs` name the tensors it reads and writes in the graph that the engine runs, as far as it tells:
    they connect the layers, and where a name is one of the model's own, they tell where a layer begins or ends in it.
    `parameters` is what else the engine tells of how the layer runs, in its own words.
    """

    name: str
    type: str
    order: int
    state: LayerState = LayerState.EXECUTED
    time_ns: tuple[int, ...] = ()
    calls: int = 1
    kernel: str = ""
    precision: str = ""
    output_shapes: tuple[tuple[int, ...], ...] = ()
    source_nodes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelProfile:
    """What a pass with the layer counters on brought.

    `latency_ns` is the wall clock of each of these very inferences, counters included: against the latency without
    counters it tells what profiling costs. It is empty where the engine does not show single inferences. `inferences`
    is for `EngineInfo.mean_profiles` alone: over how many the means are, where these are not as many as asked for.
    """

    layers: tuple[LayerProfile, ...]
    latency_ns: tuple[int, ...] = ()
    inferences: int | None = None


class EngineUnavailableError(Exception):
    """The engine cannot be used here. The text is one sentence with the remedy, for the person who lists engines."""

    def __init__(self, reason: str, *, installed: bool = True) -> None:
        """`installed` is False when the engine's own package is simply absent from this environment."""
        super().__init__(reason)
        self.installed = installed


class UnsupportedSettingsError(Exception):
    """The engine cannot do what the settings ask for. The text says which setting and why."""
