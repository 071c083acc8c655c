"""What every engine does alike: import its package, refuse what it does not offer, close its inputs, time profiles."""

import importlib
import platform
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_proto.agreed import processor
from enginebench_proto.agreed.processor import ROOT


def imported(module: str, called: str, missing: str, broken: str = "") -> Any:
    """The module of an engine that people know as `called`.

    Raises `EngineUnavailableError` where it is not installed, with what to do then (`missing`), or does not load, with
    what to do then (`broken`, by default the same).
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: its library does not fit this machine
        absent = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if absent == module.partition(".")[0]:
            raise spec.EngineUnavailableError(f"{called} is not installed here: {missing}", installed=False) from error
        raise spec.EngineUnavailableError(
            f"{called} is installed but does not load ({error}): {broken or missing}"
        ) from error


def processor_name(root: Path = ROOT) -> str:
    """The name its owner knows the processor by ("AMD EPYC 7763"), else the machine's architecture."""
    return processor.processor_name(root) or platform.machine()


def refuse_other_shapes(inputs: spec.Tensors, compiled: Sequence[spec.TensorSpec]) -> None:
    """Raise `ValueError` for an array of another shape than was compiled, for an engine that would take it."""
    for one in compiled:
        if (shape := tuple(inputs[one.name].shape)) != one.shape:
            raise ValueError(f"{one.name} has the shape {shape}, and the model is compiled for {one.shape}")


@dataclass(frozen=True)
class Inferences:
    """So many inferences, one after the other, rotating through `inputs`, with `between` called after each."""

    inputs: Sequence[spec.Tensors]
    count: int
    between: spec.Between = spec.nothing

    def run(
        self, request: spec.InferRequest, after_each: Callable[[int], None] = lambda _inference: None
    ) -> tuple[int, ...]:
        """The nanoseconds each took. `after_each` reads counters after the inference of this number."""
        latency_ns = []
        for inference in range(self.count):
            tensors = self.inputs[inference % len(self.inputs)]
            begin_ns = time.perf_counter_ns()
            request.infer(tensors)
            latency_ns.append(time.perf_counter_ns() - begin_ns)
            after_each(inference)
            self.between()
        return tuple(latency_ns)


def refuse_unsupported(
    engine: str, info: spec.EngineInfo, devices: Sequence[spec.Device], settings: spec.Settings
) -> spec.Device:
    """The device the settings name. Raises `UnsupportedSettingsError` for anything beyond `info` and `devices`."""
    device = next((each for each in devices if each.name == settings.device), None)
    if device is None:
        names = ", ".join(each.name for each in devices)
        raise spec.UnsupportedSettingsError(f"{engine} has no device {settings.device}; it has {names}")
    offered = {spec.Precision.DEFAULT, *device.precisions}
    if settings.precision not in offered:
        _refuse(engine, "precision", settings.precision, offered)
    if settings.hint not in info.hints:
        _refuse(engine, "hint", settings.hint, info.hints)
    if settings.load not in info.loads:
        _refuse(engine, "load", settings.load, info.loads)
    if info.batches and settings.batch not in info.batches:
        offered_batches = ", ".join(map(str, info.batches))
        raise spec.UnsupportedSettingsError(f"{engine} runs batches of {offered_batches}, not of {settings.batch}")
    if settings.streams > 1 and not info.multiple_streams:
        raise spec.UnsupportedSettingsError(f"{engine} runs one stream, not {settings.streams}")
    if info.single_threaded and settings.cores > settings.requests:
        raise spec.UnsupportedSettingsError(
            f"{engine} runs an inference on one thread: {settings.cores} cores need as many requests in flight, "
            f"not {settings.requests}"
        )
    for name, value in settings.options.items():
        _refuse_option(engine, info.options, name, value)
        if not settings.profiling and any(each.name == name and each.profile_only for each in info.options):
            raise spec.UnsupportedSettingsError(f"option {name} of {engine} is for profiles only")
    return device


def own_inputs(
    declared: Sequence[spec.TensorSpec], source: spec.ModelSource, batch: int
) -> tuple[spec.TensorSpec, ...]:
    """The inputs of this run for a model in a format of the engine's own, whose file has the `declared` ones.

    A shape that was given holds, whatever the file says: whether the engine can run it is the engine's to say. Else an
    open first dimension is the batch. Raises `UnsupportedSettingsError` for another open dimension, for a shape of an
    input that is not there, and for a batch that none of them has.
    """
    given = {tensor.name: tensor.shape for tensor in source.inputs}
    if strangers := sorted(given.keys() - {tensor.name for tensor in declared}):
        names = ", ".join(tensor.name for tensor in declared)
        raise spec.UnsupportedSettingsError(f"{strangers[0]} is no input of this model; it has {names}")
    inputs = tuple(replace(each, shape=given.get(each.name) or _with_batch(each.shape, batch)) for each in declared)
    for tensor in inputs:
        if None in tensor.shape:
            example = "x".join("?" if size is None else str(size) for size in tensor.shape)
            raise spec.UnsupportedSettingsError(
                f"input {tensor.name} has open dimensions: give its sizes, --shape {tensor.name}={example}"
            )
    if batch != 1 and not any(tensor.shape[:1] == (batch,) for tensor in inputs):
        sizes = ", ".join(f"{tensor.name} is {'x'.join(map(str, tensor.shape))}" for tensor in inputs)
        raise spec.UnsupportedSettingsError(f"no input of this model has the batch {batch}: {sizes}")
    return inputs


def _with_batch(shape: tuple[int | None, ...], batch: int) -> tuple[int | None, ...]:
    return (batch, *shape[1:]) if shape[:1] == (None,) else shape


def _refuse(engine: str, what: str, wanted: str, offered: Collection[str]) -> None:
    raise spec.UnsupportedSettingsError(
        f"{engine} does not offer the {what} {wanted} here; it offers {', '.join(sorted(offered))}"
    )


def _refuse_option(engine: str, options: Sequence[spec.OptionSpec], name: str, value: spec.OptionValue) -> None:
    option = next((each for each in options if each.name == name), None)
    if option is None:
        known = ", ".join(each.name for each in options) or "none"
        raise spec.UnsupportedSettingsError(f"{engine} has no option {name}; its options: {known}")
    if type(value) is not option.type:
        raise spec.UnsupportedSettingsError(f"option {name} of {engine} is a {option.type.__name__}, not {value!r}")
    if option.choices and value not in option.choices:
        choices = ", ".join(map(str, option.choices))
        raise spec.UnsupportedSettingsError(f"option {name} of {engine} is one of {choices}, not {value!r}")
