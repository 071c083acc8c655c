"""Between the wire and the records: the only controller module that takes proto messages apart.

Each pair `to_x` (record → message) and `from_x` (message → record) is the other's inverse.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from enginebench_controller.records import (
    Configuration,
    Effective,
    Failure,
    FailureKind,
    Hint,
    InputTensor,
    Layer,
    Load,
    ModelVersion,
    Phase,
    Readback,
    Source,
    Status,
    StopRule,
)
from enginebench_proto.v1 import (
    configuration_pb2,
    engine_pb2,
    host_pb2,
    measurement_pb2,
    model_pb2,
    profile_pb2,
    run_pb2,
)

HINTS = {
    Hint.NONE: configuration_pb2.HINT_NONE,
    Hint.LATENCY: configuration_pb2.HINT_LATENCY,
    Hint.THROUGHPUT: configuration_pb2.HINT_THROUGHPUT,
    Hint.CUMULATIVE_THROUGHPUT: configuration_pb2.HINT_CUMULATIVE_THROUGHPUT,
}
LOADS = {Load.SYNC: configuration_pb2.LOAD_SYNC, Load.ASYNC: configuration_pb2.LOAD_ASYNC}
STATUSES = {
    run_pb2.OUTCOME_OK: Status.OK,
    run_pb2.OUTCOME_INCONCLUSIVE: Status.INCONCLUSIVE,
    run_pb2.OUTCOME_FAILED: Status.FAILED,
    run_pb2.OUTCOME_CANCELLED: Status.CANCELLED,
}
SOURCES = {
    measurement_pb2.READBACK_SOURCE_ENGINE_API: Source.ENGINE_API,
    measurement_pb2.READBACK_SOURCE_OBSERVED: Source.OBSERVED,
    measurement_pb2.READBACK_SOURCE_ASSUMED: Source.ASSUMED,
}
LAYER_STATES = {
    profile_pb2.LAYER_STATE_EXECUTED: "executed",
    profile_pb2.LAYER_STATE_NOT_EXECUTED: "not_executed",
    profile_pb2.LAYER_STATE_OPTIMIZED_AWAY: "optimized_away",
}


def to_model(version: ModelVersion) -> model_pb2.ModelVersion:
    """The part of a model version that an agent needs: digest, format and files."""
    files = [model_pb2.ModelFile(name=f.name, sha256=f.sha256, size_bytes=f.size_bytes) for f in version.files]
    return model_pb2.ModelVersion(digest=version.digest, format=version.format, files=files)


def to_configuration(configuration: Configuration) -> configuration_pb2.Configuration:
    """A configuration as the wire carries it."""
    stop = configuration.stop
    return configuration_pb2.Configuration(
        device=configuration.device,
        batch=configuration.batch,
        cores=configuration.cores,
        streams=configuration.streams,
        precision=configuration.precision,
        hint=HINTS[configuration.hint],
        load=LOADS[configuration.load],
        requests=configuration.requests,
        inputs=[to_input(tensor) for tensor in configuration.inputs],
        input_set=configuration_pb2.InputSet(seed=configuration.input_seed, count=configuration.input_count),
        options=dict(configuration.options),
        stop=configuration_pb2.StopRule(
            min_duration_ns=stop.min_duration_ns,
            min_iterations=stop.min_iterations,
            max_duration_ns=stop.max_duration_ns,
            warmup_ns=stop.warmup_ns,
        ),
    )


def from_configuration(message: configuration_pb2.Configuration) -> Configuration:
    """The inverse of `to_configuration`."""
    stop = message.stop
    return Configuration(
        device=message.device,
        batch=message.batch,
        cores=message.cores,
        streams=message.streams,
        precision=message.precision,
        hint=_key_of(HINTS, message.hint),
        load=_key_of(LOADS, message.load),
        requests=message.requests,
        inputs=tuple(from_input(tensor) for tensor in message.inputs),
        input_seed=message.input_set.seed,
        input_count=message.input_set.count,
        options=dict(message.options),
        stop=StopRule(stop.min_duration_ns, stop.min_iterations, stop.max_duration_ns, stop.warmup_ns),
    )


def to_input(tensor: InputTensor) -> configuration_pb2.InputTensor:
    """One input tensor as the wire carries it."""
    return configuration_pb2.InputTensor(
        name=tensor.name, dtype=tensor.dtype, shape=tensor.shape, integer_bound=tensor.integer_bound
    )


def from_input(message: configuration_pb2.InputTensor) -> InputTensor:
    """The inverse of `to_input`."""
    return InputTensor(message.name, message.dtype, tuple(message.shape), _optional(message, "integer_bound"))


def from_failure(message: run_pb2.Failure) -> Failure:
    """A typed failure; an unknown kind from a newer agent becomes `internal`."""
    name = run_pb2.FailureKind.Name(message.kind) if message.kind in run_pb2.FailureKind.values() else ""
    kind = name.removeprefix("FAILURE_KIND_").lower()
    return Failure(
        kind=FailureKind(kind) if kind in set(FailureKind) else FailureKind.INTERNAL,
        message=message.message,
        detail=message.detail,
        signal=message.signal,
        exit_code=_optional(message, "exit_code"),
        stderr_tail=message.stderr_tail,
        phase=message.phase,
    )


def from_effective(message: measurement_pb2.Effective) -> Effective:
    """What the engine really used; fields the agent left out stay None."""
    fields = ("threads", "streams", "precision", "provider", "isa")
    readbacks = {name: from_readback(getattr(message, name)) for name in fields if message.HasField(name)}
    return Effective(**readbacks, affinity=tuple(message.affinity))


def from_readback(
    message: measurement_pb2.IntegerReadback | measurement_pb2.TextReadback,
) -> Readback | None:
    """A value with its source; None when the source is not one this version knows."""
    source = SOURCES.get(message.source)
    return None if source is None else Readback(message.value, source)


def from_phases(messages: Any) -> tuple[Phase, ...]:
    """The phases of a run in their order."""
    return tuple(Phase(m.name, m.duration_ns, _optional(m, "peak_rss_bytes")) for m in messages)


def from_layer(message: profile_pb2.Layer) -> Layer:
    """One executed layer."""
    return Layer(
        name=message.name,
        type=message.type,
        order=message.order,
        state=LAYER_STATES.get(message.state, "unknown"),
        time_ns=tuple(message.time_ns),
        calls=message.calls,
        kernel=message.kernel,
        precision=message.precision,
        output_shapes=tuple(tuple(shape.sizes) for shape in message.output_shapes),
        source_nodes=tuple(message.source_nodes),
    )


def from_samples(parts: list[measurement_pb2.Samples]) -> NDArray[np.int64]:
    """All raw latencies of a run, int64 nanoseconds of shape (iterations,)."""
    return np.concatenate([np.array(part.latency_ns, dtype=np.int64) for part in parts] or [np.empty(0, np.int64)])


def from_host(message: host_pb2.HostFacts) -> dict[str, Any]:
    """Host facts as plain data; unknown ones are None."""
    facts = {name: _optional(message, name) for name in ("cpu_model", "physical_cores", "logical_cores")}
    facts |= {name: _optional(message, name) for name in ("cpu_quota_cores", "memory_bytes")}
    texts = ("hostname", "os", "kernel", "architecture", "agent_version", "python_version")
    return {name: getattr(message, name) for name in texts} | facts | {"isa": list(message.isa)}


def from_engine(message: engine_pb2.Engine) -> dict[str, Any]:
    """One engine in one environment as plain data, in the form of `TargetSnapshot.engines`."""
    state = {"available": None, "unavailable": None}
    if message.HasField("available"):
        state["available"] = _from_available(message.available)
    else:
        state["unavailable"] = _from_unavailable(message.unavailable)
    return {
        "name": message.name,
        "environment": message.environment.name,
        "python_version": message.environment.python_version,
        "distribution": message.distribution,
        "hidden": message.hidden,
        **state,
    }


def _from_available(message: engine_pb2.AvailableEngine) -> Any:
    options = [{"name": o.name, "type": o.type, "choices": list(o.choices), "help": o.help} for o in message.options]
    devices = [
        {
            "name": device.name,
            "full_name": device.full_name,
            "precisions": list(device.precisions),
            "resources": list(device.resources),
            "properties": dict(device.properties),
        }
        for device in message.devices
    ]
    return {
        "version": message.version,
        "formats": list(message.formats),
        "loads": list(message.loads),
        "hints": list(message.hints),
        "multiple_streams": message.multiple_streams,
        "profiling": message.profiling,
        "options": options,
        "devices": devices,
    }


def _from_unavailable(message: engine_pb2.UnavailableEngine) -> Any:
    kind = engine_pb2.UnavailableKind.Name(message.kind).removeprefix("UNAVAILABLE_KIND_").lower()
    return {"kind": kind, "reason": message.reason, "detail": message.detail}


def _optional(message: Message, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _key_of(table: Mapping[Any, int], value: int) -> Any:
    return next(key for key, number in table.items() if number == value)
