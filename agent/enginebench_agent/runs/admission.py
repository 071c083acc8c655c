"""Whether a run may start: its specification held against what this agent knows, has and allows.

A field that is not known would be passed over in silence, and something else be measured than was asked for.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

from enginebench_agent.config import AgentConfig
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import InvalidRequestError, NewerRequestError, NotFoundError
from enginebench_agent.names import check_group_name, check_model_file_names, check_run_id, check_sha256
from enginebench_agent.runs.limits import ChildLimits
from enginebench_agent.sizes import shown_size
from enginebench_agent.wire import check_arrivals, from_option, from_options, unknown_part
from enginebench_plugins.types import ModelFormat, Precision, UnsupportedSettingsError
from enginebench_proto.agreed.names import version_digest
from enginebench_proto.agreed.tensors import tensor_bytes
from enginebench_proto.v1.configuration_pb2 import (
    HINT_UNSPECIFIED,
    LOAD_UNSPECIFIED,
    Configuration,
    InputSet,
    StopRule,
)
from enginebench_proto.v1.device_pb2 import Device
from enginebench_proto.v1.engine_pb2 import AvailableEngine, Engine, EngineOption
from enginebench_proto.v1.model_pb2 import ModelVersion
from enginebench_proto.v1.run_pb2 import RUN_KIND_MEASURE, RUN_KIND_PEAKS, RUN_KIND_UNSPECIFIED, RunSpec

EXECUTABLE_FORMATS = frozenset({ModelFormat.TORCHSCRIPT, ModelFormat.TORCH_EXPORT})
"""Loading these can run code that came with the model."""

MAX_MEMBERS = 64
"""Members of a group are alive together, and their limits of time grow with their number."""

MAX_PARTS = 4_096
"""Of one kind in one run. A message has room for far more, and while they are looked at nobody else is served."""


def check_form(spec: RunSpec) -> None:
    """Check what can be checked without knowing the engines.

    Raises `InvalidRequestError`, and `NewerRequestError` for what a later version might understand.
    """
    _check_amount(spec)
    if unknown := unknown_part(spec):
        raise NewerRequestError(f"this agent is too old for {unknown}.")
    check_run_id(spec.run_id)
    if spec.kind == RUN_KIND_UNSPECIFIED:
        raise InvalidRequestError("the run needs a kind: measure, profile or peaks.")
    if spec.kind == RUN_KIND_PEAKS:
        _check_no_model(spec.model)
    else:
        _check_model(spec.model)
    _check_configuration(spec.configuration)
    if spec.HasField("interleaving"):
        _check_interleaving(spec)


def check_format(model: ModelVersion, engine: AvailableEngine, config: AgentConfig, folder: DataFolder) -> None:
    """Refuse formats that can execute code unless the agent's owner allows them. Raises `InvalidRequestError`."""
    allowed = config.allow_executable_formats or model.digest in config.trusted_models
    own = {one.name for one in engine.own_formats if one.runs_code}
    if model.format in EXECUTABLE_FORMATS | own and not allowed:
        raise InvalidRequestError(
            f"a model in the format {model.format} can execute code when it is loaded, and this agent does not allow "
            f"that; its owner can, with allow_executable_formats = true in {folder.config_file}."
        )


def check_memory(spec: RunSpec, limits: ChildLimits) -> None:
    """Refuse what a child cannot hold, before it is killed for it: its whole input set, and the model's files.

    Raises `InvalidRequestError` with the figures. What an engine needs besides is for the run to show.
    """
    asked = spec.configuration
    inputs_bytes = max(1, asked.input_set.count) * sum(tensor_bytes(one.dtype, one.shape) for one in asked.inputs)
    files_bytes = sum(file.size_bytes for file in spec.model.files)
    if limits.memory_bytes is not None and inputs_bytes + files_bytes > limits.memory_bytes:
        raise InvalidRequestError(
            f"the run holds at least {shown_size(inputs_bytes + files_bytes)} of memory ({shown_size(files_bytes)} of "
            f"the model and {shown_size(inputs_bytes)} for {asked.input_set.count} inputs){limits.memory_sentence}; "
            "take a smaller batch or fewer --inputs."
        )


def check_time(spec: RunSpec, config: AgentConfig, folder: DataFolder) -> None:
    """Refuse what no child could end in the time it may have, before it is killed for it.

    Raises `InvalidRequestError` with both times. What an engine needs besides is for the run to show.
    """
    stop = spec.configuration.stop
    least_seconds = (stop.warmup_ns + stop.min_duration_ns) / 1e9
    if spec.kind == RUN_KIND_MEASURE and least_seconds >= config.max_run_seconds:
        raise InvalidRequestError(
            f"the run takes more than {least_seconds:g} s, and the agent ends each after {config.max_run_seconds} s "
            f"(max_run_seconds in {folder.config_file}): raise that, shorten --duration, or give more --processes."
        )


def find_engine(spec: RunSpec, engines: Iterable[Engine]) -> Engine:
    """The engine the run asks for. Raises `NotFoundError` for an engine or environment not here, or not usable."""
    for engine in engines:
        if (engine.name, engine.environment.name) == (spec.engine, spec.environment):
            if engine.HasField("available"):
                return engine
            raise NotFoundError(f"{_label(spec)} cannot be used here: {engine.unavailable.reason}")
    raise NotFoundError(f"there is no {_label(spec)} here; `enginebench devices` lists what there is.")


def find_device(spec: RunSpec, available: AvailableEngine) -> Device:
    """The device the run asks for, after checking its format and options.

    Raises `NotFoundError` for a device that is not here, and `InvalidRequestError` for a format or option the engine
    does not take.
    """
    if spec.model.format not in available.formats:
        raise InvalidRequestError(f"{_label(spec)} reads {_joined(available.formats)}, not {spec.model.format!r}.")
    _check_options(spec, available.options)
    for device in available.devices:
        if device.name == spec.configuration.device:
            return device
    names = _joined(device.name for device in available.devices)
    raise NotFoundError(f"{_label(spec)} has no device {spec.configuration.device!r} here; it has {names}.")


def _check_model(model: ModelVersion) -> None:
    if not model.files:
        raise InvalidRequestError("the run needs a model with at least one file.")
    check_model_file_names([file.name for file in model.files])
    for sha256 in (model.digest, *(file.sha256 for file in model.files)):
        check_sha256(sha256)
    if model.digest != model_digest(model):
        raise InvalidRequestError(f"the model's digest {model.digest} is not that of its files.")


def _check_no_model(model: ModelVersion) -> None:
    if model.files or model.digest:
        raise InvalidRequestError("a calibration makes its own models: it takes the format onnx, and no files.")


def model_digest(model: ModelVersion) -> str:
    """The sha256 that names a version."""
    return version_digest((file.name, file.sha256) for file in model.files)


def _check_configuration(configuration: Configuration) -> None:
    for name in ("batch", "cores", "streams", "requests"):
        if getattr(configuration, name) < 1:
            raise InvalidRequestError(f"the configuration needs {name} of at least 1.")
    if configuration.precision not in tuple(Precision):
        raise InvalidRequestError(
            f"precision {configuration.precision!r} is unknown; known are {_joined(sorted(Precision))}."
        )
    if configuration.load == LOAD_UNSPECIFIED or configuration.hint == HINT_UNSPECIFIED:
        raise InvalidRequestError("the configuration needs a load and a hint.")
    try:
        check_arrivals(configuration)
    except UnsupportedSettingsError as error:
        raise InvalidRequestError(_lowered(str(error))) from error
    _check_stop(configuration.stop)
    _check_input_set(configuration.input_set)


def _check_stop(stop: StopRule) -> None:
    if 0 < stop.max_duration_ns < stop.min_duration_ns:
        raise InvalidRequestError("the stop rule's longest duration is shorter than its shortest.")
    if 0 < stop.max_warmup_ns < stop.warmup_ns:
        raise InvalidRequestError("the stop rule's longest warm-up is shorter than its shortest.")
    if not (math.isfinite(stop.target_relative_half_width) and stop.target_relative_half_width >= 0):
        raise InvalidRequestError("the stop rule's target must be 0 or a share above it, such as 0.01.")


def _check_amount(spec: RunSpec) -> None:
    """Before anything walks through all of it."""
    items = spec.configuration.input_set.items
    counts = {
        "files in its model": len(spec.model.files),
        "inputs": len(spec.configuration.inputs),
        "values in its input set": len(spec.configuration.input_set.values),
        "items in its input set": len(items),
        "files in its input set": sum(len(item.files) for item in islice(items, MAX_PARTS)),
    }
    for what, count in counts.items():
        if count > MAX_PARTS:
            raise InvalidRequestError(f"the run has {count} {what}; an agent takes up to {MAX_PARTS}.")


def _check_input_set(input_set: InputSet) -> None:
    if not input_set.items:
        return
    if input_set.count != len(input_set.items):
        raise InvalidRequestError(f"the input set has {len(input_set.items)} items, but says {input_set.count}.")
    for position, item in enumerate(input_set.items):
        if not item.files:
            raise InvalidRequestError(f"item {position} of the input set has no file.")
        for file in item.files:
            check_sha256(file.sha256)


def _check_interleaving(spec: RunSpec) -> None:
    check_group_name(spec.interleaving.group)
    if not 1 <= spec.interleaving.members <= MAX_MEMBERS:
        raise InvalidRequestError(
            f"a group of runs that take turns has 1 to {MAX_MEMBERS} members, not {spec.interleaving.members}."
        )
    if spec.kind != RUN_KIND_MEASURE:
        raise InvalidRequestError("only measurements can take turns.")


def _check_options(spec: RunSpec, allowed: Sequence[EngineOption]) -> None:
    try:
        from_options([from_option(option) for option in allowed], spec.configuration.options)
    except UnsupportedSettingsError as error:
        raise InvalidRequestError(f"{_label(spec)}: {error}") from error


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _label(spec: RunSpec) -> str:
    return f"engine {spec.engine!r} in environment {spec.environment!r}"


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names)
