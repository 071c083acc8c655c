"""What a target says of itself: host facts, engines, and what its calibrations found."""

from itertools import islice
from typing import Any

from enginebench_controller.records import EngineRef, HostFacts, Peak, PeakKind, Rate
from enginebench_controller.wire.fields import MAX_DETAIL_CHARS, MAX_LISTED, MAX_REASON_CHARS, optional, short, shorts
from enginebench_proto.v1 import engine_pb2, host_pb2, peaks_pb2

_KINDS = {peaks_pb2.PEAK_KIND_FLOPS: PeakKind.FLOPS, peaks_pb2.PEAK_KIND_BANDWIDTH: PeakKind.BANDWIDTH}


def from_peak(message: peaks_pb2.Peak, target: str) -> Peak | None:
    """A peak of this target; None for a kind that only a newer agent knows."""
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
    )


def from_engine(message: engine_pb2.Engine) -> dict[str, Any]:
    """One engine in one environment as plain data, in the form of `TargetSnapshot.engines`."""
    state = {"available": None, "unavailable": None}
    if message.HasField("available"):
        state["available"] = _from_available(message.available)
    else:
        state["unavailable"] = _from_unavailable(message.unavailable)
    return {
        "name": short(message.name),
        "environment": short(message.environment.name),
        "python_version": short(message.environment.python_version),
        "distribution": short(message.distribution, MAX_REASON_CHARS),
        "hidden": message.hidden,
        **state,
    }


def _from_available(message: engine_pb2.AvailableEngine) -> Any:
    options = [
        {
            "name": short(option.name),
            "type": short(option.type),
            "choices": shorts(option.choices),
            "help": short(option.help, MAX_REASON_CHARS),
            "profile_only": option.profile_only,
        }
        for option in message.options[:MAX_LISTED]
    ]
    devices = [
        {
            "name": short(device.name),
            "full_name": short(device.full_name),
            "precisions": shorts(device.precisions),
            "resources": shorts(device.resources),
            "properties": {short(k): short(v) for k, v in islice(device.properties.items(), MAX_LISTED)},
        }
        for device in message.devices[:MAX_LISTED]
    ]
    return {
        "version": short(message.version),
        "formats": shorts(message.formats),
        "loads": shorts(message.loads),
        "hints": shorts(message.hints),
        "multiple_streams": message.multiple_streams,
        "profiling": message.profiling,
        "options": options,
        "devices": devices,
        "more_devices": message.more_devices + len(message.devices) - len(devices),
    }


def _from_unavailable(message: engine_pb2.UnavailableEngine) -> Any:
    known = message.kind in engine_pb2.UnavailableKind.values()  # a newer agent may have more of them
    kind = engine_pb2.UnavailableKind.Name(message.kind if known else 0).removeprefix("UNAVAILABLE_KIND_").lower()
    reason, detail = short(message.reason, MAX_REASON_CHARS), short(message.detail, MAX_DETAIL_CHARS)
    return {"kind": kind, "reason": reason, "detail": detail}
