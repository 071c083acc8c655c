"""Between the wire and the records: the only controller module that takes proto messages apart.

Each pair `to_x` (record → message) and `from_x` (message → record) is the other's inverse, but for what never travels:
how many processes a measurement has, and how a person's inputs were prepared.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from google.protobuf.message import Message

from enginebench_controller.records import (
    ArrivalProcess,
    Arrivals,
    Block,
    BlockSamples,
    Calibration,
    CapturedOutput,
    Configuration,
    Effective,
    Evidence,
    Failure,
    FailureKind,
    Hint,
    InputFile,
    InputSet,
    InputTensor,
    Layer,
    Load,
    ModelVersion,
    Phase,
    Process,
    Readback,
    Source,
    Status,
    StopReason,
    StopRule,
    WarmUp,
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
LOADS = {
    Load.SYNC: configuration_pb2.LOAD_SYNC,
    Load.ASYNC: configuration_pb2.LOAD_ASYNC,
    Load.OPEN_LOOP: configuration_pb2.LOAD_OPEN_LOOP,
}
ARRIVAL_PROCESSES = {
    ArrivalProcess.CONSTANT: configuration_pb2.ARRIVAL_PROCESS_CONSTANT,
    ArrivalProcess.POISSON: configuration_pb2.ARRIVAL_PROCESS_POISSON,
}
STOP_REASONS = {
    measurement_pb2.STOP_REASON_TARGET_MET: StopReason.TARGET_MET,
    measurement_pb2.STOP_REASON_MAX_DURATION: StopReason.MAX_DURATION,
}
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

_EVIDENCE = tuple(field.name for field in fields(Evidence) if field.name != "missing")
_SERIES = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns")


def to_model(version: ModelVersion) -> model_pb2.ModelVersion:
    """The part of a model version that an agent needs: digest, format and files."""
    files = [model_pb2.ModelFile(name=f.name, sha256=f.sha256, size_bytes=f.size_bytes) for f in version.files]
    return model_pb2.ModelVersion(digest=version.digest, format=version.format, files=files)


def to_configuration(configuration: Configuration, process: int = 0) -> configuration_pb2.Configuration:
    """A configuration as the wire carries it, for one process of its measurement.

    The processes of an open loop get schedules of their own, the same for every engine.
    """
    arrivals = configuration.arrivals
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
        input_set=to_input_set(configuration.input_set),
        options=dict(configuration.options),
        stop=to_stop_rule(configuration.stop),
        arrivals=to_arrivals(arrivals, configuration.input_set.seed + process) if arrivals else None,
    )


def from_configuration(message: configuration_pb2.Configuration) -> Configuration:
    """The inverse of `to_configuration`."""
    return Configuration(
        device=message.device,
        batch=message.batch,
        cores=message.cores,
        streams=message.streams,
        precision=message.precision,
        hint=_key_of(HINTS, message.hint),
        load=_key_of(LOADS, message.load),
        requests=message.requests,
        arrivals=from_arrivals(message.arrivals) if message.HasField("arrivals") else None,
        inputs=tuple(from_input(tensor) for tensor in message.inputs),
        input_set=from_input_set(message.input_set),
        options=dict(message.options),
        stop=from_stop_rule(message.stop),
    )


def to_stop_rule(rule: StopRule) -> configuration_pb2.StopRule:
    """The stop rule of a single process as the wire carries it."""
    return configuration_pb2.StopRule(
        min_duration_ns=rule.min_duration_ns,
        min_iterations=rule.min_iterations,
        max_duration_ns=rule.max_duration_ns,
        warmup_ns=rule.warmup_ns,
        target_relative_half_width=rule.target_relative_half_width,
        block_ns=rule.block_ns,
        retry_noisy=rule.retry_noisy,
    )


def from_stop_rule(message: configuration_pb2.StopRule) -> StopRule:
    """The inverse of `to_stop_rule`."""
    return StopRule(
        min_duration_ns=message.min_duration_ns,
        min_iterations=message.min_iterations,
        max_duration_ns=message.max_duration_ns,
        warmup_ns=message.warmup_ns,
        target_relative_half_width=message.target_relative_half_width,
        processes=1,
        block_ns=message.block_ns,
        retry_noisy=message.retry_noisy,
    )


def to_arrivals(arrivals: Arrivals, seed: int) -> configuration_pb2.Arrivals:
    """An open loop's schedule as the wire carries it."""
    process = ARRIVAL_PROCESSES[arrivals.process]
    return configuration_pb2.Arrivals(process=process, rate_per_s=arrivals.rate_per_s, seed=seed)


def from_arrivals(message: configuration_pb2.Arrivals) -> Arrivals:
    """The inverse of `to_arrivals`, but for the seed, which belongs to one process."""
    return Arrivals(message.rate_per_s, _key_of(ARRIVAL_PROCESSES, message.process))


def to_input_set(inputs: InputSet) -> configuration_pb2.InputSet:
    """The origin of a run's inputs as the wire carries it."""
    items = [configuration_pb2.InputItem(files=map(to_input_file, files)) for files in inputs.items]
    return configuration_pb2.InputSet(seed=inputs.seed, count=inputs.count, name=inputs.name, items=items)


def from_input_set(message: configuration_pb2.InputSet) -> InputSet:
    """The inverse of `to_input_set`."""
    items = tuple(tuple(from_input_file(file) for file in item.files) for item in message.items)
    return InputSet(seed=message.seed, count=message.count, name=message.name, items=items)


def to_input_file(file: InputFile) -> configuration_pb2.InputFile:
    """One given tensor as the wire carries it."""
    return configuration_pb2.InputFile(input=file.input, sha256=file.sha256, size_bytes=file.size_bytes)


def from_input_file(message: configuration_pb2.InputFile) -> InputFile:
    """The inverse of `to_input_file`."""
    return InputFile(message.input, message.sha256, message.size_bytes)


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


def to_block(block: Block) -> measurement_pb2.Block:
    """One block as the wire carries it, where its process is known from the run."""
    return measurement_pb2.Block(
        index=block.index,
        begin_ns=block.begin_ns,
        duration_ns=block.duration_ns,
        iterations=block.iterations,
        evidence=to_evidence(block.evidence),
        disturbances=block.disturbances,
    )


def from_block(message: measurement_pb2.Block, process: int) -> Block:
    """The inverse of `to_block`."""
    return Block(
        process=process,
        index=message.index,
        begin_ns=message.begin_ns,
        duration_ns=message.duration_ns,
        iterations=message.iterations,
        evidence=from_evidence(message.evidence),
        disturbances=tuple(message.disturbances),
    )


def to_evidence(evidence: Evidence) -> measurement_pb2.Evidence:
    """What a machine was doing, as the wire carries it: unknown fields stay absent."""
    known = {name: getattr(evidence, name) for name in _EVIDENCE if getattr(evidence, name) is not None}
    return measurement_pb2.Evidence(**known, missing=dict(evidence.missing))


def from_evidence(message: measurement_pb2.Evidence) -> Evidence:
    """The inverse of `to_evidence`."""
    known = {name: _optional(message, name) for name in _EVIDENCE}
    return Evidence(**known, missing=dict(message.missing))


def to_samples(samples: BlockSamples) -> measurement_pb2.Samples:
    """Raw samples of one block as the wire carries them."""
    series = {name: getattr(samples, name) for name in _SERIES if getattr(samples, name) is not None}
    return measurement_pb2.Samples(block=samples.block, **{name: values.tolist() for name, values in series.items()})


def from_samples(message: measurement_pb2.Samples, process: int) -> BlockSamples:
    """The inverse of `to_samples`; also of a part of a block's samples."""
    latency_ns, *instants = (np.fromiter(getattr(message, name), dtype=np.int64) for name in _SERIES)
    known = [values if values.size else None for values in instants]
    return BlockSamples(process, message.block, latency_ns, *known)


def from_calibration(message: measurement_pb2.Calibration) -> Calibration:
    """What measuring itself cost."""
    return Calibration(message.timer_ns, message.empty_loop_ns, message.block_ns)


def from_warm_up(message: measurement_pb2.WarmUp) -> WarmUp:
    """How a warm-up went."""
    return WarmUp(message.steady, message.iterations, message.reason)


def to_captured_output(output: CapturedOutput) -> measurement_pb2.CapturedOutput:
    """One captured output as the wire carries it."""
    return measurement_pb2.CapturedOutput(
        input_index=output.input_index,
        name=output.name,
        dtype=output.dtype,
        shape=output.shape,
        values=output.values.astype("<f4").tobytes(),
        stride=output.stride,
    )


def from_captured_output(message: measurement_pb2.CapturedOutput) -> CapturedOutput:
    """The inverse of `to_captured_output`."""
    return CapturedOutput(
        input_index=message.input_index,
        name=message.name,
        dtype=message.dtype,
        shape=tuple(message.shape),
        stride=message.stride,
        values=np.frombuffer(message.values, dtype="<f4").astype(np.float32),
    )


def from_process(index: int, result: run_pb2.RunResult) -> Process:
    """What one process of a measurement did, but for what follows from its samples."""
    message = result.measurement
    started = Process(index, started_at_unix_ns=result.started_at_unix_ns or None)
    if not result.HasField("measurement"):
        return started
    return replace(
        started,
        phases=from_phases(message.phases),
        effective=from_effective(message.effective),
        calibration=from_calibration(message.calibration) if message.HasField("calibration") else None,
        warm_up=from_warm_up(message.warm_up) if message.HasField("warm_up") else None,
        stop_reason=STOP_REASONS.get(message.stop_reason),
        iterations=message.iterations or None,
        steady_state_ns=message.steady_state_ns or None,
        cpu_time_ns=_optional(message, "cpu_time_ns"),
        scheduled_arrivals=_optional(message, "scheduled_arrivals"),
        unsent_arrivals=_optional(message, "unsent_arrivals"),
    )


def from_host(message: host_pb2.HostFacts) -> dict[str, Any]:
    """Host facts as plain data; unknown ones are None."""
    facts = {name: _optional(message, name) for name in ("cpu_model", "physical_cores", "logical_cores")}
    facts |= {name: _optional(message, name) for name in ("cpu_quota_cores", "memory_bytes")}
    texts = ("hostname", "os", "kernel", "architecture", "agent_version", "python_version")
    return (
        {name: getattr(message, name) for name in texts}
        | facts
        | {"isa": list(message.isa), "tuned": list(message.tuned)}
    )


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
