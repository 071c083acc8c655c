"""What the agent is asked to do: model versions and configurations."""

from collections.abc import Mapping
from typing import Any

from enginebench_controller.records import (
    ArrivalProcess,
    Arrivals,
    Configuration,
    Hint,
    InputFile,
    InputSet,
    InputTensor,
    InputValues,
    Load,
    ModelVersion,
    StopRule,
)
from enginebench_controller.wire.fields import optional
from enginebench_proto.v1 import configuration_pb2, model_pb2

_HINTS = {
    Hint.NONE: configuration_pb2.HINT_NONE,
    Hint.LATENCY: configuration_pb2.HINT_LATENCY,
    Hint.THROUGHPUT: configuration_pb2.HINT_THROUGHPUT,
    Hint.CUMULATIVE_THROUGHPUT: configuration_pb2.HINT_CUMULATIVE_THROUGHPUT,
}

_LOADS = {
    Load.SYNC: configuration_pb2.LOAD_SYNC,
    Load.ASYNC: configuration_pb2.LOAD_ASYNC,
    Load.OPEN_LOOP: configuration_pb2.LOAD_OPEN_LOOP,
}

_ARRIVAL_PROCESSES = {
    ArrivalProcess.CONSTANT: configuration_pb2.ARRIVAL_PROCESS_CONSTANT,
    ArrivalProcess.POISSON: configuration_pb2.ARRIVAL_PROCESS_POISSON,
}


def to_model(version: ModelVersion) -> model_pb2.ModelVersion:
    """The part of a model version that an agent needs: digest, format and files."""
    files = [model_pb2.ModelFile(name=f.name, sha256=f.sha256, size_bytes=f.size_bytes) for f in version.files]
    return model_pb2.ModelVersion(digest=version.digest, format=version.format, files=files)


def to_configuration(configuration: Configuration, process: int = 0) -> configuration_pb2.Configuration:
    """A configuration as the wire carries it, for one process of its measurement; which dimensions are the batch
    stays here.

    The processes of an open loop get schedules of their own, the same for every engine.
    """
    arrivals = configuration.arrivals
    return configuration_pb2.Configuration(
        device=configuration.device,
        batch=configuration.batch,
        cores=configuration.cores,
        streams=configuration.streams,
        precision=configuration.precision,
        hint=_HINTS[configuration.hint],
        load=_LOADS[configuration.load],
        requests=configuration.requests,
        inputs=[to_input(tensor) for tensor in configuration.inputs],
        input_set=to_input_set(configuration.input_set),
        options=dict(configuration.options),
        stop=to_stop_rule(configuration.stop),
        arrivals=to_arrivals(arrivals, configuration.input_set.seed + process) if arrivals else None,
        cluster=configuration.cluster,
    )


def from_configuration(message: configuration_pb2.Configuration) -> Configuration:
    """The inverse of `to_configuration`."""
    return Configuration(
        device=message.device,
        batch=message.batch,
        cores=message.cores,
        streams=message.streams,
        precision=message.precision,
        hint=_key_of(_HINTS, message.hint),
        load=_key_of(_LOADS, message.load),
        requests=message.requests,
        arrivals=from_arrivals(message.arrivals) if message.HasField("arrivals") else None,
        inputs=tuple(from_input(tensor) for tensor in message.inputs),
        input_set=from_input_set(message.input_set),
        options=dict(message.options),
        stop=from_stop_rule(message.stop),
        cluster=message.cluster,
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
    process = _ARRIVAL_PROCESSES[arrivals.process]
    return configuration_pb2.Arrivals(process=process, rate_per_s=arrivals.rate_per_s, seed=seed)


def from_arrivals(message: configuration_pb2.Arrivals) -> Arrivals:
    """The inverse of `to_arrivals`, but for the seed, which belongs to one process."""
    return Arrivals(message.rate_per_s, _key_of(_ARRIVAL_PROCESSES, message.process))


def to_input_set(inputs: InputSet) -> configuration_pb2.InputSet:
    """The origin of a run's inputs as the wire carries it."""
    items = [configuration_pb2.InputItem(files=map(to_input_file, files)) for files in inputs.items]
    values = map(to_input_values, inputs.values)
    return configuration_pb2.InputSet(
        seed=inputs.seed, count=inputs.count, name=inputs.name, items=items, values=values
    )


def from_input_set(message: configuration_pb2.InputSet) -> InputSet:
    """The inverse of `to_input_set`."""
    items = tuple(tuple(from_input_file(file) for file in item.files) for item in message.items)
    values = tuple(map(from_input_values, message.values))
    return InputSet(seed=message.seed, count=message.count, name=message.name, items=items, values=values)


def to_input_values(values: InputValues) -> configuration_pb2.InputValues:
    """What an input is filled with as the wire carries it."""
    if isinstance(values.lowest, int) and isinstance(values.highest, int):
        integers = configuration_pb2.IntegerRange(lowest=values.lowest, highest=values.highest)
        return configuration_pb2.InputValues(input=values.input, integers=integers)
    numbers = configuration_pb2.NumberRange(lowest=values.lowest, highest=values.highest)
    return configuration_pb2.InputValues(input=values.input, numbers=numbers)


def from_input_values(message: configuration_pb2.InputValues) -> InputValues:
    """The inverse of `to_input_values`."""
    found = message.integers if message.HasField("integers") else message.numbers
    return InputValues(message.input, found.lowest, found.highest)


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
    return InputTensor(message.name, message.dtype, tuple(message.shape), optional(message, "integer_bound"))


def _key_of(table: Mapping[Any, int], value: int) -> Any:
    return next(key for key, number in table.items() if number == value)
