"""What a calibration found."""

from enginebench_controller.convert.bounds import short
from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate
from enginebench_proto.v1 import peaks_pb2

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
