"""From a model file to one ONNX Runtime session for one configuration."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.onnxruntime.devices import PROVIDER
from enginebench_plugins.onnxruntime.recording import Recording
from enginebench_plugins.onnxruntime.session import CompiledSession

ERRORS_ONLY = 3
"""The runtime's own number of the log severity."""


@dataclass(frozen=True)
class ReadModel:
    """A model file and the sizes of its symbolic dimensions in this run, by symbol."""

    path: Path
    symbol_sizes: Mapping[str, int]


def read_model(onnxruntime: Any, source: spec.ModelSource) -> ReadModel:
    """Let the runtime read the file, and find which of its symbols the run's shapes determine.

    Raises the runtime's exceptions for a file that is no model.
    """
    return ReadModel(source.path, _symbol_sizes(_declared_inputs(onnxruntime, source.path), source.inputs))


def _declared_inputs(onnxruntime: Any, path: Path) -> Sequence[Any]:
    """The inputs as the model declares them, from a session that optimizes nothing and is dropped at once."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return []  # the model has operators that only another provider implements; its symbols stay open
    inputs: Sequence[Any] = session.get_inputs()
    return inputs


def _symbol_sizes(declared: Iterable[Any], inputs: Iterable[spec.TensorSpec]) -> dict[str, int]:
    """The size of every named dimension. One that would need two sizes stays open: the runtime allows that."""
    shapes = {tensor.name: tensor.shape for tensor in inputs}
    sizes: dict[str, set[int]] = {}
    for each in declared:
        for symbol, size in zip(each.shape, shapes.get(each.name, ()), strict=False):
            if isinstance(symbol, str) and size is not None:
                sizes.setdefault(symbol, set()).add(size)
    return {symbol: found.pop() for symbol, found in sizes.items() if len(found) == 1}


def compile_session(
    onnxruntime: Any,
    model: ReadModel,
    source: spec.ModelSource,
    settings: spec.Settings,
    device: spec.Device,
) -> CompiledSession:
    """A session with exactly the device's provider, its symbolic dimensions set to the shapes of this run."""
    provider = device.properties[PROVIDER]

    def create(recording: Recording | None = None, *, graph: bool = False) -> Any:
        return _create_session(onnxruntime, model, settings, provider, recording, graph=graph)

    if not settings.profiling:
        return CompiledSession(create(), source)
    recording = Recording(model.path)
    try:
        return CompiledSession(_create_recorded(create, recording), source, recording)
    except BaseException:
        recording.remove()
        raise


def _create_recorded(create: Callable[..., Any], recording: Recording) -> Any:
    """A session that writes its trace and, where it can, its graph."""
    try:
        session = create(recording, graph=True)
        recording.read_graph()
    except Exception as error:
        # Nodes that a provider compiled cannot be saved, and a disk may be full. What else is wrong shows again.
        session = create(recording)
        warnings.warn(f"layers will have no tensors: {error}", RuntimeWarning, stacklevel=1)
    return session


def _create_session(
    onnxruntime: Any,
    model: ReadModel,
    settings: spec.Settings,
    provider: str,
    recording: Recording | None,
    *,
    graph: bool,
) -> Any:
    options = _session_options(onnxruntime, settings)
    if recording is not None:
        recording.switch_on(options, graph=graph)
    for symbol, size in model.symbol_sizes.items():
        options.add_free_dimension_override_by_name(symbol, size)
    wanted = [(provider, _provider_options(provider, settings))]
    content = recording.model if recording is not None else str(model.path)
    session = onnxruntime.InferenceSession(content, options, providers=wanted)
    session.disable_fallback()
    # A provider whose libraries are missing only logs that, and the session quietly runs on the processor.
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"{provider} did not start; the session would run on {session.get_providers()[0]}")
    return session


def _session_options(onnxruntime: Any, settings: spec.Settings) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = settings.cores
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    _apply(onnxruntime, options, settings)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def _apply(onnxruntime: Any, options: Any, settings: spec.Settings) -> None:
    given = settings.options
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = {
        "disabled": levels.ORT_DISABLE_ALL,
        "basic": levels.ORT_ENABLE_BASIC,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "all": levels.ORT_ENABLE_ALL,
    }[str(given.get("graph_optimization_level", "all"))]
    if "cpu_mem_arena" in given:
        options.enable_cpu_mem_arena = given["cpu_mem_arena"]
    if "mem_pattern" in given:
        options.enable_mem_pattern = given["mem_pattern"]
    if "intra_op_spinning" in given:
        options.add_session_config_entry("session.intra_op.allow_spinning", _flag(given["intra_op_spinning"]))
    if "denormals_as_zero" in given:
        options.add_session_config_entry("session.set_denormal_as_zero", _flag(given["denormals_as_zero"]))


def _provider_options(provider: str, settings: spec.Settings) -> dict[str, str]:
    # On tensor cores CUDA rounds f32 factors to ten bits (TF32) unless told not to; who asks for f32 gets f32.
    if provider == "CUDAExecutionProvider" and settings.precision is spec.Precision.F32:
        return {"use_tf32": "0"}
    return {}


def _flag(value: spec.OptionValue) -> str:
    return "1" if value else "0"
