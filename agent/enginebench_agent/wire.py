"""Plugin types to wire messages and back, options and arrivals checked on the way: the only module that knows both.

Each noun has a `to_` (wire) and a `from_` (plugin) function. Nothing here needs NumPy or an engine.
"""

import difflib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message

from enginebench_plugins.spec import (
    Device,
    Effective,
    EngineInfo,
    FileFormat,
    Hint,
    LayerProfile,
    LayerState,
    Load,
    ModelFormat,
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
from enginebench_proto.agreed.typed import whole_number
from enginebench_proto.v1 import configuration_pb2, device_pb2, engine_pb2, measurement_pb2, profile_pb2, run_pb2
from enginebench_proto.v1.configuration_pb2 import (
    ARRIVAL_PROCESS_CONSTANT,
    ARRIVAL_PROCESS_POISSON,
    LOAD_OPEN_LOOP,
    Configuration,
)


def to_option_text(value: OptionValue) -> str:
    """An option's value as text: `true` and `false` for bools, else as Python prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_option_text(option: OptionSpec, text: str) -> OptionValue:
    """The typed value of one option.

    Raises `UnsupportedSettingsError` for a wrong type or a value not offered.
    """
    try:
        value = _parse_option(option.type, text)
    except ValueError:
        kind = option.type.__name__
        raise UnsupportedSettingsError(f"Option '{option.name}' takes a value of type {kind}, not '{text}'.") from None
    if option.choices and value not in option.choices:
        offered = ", ".join(to_option_text(choice) for choice in option.choices)
        raise UnsupportedSettingsError(f"Option '{option.name}' is one of {offered}, not '{text}'.")
    return value


def _parse_option(kind: type, text: str) -> OptionValue:
    if kind is bool:
        return ("false", "true").index(text.lower()) == 1
    if kind is int:
        return -whole_number(text[1:]) if text.startswith("-") else whole_number(text)
    if kind is float and not (text.isascii() and math.isfinite(float(text))):
        raise ValueError(text)
    return float(text) if kind is float else text


def from_options(options: Sequence[OptionSpec], texts: Mapping[str, str]) -> dict[str, OptionValue]:
    """Typed values of all options given. Raises `UnsupportedSettingsError` for one not on the allow-list."""
    allowed = {option.name: option for option in options}
    for name in texts.keys() - allowed.keys():
        raise UnsupportedSettingsError(f"Unknown option '{name}'. {suggestion(name, allowed)}")
    return {name: from_option_text(allowed[name], texts[name]) for name in sorted(texts)}


def suggestion(name: str, known: Collection[str]) -> str:
    """The sentence that helps after a wrong name: the nearest known one, else all of them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"There are {', '.join(sorted(known))}." if known else "There are none."


_PROCESSES = frozenset({ARRIVAL_PROCESS_CONSTANT, ARRIVAL_PROCESS_POISSON})


def check_arrivals(configuration: Configuration) -> None:
    """Raises `UnsupportedSettingsError` for an open loop without a sound schedule, or a schedule without one."""
    if configuration.load != LOAD_OPEN_LOOP:
        if configuration.HasField("arrivals"):
            raise UnsupportedSettingsError("Only the load open-loop has arrivals; leave them out or ask for it.")
        return
    if configuration.arrivals.process not in _PROCESSES:
        raise UnsupportedSettingsError("The load open-loop needs arrivals: constant or poisson.")
    rate_per_s = configuration.arrivals.rate_per_s
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise UnsupportedSettingsError(f"The load open-loop needs a rate above 0 per second, not {rate_per_s:g}.")


def unknown_part(message: Message) -> str:
    """What this version does not know of a message: a field, at any depth, or a value of an enum; "" for nothing.

    It would be passed over in silence, and something else be done than was asked for.
    """
    understood = type(message)()
    understood.CopyFrom(message)
    understood.DiscardUnknownFields()
    if understood.ByteSize() != message.ByteSize():
        return f"a part of this {message.DESCRIPTOR.name}"
    nameless = (
        f"{field.name} {number}"
        for field, number in _enum_values(message)
        if number not in field.enum_type.values_by_number
    )
    return next(nameless, "")


def _enum_values(message: Message) -> Iterator[tuple[Any, int]]:
    for field, value in message.ListFields():
        if field.enum_type is not None:
            numbers = [value] if isinstance(value, int) else value
            yield from ((field, number) for number in numbers)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in [value] if isinstance(value, Message) else value:
                yield from _enum_values(part)


K = TypeVar("K")
V = TypeVar("V")

MAX_READBACK_CHARS = 100
"""Of a provider, a precision or an instruction set, as an engine tells it."""

_HINTS = {
    Hint.NONE: configuration_pb2.HINT_NONE,
    Hint.LATENCY: configuration_pb2.HINT_LATENCY,
    Hint.THROUGHPUT: configuration_pb2.HINT_THROUGHPUT,
    Hint.CUMULATIVE_THROUGHPUT: configuration_pb2.HINT_CUMULATIVE_THROUGHPUT,
}
_LOADS = {Load.SYNC: configuration_pb2.LOAD_SYNC, Load.ASYNC: configuration_pb2.LOAD_ASYNC}
_SOURCES = {
    Source.ENGINE_API: measurement_pb2.READBACK_SOURCE_ENGINE_API,
    Source.OBSERVED: measurement_pb2.READBACK_SOURCE_OBSERVED,
    Source.ASSUMED: measurement_pb2.READBACK_SOURCE_ASSUMED,
}
_STATES = {
    LayerState.EXECUTED: profile_pb2.LAYER_STATE_EXECUTED,
    LayerState.NOT_EXECUTED: profile_pb2.LAYER_STATE_NOT_EXECUTED,
    LayerState.OPTIMIZED_AWAY: profile_pb2.LAYER_STATE_OPTIMIZED_AWAY,
}
_OPTION_TYPES: dict[str, type[bool] | type[int] | type[float] | type[str]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
}
_COUNTS = ("batch", "cores", "streams", "requests")
_MOST_PHRASES, _PHRASE_LENGTH = 20, 200
"""Of what was prepared: a plugin may say more than anybody would read."""


def to_device(device: Device) -> device_pb2.Device:
    """A device as it stands in an engine's listing."""
    return device_pb2.Device(
        name=device.name,
        full_name=device.full_name,
        precisions=[str(precision) for precision in device.precisions],
        resources=device.resources,
        properties=device.properties,
    )


def from_device(message: device_pb2.Device) -> Device:
    """The device a message describes. Raises `ValueError` for an unknown precision."""
    return Device(
        name=message.name,
        full_name=message.full_name,
        precisions=tuple(Precision(text) for text in message.precisions),
        resources=tuple(message.resources),
        properties=dict(message.properties),
    )


def to_option(option: OptionSpec) -> engine_pb2.EngineOption:
    """An entry of an engine's allow-list."""
    return engine_pb2.EngineOption(
        name=option.name,
        type=option.type.__name__,
        choices=[to_option_text(choice) for choice in option.choices],
        help=option.help,
        profile_only=option.profile_only,
    )


def from_option(message: engine_pb2.EngineOption) -> OptionSpec:
    """The entry of an allow-list that a message describes, its choices as typed values."""
    unchecked = OptionSpec(message.name, _OPTION_TYPES[message.type], message.help)
    choices = tuple(from_option_text(unchecked, text) for text in message.choices)
    return OptionSpec(unchecked.name, unchecked.type, unchecked.help, choices, message.profile_only)


def to_available_engine(info: EngineInfo, devices: Sequence[Device]) -> engine_pb2.AvailableEngine:
    """What a usable engine offers, with its devices."""
    return engine_pb2.AvailableEngine(
        version=info.version,
        formats=sorted(info.reads),
        loads=sorted(info.loads & {Load.SYNC, Load.ASYNC}),  # an open loop is not for a plugin to offer
        hints=sorted(info.hints),
        multiple_streams=info.multiple_streams,
        single_threaded=info.single_threaded,
        profiling=info.profiling,
        batches=info.batches,
        own_formats=map(_to_file_format, info.own_formats),
        options=[to_option(option) for option in info.options],
        devices=[to_device(device) for device in devices],
    )


def from_available_engine(message: engine_pb2.AvailableEngine) -> tuple[EngineInfo, tuple[Device, ...]]:
    """The abilities and the devices of an engine."""
    own = tuple(map(_from_file_format, message.own_formats))
    info = EngineInfo(
        version=message.version,
        formats=frozenset(map(ModelFormat, set(message.formats) - {one.name for one in own})),
        loads=frozenset(Load(text) for text in message.loads),
        hints=frozenset(Hint(text) for text in message.hints),
        multiple_streams=message.multiple_streams,
        single_threaded=message.single_threaded,
        profiling=message.profiling,
        batches=tuple(message.batches),
        own_formats=own,
        options=tuple(from_option(option) for option in message.options),
    )
    return info, tuple(from_device(device) for device in message.devices)


def _to_file_format(own: FileFormat) -> engine_pb2.FileFormat:
    begins = (engine_pb2.Beginning(offset=offset, content=content) for offset, content in own.begins)
    return engine_pb2.FileFormat(
        name=own.name, suffixes=own.suffixes, companions=own.companions, begins=begins, runs_code=own.runs_code
    )


def _from_file_format(message: engine_pb2.FileFormat) -> FileFormat:
    """A format that a plugin brings."""
    begins = tuple((one.offset, one.content) for one in message.begins)
    return FileFormat(message.name, tuple(message.suffixes), tuple(message.companions), begins, message.runs_code)


def to_configuration(settings: Settings, inputs: Sequence[TensorSpec]) -> configuration_pb2.Configuration:
    """The axes of a configuration; stop rule and input set are not the plugin's and stay unset."""
    return configuration_pb2.Configuration(
        device=settings.device,
        batch=settings.batch,
        cores=settings.cores,
        streams=settings.streams,
        precision=settings.precision,
        hint=_HINTS[settings.hint],
        load=_LOADS[settings.load],
        requests=settings.requests,
        inputs=[to_tensor(tensor) for tensor in inputs],
        options={name: to_option_text(value) for name, value in settings.options.items()},
    )


def from_configuration(
    message: configuration_pb2.Configuration, options: Sequence[OptionSpec], *, profiling: bool = False
) -> Settings:
    """The settings a configuration asks for, its options checked against an engine's allow-list.

    An open loop is asynchronous to the engine: when requests arrive is the worker's concern alone.
    Raises `UnsupportedSettingsError` for what is missing, zero, unknown or not allowed.
    """
    check_arrivals(message)
    for count in _COUNTS:
        if getattr(message, count) < 1:
            raise UnsupportedSettingsError(f"The configuration asks for 0 {count}; it takes at least 1.")
    return Settings(
        device=message.device,
        batch=message.batch,
        cores=message.cores,
        streams=message.streams,
        precision=_precision(message.precision),
        hint=_key(_HINTS, message.hint, "hint"),
        load=_from_load(message.load),
        requests=message.requests,
        options=from_options(options, message.options),
        profiling=profiling,
    )


def _from_load(load: configuration_pb2.Load) -> Load:
    return Load.ASYNC if load == configuration_pb2.LOAD_OPEN_LOOP else _key(_LOADS, load, "load")


def _precision(text: str) -> Precision:
    try:
        return Precision(text)
    except ValueError:
        known = ", ".join(Precision)
        raise UnsupportedSettingsError(f"Unknown precision '{text}'; there are {known}.") from None


def _key(table: Mapping[K, V], value: V, noun: str) -> K:
    for key, known in table.items():
        if known == value:
            return key
    raise UnsupportedSettingsError(f"The configuration names no {noun} this version knows ({value}).")


def from_model(spec: run_pb2.RunSpec, path: Path) -> ModelSource:
    """The model of a run, whose main file lies at `path`."""
    known = spec.model.format in frozenset(ModelFormat)
    model_format = ModelFormat(spec.model.format) if known else spec.model.format
    return ModelSource(path, model_format, tuple(from_tensor(tensor) for tensor in spec.configuration.inputs))


def to_tensor(tensor: TensorSpec, integer_bound: int | None = None) -> configuration_pb2.InputTensor:
    """An input without open dimensions. Raises `ValueError` for an open one."""
    if None in tensor.shape:
        raise ValueError(f"Input '{tensor.name}' has an open dimension: {tensor.shape}.")
    sizes = [size for size in tensor.shape if size is not None]
    return configuration_pb2.InputTensor(name=tensor.name, dtype=tensor.dtype, shape=sizes, integer_bound=integer_bound)


def from_tensor(message: configuration_pb2.InputTensor) -> TensorSpec:
    """Name, element type and shape of an input; its integer bound is the worker's concern alone."""
    return TensorSpec(message.name, message.dtype, tuple(message.shape))


def to_effective(effective: Effective, affinity: Sequence[int] = ()) -> measurement_pb2.Effective:
    """What an engine really used; unknown fields stay absent."""
    return measurement_pb2.Effective(
        threads=_to_integer(effective.threads),
        streams=_to_integer(effective.streams),
        precision=_to_text(effective.precision),
        provider=_to_text(effective.provider),
        isa=_to_text(effective.isa),
        affinity=affinity,
        prepared=[str(phrase)[:_PHRASE_LENGTH] for phrase in effective.prepared[:_MOST_PHRASES]],
    )


def from_effective(message: measurement_pb2.Effective) -> tuple[Effective, tuple[int, ...]]:
    """What an engine really used, and the logical processors its child was confined to."""
    effective = Effective(
        threads=_from_integer(message, "threads"),
        streams=_from_integer(message, "streams"),
        precision=_from_text(message, "precision"),
        provider=_from_text(message, "provider"),
        isa=_from_text(message, "isa"),
        prepared=tuple(message.prepared),
    )
    return effective, tuple(message.affinity)


def _to_integer(readback: Readback[int] | None) -> measurement_pb2.IntegerReadback | None:
    if readback is None:
        return None
    return measurement_pb2.IntegerReadback(value=readback.value, source=_SOURCES[readback.source])


def _to_text(readback: Readback[str] | None) -> measurement_pb2.TextReadback | None:
    if readback is None:
        return None
    return measurement_pb2.TextReadback(value=readback.value[:MAX_READBACK_CHARS], source=_SOURCES[readback.source])


def _from_integer(message: measurement_pb2.Effective, field: str) -> Readback[int] | None:
    if not message.HasField(field):
        return None
    readback: measurement_pb2.IntegerReadback = getattr(message, field)
    return Readback(readback.value, _key(_SOURCES, readback.source, "source"))


def _from_text(message: measurement_pb2.Effective, field: str) -> Readback[str] | None:
    if not message.HasField(field):
        return None
    readback: measurement_pb2.TextReadback = getattr(message, field)
    return Readback(readback.value, _key(_SOURCES, readback.source, "source"))


def to_layer(layer: LayerProfile) -> profile_pb2.Layer:
    """One executed layer with its times."""
    return profile_pb2.Layer(
        name=layer.name,
        type=layer.type,
        kernel=layer.kernel,
        precision=layer.precision,
        output_shapes=[profile_pb2.Shape(sizes=shape) for shape in layer.output_shapes],
        order=layer.order,
        state=_STATES[layer.state],
        time_ns=layer.time_ns,
        calls=layer.calls,
        source_nodes=layer.source_nodes,
        inputs=layer.inputs,
        outputs=layer.outputs,
        parameters=layer.parameters,
    )


def from_layer(message: profile_pb2.Layer) -> LayerProfile:
    """The executed layer a message describes."""
    return LayerProfile(
        name=message.name,
        type=message.type,
        order=message.order,
        state=_key(_STATES, message.state, "layer state"),
        time_ns=tuple(message.time_ns),
        calls=message.calls,
        kernel=message.kernel,
        precision=message.precision,
        output_shapes=tuple(tuple(shape.sizes) for shape in message.output_shapes),
        source_nodes=tuple(message.source_nodes),
        inputs=tuple(message.inputs),
        outputs=tuple(message.outputs),
        parameters=dict(message.parameters),
    )
