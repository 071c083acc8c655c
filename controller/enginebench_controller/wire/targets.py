"""What a target says of itself: host facts, engines, and what its calibrations found."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from enginebench_controller.records import (
    AvailableEngine,
    Cache,
    CoreCluster,
    Device,
    Engine,
    EngineOption,
    EngineRef,
    FileFormat,
    HostFacts,
    Peak,
    PeakKind,
    Rate,
    Reservation,
    UnavailableEngine,
    UnavailableKind,
)
from enginebench_controller.wire.fields import (
    MAX_BATCHES,
    MAX_DETAIL_CHARS,
    MAX_LISTED,
    MAX_REASON_CHARS,
    optional,
    short,
    shorts,
)
from enginebench_proto.v1 import device_pb2, engine_pb2, host_pb2, peaks_pb2, reservation_pb2

_MOST_BYTES = 256
"""Of a file's beginning: what an agent tells is at most that."""

_KINDS = {peaks_pb2.PEAK_KIND_FLOPS: PeakKind.FLOPS, peaks_pb2.PEAK_KIND_BANDWIDTH: PeakKind.BANDWIDTH}


def from_peak(message: peaks_pb2.Peak, target: str, cpu_model: str | None = None) -> Peak | None:
    """A peak of this target, and of its processor if that is known; None for a kind that only a newer agent knows."""
    if message.kind not in _KINDS:
        return None
    return Peak(
        target=target,
        engine=EngineRef(message.engine, message.environment, short(message.engine_version) or None),
        device=message.device,
        cores=message.cores,
        kind=_KINDS[message.kind],
        what=message.what,
        measured_at_unix_ns=message.measured_at_unix_ns,
        precision=message.precision or None,
        working_set_bytes=message.working_set_bytes or None,
        may_be_winograd=message.may_be_winograd,
        provider=message.provider,
        rate=_from_rate(message.rate) if message.HasField("rate") else None,
        failure=message.failure or None,
        cpu_model=cpu_model,
    )


def _from_rate(message: peaks_pb2.Rate) -> Rate:
    return Rate(
        median_per_s=message.median_per_s,
        low_per_s=message.low_per_s,
        high_per_s=message.high_per_s,
        blocks=message.blocks,
        disturbed_blocks=message.disturbed_blocks,
        disturbed=message.disturbed,
    )


def from_host(message: host_pb2.HostFacts) -> HostFacts:
    """What an agent told of its machine."""
    return HostFacts(
        hostname=message.hostname,
        os=message.os,
        kernel=message.kernel,
        architecture=message.architecture,
        agent_version=message.agent_version,
        python_version=message.python_version,
        cpu_model=optional(message, "cpu_model"),
        physical_cores=optional(message, "physical_cores"),
        logical_cores=optional(message, "logical_cores"),
        cpu_quota_cores=optional(message, "cpu_quota_cores"),
        memory_bytes=optional(message, "memory_bytes"),
        isa=tuple(message.isa),
        tuned=tuple(message.tuned),
        wire_revision=message.wire_revision or None,
        emulation=optional(message, "emulation"),
        virtualization=optional(message, "virtualization"),
        clusters=tuple(map(_from_cluster, message.clusters[:MAX_LISTED])),
        caches=tuple(Cache(m.level, short(m.type), m.size_bytes, m.count) for m in message.caches[:MAX_LISTED]),
    )


def from_reservation(message: reservation_pb2.Reservation) -> Reservation:
    """Who has reserved a target; words are bounded."""
    return Reservation(
        holder=short(message.holder) or None,
        left_ns=message.left_ns,
        reason=short(message.reason, MAX_REASON_CHARS),
        is_yours=message.yours,
    )


def _from_cluster(message: host_pb2.CoreCluster) -> CoreCluster:
    return CoreCluster(
        name=short(message.name),
        physical_cores=message.physical_cores,
        model=optional(message, "model"),
        capacity=optional(message, "capacity"),
        max_frequency_hz=optional(message, "max_frequency_hz"),
    )


def from_engine(message: engine_pb2.Engine) -> Engine:
    """One engine in one environment; its words are bounded."""
    listed: dict[str, Any] = {
        "name": short(message.name),
        "environment": short(message.environment.name),
        "python_version": short(message.environment.python_version),
        "distribution": short(message.distribution, MAX_REASON_CHARS),
        "hidden": message.hidden,
    }
    if not message.HasField("available"):
        return _from_unavailable(message.unavailable, listed)
    available = message.available
    devices = tuple(map(_from_device, available.devices[:MAX_LISTED]))
    return AvailableEngine(
        **listed,
        version=short(available.version),
        formats=tuple(shorts(available.formats)),
        loads=tuple(shorts(available.loads)),
        hints=tuple(shorts(available.hints)),
        multiple_streams=available.multiple_streams,
        single_threaded=available.single_threaded,
        profiling=available.profiling,
        options=tuple(map(_from_option, available.options[:MAX_LISTED])),
        devices=devices,
        more_devices=available.more_devices + len(available.devices) - len(devices),
        own_formats=tuple(map(_from_file_format, available.own_formats[:MAX_LISTED])),
        batches=tuple(available.batches[:MAX_BATCHES]),
    )


def _from_file_format(message: engine_pb2.FileFormat) -> FileFormat:
    return FileFormat(
        name=short(message.name),
        suffixes=tuple(shorts(message.suffixes)),
        companions=tuple(shorts(message.companions)),
        begins=tuple((one.offset, one.content[:_MOST_BYTES].hex()) for one in message.begins[:MAX_LISTED]),
        runs_code=message.runs_code,
    )


def _from_option(message: engine_pb2.EngineOption) -> EngineOption:
    return EngineOption(
        name=short(message.name),
        type=short(message.type),
        choices=tuple(shorts(message.choices)),
        help=short(message.help, MAX_REASON_CHARS),
        profile_only=message.profile_only,
    )


def _from_device(message: device_pb2.Device) -> Device:
    return Device(
        name=short(message.name),
        full_name=short(message.full_name),
        precisions=tuple(shorts(message.precisions)),
        resources=tuple(shorts(message.resources)),
        properties={short(name): short(value) for name, value in islice(message.properties.items(), MAX_LISTED)},
    )


def _from_unavailable(message: engine_pb2.UnavailableEngine, listed: Mapping[str, Any]) -> UnavailableEngine:
    known = message.kind in engine_pb2.UnavailableKind.values()  # a newer agent may have more of them
    kind = engine_pb2.UnavailableKind.Name(message.kind if known else 0).removeprefix("UNAVAILABLE_KIND_").lower()
    return UnavailableEngine(
        **listed,
        kind=UnavailableKind(kind),
        reason=short(message.reason, MAX_REASON_CHARS),
        detail=short(message.detail, MAX_DETAIL_CHARS),
    )
