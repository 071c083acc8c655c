"""From a model to a compiled network: shapes, and settings as properties of the device."""

from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.openvino.devices import AUTO, SHARED_MEMORY, supported_properties
from enginebench_plugins.openvino.network import CompiledNetwork, port_names
from enginebench_plugins.openvino.original_names import original_names

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


def compile_network(core: Any, model: Any, form: spec.ModelFormat, settings: spec.Settings) -> CompiledNetwork:
    """Compile the model. Raises `UnsupportedSettingsError` for what the device has no property for."""
    _refuse_contradictions(settings)
    configure = _auto_properties if settings.device == AUTO else _device_properties

    def compile_with(settings: spec.Settings) -> Any:
        return core.compile_model(model, settings.device, configure(core, settings))

    names = original_names(model, form) if settings.profiling else None
    return CompiledNetwork(compile_with, model, settings, names)


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
    required: Properties = {name.upper(): value for name, value in settings.options.items() if name != SHARED_MEMORY}
    if settings.precision is not spec.Precision.DEFAULT:
        required["INFERENCE_PRECISION_HINT"] = str(settings.precision)
    if settings.streams > 1:
        required["NUM_STREAMS"] = settings.streams
    return required
