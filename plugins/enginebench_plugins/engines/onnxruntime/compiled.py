"""From a model file to one ONNX Runtime session for one configuration: what it runs and tells about itself."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.devices import GRAPHICS, PACKAGE, PROVIDER, ep_device, provider_options
from enginebench_plugins.engines.onnxruntime.optimized_graph import PRODUCTS
from enginebench_plugins.engines.onnxruntime.profile import Recording
from enginebench_plugins.toolkit.engine import Inferences
from enginebench_proto.agreed.onnx_wire import MalformedModelError, declared_inputs, declared_tensors
from enginebench_proto.agreed.words import INTEGER_PRODUCTS

ELEMENT_TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(bool)": "bool",
}
"""Types whose NumPy name is not simply the text within the parentheses ("tensor(int64)")."""

FLOATING = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}

STORED = {1: "f32", 10: "f16", 16: "bf16", 2: "int8", 3: "int8", 21: "int8", 22: "int8"}
"""What weights are stored in, by the numbers of onnx.proto; the last four are integers of eight and of four bits."""


INT8 = "int8"


class CompiledSession(spec.CompiledModel):
    """A session and, when it is profiled, what it records."""

    def __init__(self, session: Any, source: spec.ModelSource, recording: Recording | None = None) -> None:
        self._session = session
        self._recording = recording
        self._inputs = _run_inputs(session.get_inputs(), source)
        _refuse_bare_bits(session.get_outputs())
        self._path = source.path
        self._profiled = False

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The session's inputs with the shapes of this run."""
        return self._inputs

    def effective(self) -> spec.Effective:
        """The providers that got nodes; precision and streams follow from how the runtime works.

        It only echoes its thread count, so threads are left to be observed.
        """
        return spec.Effective(
            streams=spec.Readback(1, spec.Source.ASSUMED),
            precision=self._precision,
            provider=spec.Readback(_providers(self._session), spec.Source.ENGINE_API),
        )

    @cached_property
    def _precision(self) -> spec.Readback[str] | None:
        stored = list(_stored(self._path))
        found = {*_floating([*self._session.get_inputs(), *self._session.get_outputs()]), *stored}
        quantized = _quantized(_operators(self._session), stored.count(INT8))
        return spec.Readback(quantized, spec.Source.ASSUMED) if quantized else _assumed(found)

    def create_request(self) -> spec.InferRequest:
        """A request; a session may be run from several threads at once."""
        if self._recording is not None:
            return RecordedRequest(self._session, self._recording)
        return SessionRequest(self._session)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """Layers from the trace, which holds every run since the session was made; the last `iterations` count.

        Raises `RuntimeError` when called again: a session's trace ends once and for all.
        """
        if self._recording is None:
            raise spec.UnsupportedSettingsError("onnxruntime profiles only what was compiled for profiling")
        if self._profiled:
            raise RuntimeError("the trace of this session has ended: compile again for another profile")
        self._profiled = True
        request = self.create_request()
        latency_ns = Inferences(inputs, iterations, between).run(request)
        layers = self._recording.layers(Path(self._session.end_profiling()), iterations)
        return spec.ModelProfile(tuple(layers), latency_ns)

    def close(self) -> None:
        """Drop the session, its threads and what it recorded."""
        if self._recording is not None and not self._profiled:
            self._session.end_profiling()  # else the runtime writes its trace as it is dropped
        del self._session
        if self._recording is not None:
            self._recording.remove()


class SessionRequest(spec.InferRequest):
    """A request that runs in the caller's thread, or started on a thread of its own.

    The runtime's `run_async` is not used: it fails with one thread and is slow with two.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._names = [output.name for output in session.get_outputs()]

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run the session; it hands out new arrays each time."""
        outputs = self._session.run(self._names, dict(inputs))
        return dict(zip(self._names, outputs, strict=True))

    def close(self) -> None:
        """End the request's thread and let go of the session."""
        super().close()
        del self._session


class RecordedRequest(SessionRequest):
    """A request of a session that writes a trace, which is to hold each of its runs."""

    def __init__(self, session: Any, recording: Recording) -> None:
        super().__init__(session)
        self._recording = recording

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run the session, and count that."""
        outputs = super().infer(inputs)
        self._recording.runs += 1
        return outputs


def _providers(session: Any) -> str:
    """The providers the nodes were given to, most nodes first: what one lacks, the processor's takes over."""
    return ",".join(name for name, _ in _nodes(session).most_common()) or str(session.get_providers()[0])


def _nodes(session: Any) -> Counter[str]:
    """How many nodes each provider was given; none before 1.24, which does not tell."""
    nodes: Counter[str] = Counter()
    if hasattr(session, "get_provider_graph_assignment_info"):
        for subgraph in session.get_provider_graph_assignment_info():
            nodes[subgraph.ep_name] += len(subgraph.get_nodes())
    return nodes


def _operators(session: Any) -> Counter[str]:
    """The operators that were given to providers, before those between integers are fused; none before 1.24."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return Counter()
    assigned = session.get_provider_graph_assignment_info()
    return Counter(node.op_type for subgraph in assigned for node in subgraph.get_nodes())


def _quantized(operators: Counter[str], weights: int) -> str | None:
    """ "int8" where products are computed in integers, with how many unless it is all; None where none are.

    They are those of operators between integers and, where activations are quantized, those with one of the `weights`
    stored so: the runtime fuses them with the DequantizeLinear before and the QuantizeLinear behind.
    """
    own = sum(operators[name] for name in INTEGER_PRODUCTS)
    others = sum(operators[name] for name in PRODUCTS)
    fused = min(max(weights - own, 0), others) if operators["QuantizeLinear"] else 0
    if not own + fused:
        return None
    return INT8 if own + fused == own + others else f"{INT8} ({own + fused} of {own + others} products)"


def _run_inputs(declared: Iterable[Any], source: spec.ModelSource) -> tuple[spec.TensorSpec, ...]:
    given = {tensor.name: tensor for tensor in source.inputs}
    inputs = tuple(given.get(each.name) or _tensor_spec(each) for each in declared)
    if unknown := sorted(given.keys() - {tensor.name for tensor in inputs}):
        raise spec.UnsupportedSettingsError(f"the model has no input named {', '.join(unknown)}")
    for tensor in inputs:
        if None in tensor.shape:
            raise spec.UnsupportedSettingsError(
                f"input {tensor.name} has open dimensions {tensor.shape}: give its shape with --shape"
            )
    return inputs


def _refuse_bare_bits(outputs: Iterable[Any]) -> None:
    """Float8 comes out as bytes; what else NumPy has no type for, the runtime refuses itself."""
    for each in outputs:
        if "float8" in each.type:
            raise spec.UnsupportedSettingsError(
                f"output {each.name} has the element type {_element_type(each)}, which cannot be read: "
                "let the model end with a conversion to float32"
            )


def _tensor_spec(declared: Any) -> spec.TensorSpec:
    shape = tuple(size if isinstance(size, int) else None for size in declared.shape)
    return spec.TensorSpec(declared.name, _element_type(declared), shape)


def _element_type(declared: Any) -> str:
    text = str(declared.type)
    return ELEMENT_TYPES.get(text) or text.removeprefix("tensor(").removesuffix(")")


def _floating(tensors: Iterable[Any]) -> Iterator[str]:
    return (FLOATING[name] for tensor in tensors if (name := _element_type(tensor)) in FLOATING)


def _stored(path: Path) -> Iterator[str]:
    """What the weights of a model are stored in.

    Only those with several dimensions, as products have: scales and the like are f32 in every model. Their content is
    stepped over, and the package onnx is not needed: not every environment has it, and the same run must not tell f32
    in one and mixed in another.
    """
    return (
        STORED[each.data_type] for each in declared_tensors(path) if len(each.dims) > 1 and each.data_type in STORED
    )


def _assumed(found: set[str]) -> spec.Readback[str] | None:
    """The model's own types, in which the runtime computes, as inputs, outputs and weights show them.

    "mixed" for several, and for an INT8 model, whose floats are only what lies between its integers: which of its
    products are computed in integers is not told. None without a float.
    """
    if not found - {"int8"}:
        return None
    return spec.Readback(found.pop() if len(found) == 1 else "mixed", spec.Source.ASSUMED)


ERRORS_ONLY = 3
"""The runtime's own number of the log severity."""


@dataclass(frozen=True)
class ReadModel:
    """A model file and the sizes of its symbolic dimensions in this run, by symbol."""

    path: Path
    symbol_sizes: Mapping[str, int]


def read_model(onnxruntime: Any, source: spec.ModelSource) -> ReadModel:
    """Find which symbols of the file the run's shapes determine; the session that is compiled reads it.

    Raises the runtime's exceptions for a file that is no model.
    """
    declared: Mapping[str, Sequence[int | str | None]]
    try:
        declared = declared_inputs(source.path)
    except MalformedModelError:
        declared = _told_inputs(onnxruntime, source.path)
    return ReadModel(source.path, _symbol_sizes(declared, source.inputs))


def _told_inputs(onnxruntime: Any, path: Path) -> Mapping[str, Sequence[int | str | None]]:
    """The inputs as a session tells them that optimizes nothing, and is dropped at once.

    Only for a file that we cannot read: the weights of such a session stay in the heap, most of the model's own size.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return {}  # the model has operators that only another provider implements; its symbols stay open
    return {one.name: one.shape for one in session.get_inputs()}


def _symbol_sizes(
    declared: Mapping[str, Sequence[int | str | None]], inputs: Iterable[spec.TensorSpec]
) -> dict[str, int]:
    """The size of every named dimension. One that would need two sizes stays open: the runtime allows that."""
    shapes = {tensor.name: tensor.shape for tensor in inputs}
    sizes: dict[str, set[int]] = {}
    for name, dims in declared.items():
        for symbol, size in zip(dims, shapes.get(name, ()), strict=False):
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

    def create(recording: Recording | None = None, *, graph: bool = False) -> Any:
        return _create_session(onnxruntime, model, settings, device, recording, graph=graph)

    if not settings.profiling:
        return CompiledSession(create(), source)
    if device.properties[PROVIDER] in GRAPHICS:
        raise spec.UnsupportedSettingsError(
            f"{device.name} cannot be profiled: ONNX Runtime tells how long it took to hand the work over, not to do it"
        )
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
    device: spec.Device,
    recording: Recording | None,
    *,
    graph: bool,
) -> Any:
    options = _session_options(onnxruntime, settings)
    if recording is not None:
        recording.switch_on(options, graph=graph)
    for symbol, size in model.symbol_sizes.items():
        options.add_free_dimension_override_by_name(symbol, size)
    provider, content = device.properties[PROVIDER], recording.model if recording is not None else str(model.path)
    if PACKAGE in device.properties:
        options.add_provider_for_devices([ep_device(onnxruntime, device)], provider_options(device))
        session = onnxruntime.InferenceSession(content, options, enable_fallback=0)
    else:
        wanted = [(provider, _provider_options(provider, settings))]
        session = onnxruntime.InferenceSession(content, options, providers=wanted)
    session.disable_fallback()
    # A provider whose libraries are missing only logs that, and the session quietly runs on the processor.
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"{provider} did not start; the session would run on {session.get_providers()[0]}")
    if (nodes := _nodes(session)) and provider not in nodes:
        raise RuntimeError(f"{provider} takes no node of this model; all would run on {', '.join(nodes)}")
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
