"""The plugin contract: all that is needed to put an engine on the bench.

A plugin is a module with one hook, named by an entry point of group `enginebench`:

    [project.entry-points.enginebench]
    mine = "my_package.plugin"

The entry point's name is the engine's name: 1 to 64 letters, digits, '.', '-' or '_', and one distribution of an
environment brings it. The module is imported only in a child process of the environment it is
installed in; a raise, a crash or a hang there makes this one engine unavailable, with the reason in every list, and
touches nothing else. A complete engine, which multiplies what it reads from a text file:

    import numpy as np
    from enginebench_plugins import spec

    class Scale(spec.Engine):
        def info(self):
            return spec.EngineInfo(version="1.0", formats=frozenset({spec.ModelFormat.ONNX}), profiling=True)

        def devices(self):
            return [spec.Device(name="CPU", full_name="any processor")]

        def read(self, source):
            return float(source.path.read_text())

        def compile(self, model, source, settings):
            return CompiledScale(model, source.inputs)

    class CompiledScale(spec.CompiledModel):
        def __init__(self, factor, inputs):
            self.factor, self._inputs = factor, inputs

        @property
        def inputs(self):
            return self._inputs

        def effective(self):
            return spec.Effective(precision=spec.Readback("f32", spec.Source.ASSUMED))

        def create_request(self):
            return ScaleRequest(self.factor)

        def profile(self, inputs, iterations, between=spec.nothing):
            layer = spec.LayerProfile("scale", "Multiply", order=0, time_ns=(1000,) * iterations)
            return spec.ModelProfile(layers=(layer,), latency_ns=(1100,) * iterations)

    class ScaleRequest(spec.InferRequest):
        def __init__(self, factor):
            self.factor = factor

        def infer(self, inputs):
            return {name + "_scaled": array * self.factor for name, array in inputs.items()}

    @spec.hookimpl
    def enginebench_engine():
        return Scale()

The worker calls, in this order and in one process: `info`, `devices`, `read`, `convert`, `compile`, `effective`,
`create_request` once for every request in flight, `infer` or `start` many times, `effective` again, `close`. It does
all timing itself; a plugin times nothing except in `profile`.
"""

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pluggy

from enginebench_plugins.types import (
    Device,
    Effective,
    EngineInfo,
    EngineUnavailableError,
    FileFormat,
    Hint,
    LayerProfile,
    LayerState,
    Load,
    ModelFormat,
    ModelProfile,
    ModelSource,
    OptionSpec,
    OptionValue,
    Precision,
    Readback,
    Settings,
    Source,
    TensorSpec,
    UnsupportedSettingsError,
)

__all__ = [
    "SPEC_VERSION",
    "Between",
    "CompiledModel",
    "Device",
    "Effective",
    "Engine",
    "EngineInfo",
    "EngineUnavailableError",
    "FileFormat",
    "Hint",
    "InferRequest",
    "LayerProfile",
    "LayerState",
    "Load",
    "ModelFormat",
    "ModelProfile",
    "ModelSource",
    "OnDone",
    "OptionSpec",
    "OptionValue",
    "Outputs",
    "Precision",
    "Readback",
    "Settings",
    "Source",
    "TensorSpec",
    "Tensors",
    "UnsupportedSettingsError",
    "hookimpl",
    "hookspec",
    "nothing",
]

PROJECT_NAME = "enginebench"

SPEC_VERSION = 3
"""Of this contract; plugins of 1 and 2 need no change.

3 added `own_formats` of `EngineInfo`, and `FileFormat`.
2 added `batches`, `integer_inputs`, `mean_profiles` and `single_threaded` of `EngineInfo`, `inferences` of
`ModelProfile`, and `settings` of `ModelSource`.
"""

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)

# Arrays are `numpy.ndarray`. They are not spelled out here because this module is also imported where there is no
# NumPy: on an agent that only discovers engines.
Tensors = Mapping[str, Any]
Outputs = Mapping[str, Any]
OnDone = Callable[[Outputs | None, BaseException | None], None]
Between = Callable[[], None]
_Jobs = queue.SimpleQueue[tuple[Tensors, OnDone] | None]


def nothing() -> None:
    """What there is to do between two profiled inferences when nobody says otherwise."""


class InferRequest(ABC):
    """One slot for an inference. The worker never uses one request for two inferences at the same time."""

    _jobs: "_Jobs | None" = None  # of the thread that `start` calls `infer` on, once there is one

    @abstractmethod
    def infer(self, inputs: Tensors) -> Outputs:
        """Run once and return when every output lies whole in host memory.

        `inputs` maps every input's name to a C-contiguous array of exactly the compiled shape and dtype; the arrays
        are not to be changed, and one of another shape raises. Whoever calls may write other values into the same
        arrays for the next inference. The outputs map every output's name, as the model has it, to an array whose first
        dimension is the batch where the model has one; the request may reuse their memory for its next inference.

        The outputs are what the model computes of these very inputs, anew each time: nothing is kept from one inference
        for another, neither outputs nor what leads to them, nothing is computed ahead, and every item of a batch is
        computed, equal ones too. Raises what the engine raises, and the text reaches the user; the request can be used
        again afterwards.
        """

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        """Begin an inference and return; `on_done(outputs, None)` or `on_done(None, error)` follows, on any thread.

        It is called once every output is whole, perhaps before this returns, and may start this request's next
        inference. Override this where the engine has an asynchronous interface of its own; this default calls `infer`
        on a thread that belongs to the request.
        """
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._jobs,), name="infer-request", daemon=True).start()
        self._jobs.put((inputs, on_done))

    def close(self) -> None:
        """Release what the request holds. Called once, when nothing is in flight."""
        if self._jobs is not None:
            self._jobs.put(None)

    def _serve(self, jobs: "_Jobs") -> None:
        while (job := jobs.get()) is not None:
            inputs, on_done = job
            try:
                outputs = self.infer(inputs)
            except BaseException as error:  # carried to the worker, which types and reports it
                on_done(None, error)
            else:
                on_done(outputs, None)
                del outputs  # not held while the next inference makes its own


class CompiledModel(ABC):
    """A model made ready for one configuration."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[TensorSpec]:
        """The inputs as compiled, in the model's order, without open dimensions."""

    @abstractmethod
    def effective(self) -> Effective:
        """What the engine really uses, asked of the engine; None for what it does not tell.

        Called after `compile` and again after the measurement. Never fill in what was requested.
        """

    @abstractmethod
    def create_request(self) -> InferRequest:
        """Make a request that can be in flight together with the others."""

    usual_profile_iterations: int = 20
    """How many inferences make a profile unless somebody asks for another number."""

    compiles_for_each_profiled_inference: bool = False
    """True where no profiled inference follows another one, so that none has to be left out after other work."""

    def profile(self, inputs: Sequence[Tensors], iterations: int, between: Between = nothing) -> ModelProfile:
        """Run `iterations` inferences, rotating through `inputs`, with the engine's layer counters on.

        Only called when `EngineInfo.profiling` is true and `Settings.profiling` was set at compile time; the model is
        warm. Every layer has `iterations` times, or a state that says why not; the profile has as many latencies, or
        none. Call `between` after each of the inferences, outside its time: the worker then runs the model without
        counters, so that what changes on the machine meanwhile changes both.
        """
        raise UnsupportedSettingsError("this engine has no layer profile")

    def close(self) -> None:
        """Release the model. Called once, after all requests were closed."""
        return


class Engine(ABC):
    """An inference engine. Creating one is cheap and imports nothing heavy: import the engine inside the methods."""

    spec_version: int = 1
    """The version of the contract that the plugin was written for, the first where it says none.

    Of a newer version than `SPEC_VERSION` an engine is unavailable, with a sentence.
    """

    hidden: bool = False
    """True leaves the engine out of lists and of `all` unless it is asked for by name."""

    @abstractmethod
    def info(self) -> EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` with the reason where the engine cannot be used."""

    @abstractmethod
    def devices(self) -> Sequence[Device]:
        """The devices that are really there, through the engine's own interface.

        A `RuntimeWarning` meanwhile is told to whoever looks at the agent: that some cannot be used, and why.
        """

    @abstractmethod
    def read(self, source: ModelSource) -> Any:
        """Bring the model file into memory in the engine's (or its importer's) own form. Timed as "read".

        Called for each compilation anew, so that `convert` and `compile` may use up what it returns. What has to be
        written on the way goes where `tempfile` puts it: into a folder of this run alone, which is removed whatever
        becomes of the run.
        """

    def convert(self, model: Any, source: ModelSource) -> Any:
        """Turn what `read` returned into what `compile` takes. Timed as "convert" where a plugin overrides it.

        `source.settings` are those that `compile` will be given.
        """
        return model

    @abstractmethod
    def compile(self, model: Any, source: ModelSource, settings: Settings) -> CompiledModel:
        """Make the model ready for one configuration. Timed as "compile".

        Raises `UnsupportedSettingsError` for a setting this engine cannot honour; a setting is never ignored
        silently. Other exceptions mean that the engine cannot compile the model; their text reaches the user.
        """


@hookspec(firstresult=True)
def enginebench_engine() -> Engine:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the plugin's engine. Called once in each child that uses it."""
