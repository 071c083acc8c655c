"""From a model to a compiled network: settings as properties of the device, what it tells, and its requests' life."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.devices import (
    AUTO,
    PREPARED,
    SHARED_MEMORY,
    import_openvino,
    supported_properties,
)
from enginebench_plugins.engines.openvino.profile import profile_layers
from enginebench_plugins.engines.openvino.request import OpenVinoConcurrentRequest, OpenVinoRequest
from enginebench_plugins.engines.openvino.runtime_model import (
    OriginalNames,
    batched_requests,
    executed_isa,
    executed_precision,
    has_known_shapes,
    original_names,
    runtime_layers,
)
from enginebench_plugins.toolkit.engine import Inferences

RESULT = "/sink_port_0"
"""What OpenVINO adds to an output's name to call the node that hands it out."""
BFLOAT16 = "bf16"


class CompiledOpenVino(spec.CompiledModel):
    """A network compiled for one configuration; `compile_with` compiles the model with other settings.

    `model` is the one that is compiled. Its ports have the names by which the network is fed and read: a compiled port
    has those of every tensor that optimizing put in its place, too. `names` are the operations of the model as read,
    which a profile needs.
    """

    def __init__(
        self,
        compile_with: Callable[[spec.Settings], Any],
        model: Any,
        settings: spec.Settings,
        names: OriginalNames | None = None,
    ) -> None:
        self._compile_with = compile_with
        self._names = names or OriginalNames()
        self._settings = settings
        self._prepared: tuple[str, ...] = (
            (str(model.get_rt_info(PREPARED).value),) if model.has_rt_info(PREPARED) else ()
        )
        self._stateful = bool(model.get_variables())
        if self._stateful:
            self._prepared += ("its state is reset before each inference, within its latency",)
        self._network = compile_with(settings)
        # Compiling is the longest part of a profile, and belongs to the time of compiling.
        self._unused = compile_with(self._one_stream()) if settings.profiling else None
        # The first conversion of an element type fills a table under a C++ lock that does not know the interpreter's:
        # two requests that came to it together, each on its thread, waited for each other for ever (2026.4).
        self._input_names = port_names(model.inputs)
        self._output_names = port_names(model.outputs)
        self._inputs = [
            _tensor_spec(name, port) for name, port in zip(self._input_names, self._network.inputs, strict=True)
        ]
        _refuse_unreadable(self._output_names, self._network.outputs)

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The inputs, in the model's order."""
        return self._inputs

    def effective(self) -> spec.Effective:
        """All of it from the compiled network, none of it an echo.

        Streams and threads are what the device settled on: the CPU cuts 64 down to the processors it may use.
        INFERENCE_PRECISION_HINT is only what was allowed; the precisions of the layers are what was chosen.
        """
        devices = _devices(self._network, *_COUNTS)
        layers = runtime_layers(self._network)
        threads, streams = (_total(devices, name) for name in _COUNTS)
        return spec.Effective(
            threads=_stated(threads),
            streams=_stated(streams),
            precision=_stated(executed_precision(layers)),
            provider=_stated(_provider(self._network)),
            isa=_stated(executed_isa(layers)),
            prepared=self._prepared,
        )

    def create_request(self) -> spec.InferRequest:
        """A request for the load the network was compiled for."""
        single = self._settings.load is spec.Load.SYNC and has_known_shapes(runtime_layers(self._network))
        return self._request(self._network, OpenVinoRequest if single else OpenVinoConcurrentRequest)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """Layers from the performance counters of a second network, whose every inference is known.

        It is one stream of the first, with that stream's share of the threads: each stream has counters of its own,
        and which one an inference ran on cannot be told.
        """
        if not self._settings.profiling:
            raise spec.UnsupportedSettingsError("openvino profiles only what was compiled for profiling")
        network, self._unused = self._unused or self._compile_with(self._one_stream()), None
        request = self._request(network, OpenVinoRequest)
        try:
            return profile_layers(network, request, self._names, Inferences(inputs, iterations, between))
        finally:
            request.close()

    def close(self) -> None:
        """Drop the network."""
        del self._network, self._unused, self._compile_with

    def _one_stream(self) -> spec.Settings:
        effective = self.effective()
        streams = effective.streams.value if effective.streams else 1
        threads = effective.threads.value if effective.threads else self._settings.cores
        if streams == 1:
            return self._settings
        return replace(self._settings, hint=spec.Hint.NONE, streams=1, cores=max(1, threads // streams))

    def _request(self, network: Any, kind: type[OpenVinoRequest]) -> OpenVinoRequest:
        shared = bool(self._settings.options.get(SHARED_MEMORY, True))
        tensor = _wrapper() if shared and all(map(_holds_arrays, network.inputs)) else None
        request = network.create_infer_request()
        return kind(
            request,
            self._input_names,
            self._output_names,
            shared=shared,
            tensor=tensor,
            stateful=self._stateful,
            bfloat16_inputs=_bfloat16(self._input_names, network.inputs),
            bfloat16_outputs=_bfloat16(self._output_names, network.outputs),
        )


def port_names(ports: Sequence[Any]) -> list[str]:
    """The names of a model's inputs or outputs, in its order.

    A port of an IR file may have several, those of other tensors among them: the one that its node bears is the
    model's. Without it the first that no port before has; without any, the node's stands in.
    """
    names: list[str] = []
    for port in ports:
        own = str(port.node.get_friendly_name()).removesuffix(RESULT)
        known = sorted(port.names)
        choice = [own, *known] if own in known or not known else known
        names.append(next((name for name in choice if name not in names), choice[0]))
    return names


def _wrapper() -> Callable[[Any], Any]:
    """What makes a tensor of an array where it lies."""
    return partial(import_openvino().Tensor, shared_memory=True)


def _holds_arrays(port: Any) -> bool:
    """Whether NumPy has the element type of a port: neither strings nor bfloat16, nor what is less than a byte.

    Of those OpenVINO tells a type of NumPy's that has room for the bits, and means something else.
    """
    element_type = port.get_element_type()
    dtype = element_type.to_dtype()
    return dtype.kind in "biuf" and import_openvino().Type(dtype) == element_type


def _bfloat16(names: Sequence[str], ports: Sequence[Any]) -> tuple[str, ...]:
    return tuple(name for name, port in zip(names, ports, strict=True) if _type_name(port) == BFLOAT16)


def _refuse_unreadable(names: Sequence[str], ports: Sequence[Any]) -> None:
    """Raise `UnsupportedSettingsError` for outputs whose elements would come out as bare bits."""
    for name, port in zip(names, ports, strict=True):
        if not _holds_arrays(port) and _type_name(port) not in {BFLOAT16, "string"}:
            raise spec.UnsupportedSettingsError(
                f"output {name} has the element type {_type_name(port)}, which cannot be read: "
                "let the model end with a conversion to float32"
            )


def _type_name(port: Any) -> str:
    return str(port.get_element_type().get_type_name())


def _tensor_spec(name: str, port: Any) -> spec.TensorSpec:
    told = _type_name(port)
    if _holds_arrays(port) or told == "string":
        dtype = str(port.get_element_type().to_dtype())
    else:  # "i4" alone would be an int32 to NumPy
        dtype = "bfloat16" if told == BFLOAT16 else f"OpenVINO {told}"
    return spec.TensorSpec(name, dtype, tuple(port.get_shape()))


def _provider(network: Any) -> str:
    """The devices that execute ("CPU"), and how many requests they join where they batch by themselves.

    A GPU under the hint throughput does so, and AUTO where it chose one: "BATCH:GPU.0(8)".
    """
    devices = ",".join(network.get_property("EXECUTION_DEVICES"))
    joined = batched_requests(network)
    return f"BATCH:{devices}({joined})" if joined > 1 else devices


_COUNTS = ("INFERENCE_NUM_THREADS", "NUM_STREAMS")


def _devices(network: Any, *names: str) -> list[dict[str, Any]]:
    """These properties of each device that executes: the network's own, or nested by device under AUTO and BATCH."""
    known = network.get_property("SUPPORTED_PROPERTIES")
    # BATCH tells its device's properties, and does not say that it does.
    if known.keys() & {"DEVICE_PROPERTIES", "AUTO_BATCH_TIMEOUT"}:
        nested: dict[str, dict[str, Any]] = network.get_property("DEVICE_PROPERTIES")
        # A device in parentheses only helps out until another one is ready.
        executing = {name.strip("()") for name in network.get_property("EXECUTION_DEVICES")}
        return [properties for name, properties in nested.items() if name in executing]
    return [{name: network.get_property(name) for name in names if name in known}]


def _total(devices: Sequence[dict[str, Any]], name: str) -> int | None:
    """The sum over the devices that have this property; None when none has it or it counts none."""
    return sum(int(properties[name]) for properties in devices if name in properties) or None


def _stated(value: Any) -> spec.Readback[Any] | None:
    return spec.Readback(value, spec.Source.ENGINE_API) if value else None


HINTS = {
    spec.Hint.LATENCY: "LATENCY",
    spec.Hint.THROUGHPUT: "THROUGHPUT",
    spec.Hint.CUMULATIVE_THROUGHPUT: "CUMULATIVE_THROUGHPUT",
}

Properties = dict[str, Any]


def reshape(model: Any, source: spec.ModelSource) -> Any:
    """Set the model's inputs to the shapes of this run; it is changed in place and returned.

    Raises `UnsupportedSettingsError` for an input the model does not have and for a dimension left open, and
    OpenVINO's `RuntimeError` for a shape that the operators cannot take.
    """
    numbers = {name: number for number, name in enumerate(port_names(model.inputs))}
    if unknown := sorted({tensor.name for tensor in source.inputs} - numbers.keys()):
        raise spec.UnsupportedSettingsError(f"the model has no input named {', '.join(unknown)}")
    if source.inputs:
        model.reshape({numbers[tensor.name]: list(tensor.shape) for tensor in source.inputs})
    for name, number in numbers.items():
        port = model.inputs[number]
        if port.get_partial_shape().is_dynamic:
            raise spec.UnsupportedSettingsError(
                f"input {name} has open dimensions {port.get_partial_shape()}: give its shape with --shape"
            )
    return model


def compile_network(core: Any, model: Any, form: str, settings: spec.Settings) -> CompiledOpenVino:
    """Compile the model. Raises `UnsupportedSettingsError` for what the device has no property for."""
    _refuse_contradictions(settings)
    configure = _auto_properties if settings.device == AUTO else _device_properties

    def compile_with(settings: spec.Settings) -> Any:
        network = core.compile_model(model, settings.device, configure(core, settings))
        _refuse_unheeded(network, settings)
        return network

    names = original_names(model, form) if settings.profiling else None
    return CompiledOpenVino(compile_with, model, settings, names)


def _refuse_contradictions(settings: spec.Settings) -> None:
    if settings.hint is not spec.Hint.NONE and settings.streams > 1:
        raise spec.UnsupportedSettingsError(
            f"openvino chooses the streams itself under the hint {settings.hint}: leave streams at 1, or take no hint"
        )
    # A single device takes this hint for plain throughput, without a word.
    if settings.hint is spec.Hint.CUMULATIVE_THROUGHPUT and settings.device != AUTO:
        raise spec.UnsupportedSettingsError(
            f"the hint {settings.hint} spreads requests over devices: it needs the device {AUTO}, not {settings.device}"
        )


def _refuse_unheeded(network: Any, settings: spec.Settings) -> None:
    """Raise `UnsupportedSettingsError` for an option that the device took without a word, and left as it was.

    A processor without a second thread to each core does so with enable_hyper_threading, one whose cores are all alike
    with scheduling_core_type.
    """
    for name, wanted in _of_device(settings).items():
        for properties in _devices(network, name):
            if name in properties and not _is(properties[name], wanted):
                told = getattr(properties[name], "name", properties[name])
                raise spec.UnsupportedSettingsError(
                    f"openvino's {settings.device} keeps {name.lower()} at {told}, whatever it is told: "
                    f"{wanted} has no effect here, so leave it out"
                )


def _is(told: Any, wanted: spec.OptionValue) -> bool:
    """Whether a property has the value that was asked for; the device may keep less of a fraction's digits."""
    if isinstance(wanted, float):
        return math.isclose(told, wanted, rel_tol=1e-6)
    return bool(getattr(told, "name", told) == wanted)


def _device_properties(core: Any, settings: spec.Settings) -> Properties:
    known = supported_properties(core, settings.device)
    wanted = _required(settings)
    if missing := sorted(name for name in wanted if known.get(name) != "RW"):
        raise spec.UnsupportedSettingsError(f"openvino's {settings.device} cannot set {', '.join(missing)}")
    return _shared(settings) | _where_known(settings, known) | wanted


def _auto_properties(core: Any, settings: spec.Settings) -> Properties:
    """AUTO hands on to a device only what is nested under the device's name; each gets what it has a property for."""
    nested: dict[str, Properties] = {}
    for device in core.available_devices:
        known = supported_properties(core, device)
        wanted = _where_known(settings, known) | _required(settings)
        nested[device] = {name: value for name, value in wanted.items() if known.get(name) == "RW"}
    taken = {name for properties in nested.values() for name in properties}
    if missing := sorted(_required(settings).keys() - taken):
        raise spec.UnsupportedSettingsError(f"none of the devices of openvino's AUTO can set {', '.join(missing)}")
    return _shared(settings) | {"DEVICE_PROPERTIES": nested}


def _shared(settings: spec.Settings) -> Properties:
    """What every device takes, and AUTO itself."""
    shared: Properties = {"PERF_COUNT": settings.profiling}
    if settings.hint is not spec.Hint.NONE:
        shared["PERFORMANCE_HINT"] = HINTS[settings.hint]
        shared["PERFORMANCE_HINT_NUM_REQUESTS"] = settings.requests
    return shared


def _where_known(settings: spec.Settings, known: dict[str, str]) -> Properties:
    """What has no meaning on a device without the property: a GPU runs no threads on the processor's cores."""
    wanted: Properties = {"INFERENCE_NUM_THREADS": settings.cores}
    if settings.hint is spec.Hint.NONE:
        wanted["NUM_STREAMS"] = settings.streams
    return {name: value for name, value in wanted.items() if known.get(name) == "RW"}


def _required(settings: spec.Settings) -> Properties:
    """What somebody asked for and must get."""
    required = _of_device(settings)
    if settings.precision is not spec.Precision.DEFAULT:
        required["INFERENCE_PRECISION_HINT"] = str(settings.precision)
    if settings.streams > 1:
        required["NUM_STREAMS"] = settings.streams
    return required


def _of_device(settings: spec.Settings) -> Properties:
    """The options, as properties of a device."""
    return {name.upper(): value for name, value in settings.options.items() if name != SHARED_MEMORY}
