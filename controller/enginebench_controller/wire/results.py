"""What came of a run: its outcome, phases and readbacks, processes, blocks with samples, outputs, and layers."""

from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from enginebench_controller.records import (
    Afterwards,
    Block,
    BlockSamples,
    Bystanders,
    CapturedOutput,
    Disturbance,
    DisturbanceKind,
    Effective,
    Evidence,
    Failure,
    FailureKind,
    Layer,
    LayerState,
    MachineUse,
    MeasuringCost,
    Phase,
    Process,
    ProcessUse,
    Readback,
    ReadbackSource,
    Status,
    StopReason,
    WarmUp,
)
from enginebench_controller.records.cause import cause, last_words
from enginebench_controller.records.fields import from_float32_bytes, to_float32_bytes
from enginebench_controller.records.figures import values
from enginebench_controller.wire.fields import (
    MAX_DETAIL_CHARS,
    MAX_MESSAGE_CHARS,
    optional,
    short,
    shorts,
    told_figures,
)
from enginebench_proto.v1 import measurement_pb2, profile_pb2, run_pb2

_LAYER_STATES = {
    profile_pb2.LAYER_STATE_EXECUTED: LayerState.EXECUTED,
    profile_pb2.LAYER_STATE_NOT_EXECUTED: LayerState.NOT_EXECUTED,
    profile_pb2.LAYER_STATE_OPTIMIZED_AWAY: LayerState.OPTIMIZED_AWAY,
}


def from_layer(message: profile_pb2.Layer) -> Layer:
    """One executed layer."""
    return Layer(
        name=message.name,
        type=message.type,
        order=message.order,
        state=_LAYER_STATES.get(message.state, LayerState.NO_DATA),
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


_STATUSES = {
    run_pb2.OUTCOME_OK: Status.OK,
    run_pb2.OUTCOME_INCONCLUSIVE: Status.INCONCLUSIVE,
    run_pb2.OUTCOME_FAILED: Status.FAILED,
    run_pb2.OUTCOME_CANCELLED: Status.CANCELLED,
}

_SOURCES = {
    measurement_pb2.READBACK_SOURCE_ENGINE_API: ReadbackSource.ENGINE_API,
    measurement_pb2.READBACK_SOURCE_OBSERVED: ReadbackSource.OBSERVED,
    measurement_pb2.READBACK_SOURCE_ASSUMED: ReadbackSource.ASSUMED,
}


def from_outcome(outcome: run_pb2.Outcome) -> Status:
    """How a run ended; what a newer agent may say beyond that counts as failed."""
    return _STATUSES.get(outcome, Status.FAILED)


def from_failure(message: run_pb2.Failure) -> Failure:
    """A typed failure whose message holds the cause in one line; an unknown kind from a newer agent is `internal`."""
    name = run_pb2.FailureKind.Name(message.kind) if message.kind in run_pb2.FailureKind.values() else ""
    kind = name.removeprefix("FAILURE_KIND_").lower()
    known = kind in set(FailureKind)
    why = cause(message.detail) if message.detail.strip() else last_words(message.stderr_tail)
    text = short(_told(message, why), MAX_MESSAGE_CHARS)
    return Failure(
        kind=FailureKind(kind) if known else FailureKind.INTERNAL,
        message=text if known else f"{text} (a kind of failure that is newer than this version)",
        detail=short(message.detail, MAX_DETAIL_CHARS),
        signal=short(message.signal),
        exit_code=optional(message, "exit_code"),
        stderr_tail=short(message.stderr_tail, MAX_DETAIL_CHARS),
        phase=short(message.phase),
        cause=short(why, MAX_MESSAGE_CHARS),
    )


def _told(message: run_pb2.Failure, why: str) -> str:
    """The agent's sentence with the cause out of the engine's own words, which may be many lines."""
    said, words = message.message, message.detail.strip()
    whole = said.replace(words, why) if words and words in said else said
    told = " ".join(whole.split())
    return told if not why or why in told else f"{told.rstrip('.')}: {why}"


def from_effective(message: measurement_pb2.Effective) -> Effective:
    """What the engine really used; fields the agent left out stay None."""
    fields = ("threads", "streams", "precision", "provider", "isa")
    readbacks = {name: from_readback(getattr(message, name)) for name in fields if message.HasField(name)}
    return Effective(**readbacks, affinity=tuple(message.affinity), prepared=tuple(message.prepared))


def from_readback(
    message: measurement_pb2.IntegerReadback | measurement_pb2.TextReadback,
) -> Readback | None:
    """A value with its source; None when the source is not one this version knows."""
    source = _SOURCES.get(message.source)
    value = short(message.value) if isinstance(message.value, str) else message.value
    return None if source is None else Readback(value, source)


def from_phases(messages: Any) -> tuple[Phase, ...]:
    """The phases of a run in their order."""
    return tuple(
        Phase(m.name, m.duration_ns, optional(m, "peak_rss_bytes"), optional(m, "paused_ns")) for m in messages
    )


_DISTURBANCE_KINDS = {
    measurement_pb2.DISTURBANCE_KIND_STEAL: DisturbanceKind.STEAL,
    measurement_pb2.DISTURBANCE_KIND_OTHER_PROCESSES: DisturbanceKind.OTHER_PROCESSES,
    measurement_pb2.DISTURBANCE_KIND_THROTTLED: DisturbanceKind.THROTTLED,
    measurement_pb2.DISTURBANCE_KIND_MEMORY_PRESSURE: DisturbanceKind.MEMORY_PRESSURE,
    measurement_pb2.DISTURBANCE_KIND_FREQUENCY: DisturbanceKind.FREQUENCY,
    measurement_pb2.DISTURBANCE_KIND_PAUSED: DisturbanceKind.PAUSED,
    measurement_pb2.DISTURBANCE_KIND_HELD_BACK: DisturbanceKind.HELD_BACK,
}
_DISTURBANCES = {kind: number for number, kind in _DISTURBANCE_KINDS.items()} | {
    DisturbanceKind.SOMETHING_ELSE: measurement_pb2.DISTURBANCE_KIND_UNSPECIFIED
}

_SERIES = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns")


def to_block(block: Block) -> measurement_pb2.Block:
    """One block as the wire carries it, where its process is known from the run."""
    return measurement_pb2.Block(
        index=block.index,
        **values(block),
        evidence=to_evidence(block.evidence),
        disturbances=map(str, block.disturbances),
        disturbed_by=map(to_disturbance, block.disturbances),
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
        disturbances=from_disturbances(message),
        paused_ns=optional(message, "paused_ns"),
    )


def to_disturbance(disturbance: Disturbance) -> measurement_pb2.Disturbance:
    """One disturbance as the wire carries it; of a kind that is not on the wire only its phrase tells."""
    return measurement_pb2.Disturbance(
        kind=_DISTURBANCES[disturbance.kind],
        share=disturbance.share,
        duration_ns=disturbance.duration_ns,
        frequency_hz=disturbance.frequency_hz,
    )


def from_disturbances(message: measurement_pb2.Block) -> tuple[Disturbance, ...]:
    """What disturbed a block. Where an agent is older, or newer and knows more kinds, its phrase is read instead."""
    told = zip_longest(message.disturbed_by, message.disturbances, fillvalue=None)
    return tuple(_from_disturbance(one, phrase) for one, phrase in told)


def _from_disturbance(message: measurement_pb2.Disturbance | None, phrase: str | None) -> Disturbance:
    kind = _DISTURBANCE_KINDS.get(message.kind) if message else None
    if message is None or kind is None:
        return Disturbance.from_phrase(phrase or "")
    amounts = {name: optional(message, name) for name in ("share", "duration_ns", "frequency_hz")}
    return Disturbance(kind, **amounts)


def to_evidence(evidence: Evidence) -> measurement_pb2.Evidence:
    """What a machine was doing, as the wire carries it: unknown fields stay absent."""
    return measurement_pb2.Evidence(**values(evidence), missing=dict(evidence.missing))


def from_evidence(message: measurement_pb2.Evidence) -> Evidence:
    """The inverse of `to_evidence`."""
    return Evidence(**told_figures(message, Evidence), missing=dict(message.missing))


def to_samples(samples: BlockSamples) -> measurement_pb2.Samples:
    """Raw samples of one block as the wire carries them."""
    series = {name: getattr(samples, name) for name in _SERIES if getattr(samples, name) is not None}
    return measurement_pb2.Samples(block=samples.block, **{name: values.tolist() for name, values in series.items()})


def from_samples(message: measurement_pb2.Samples, process: int) -> BlockSamples:
    """The inverse of `to_samples`; also of a part of a block's samples."""
    latency_ns, *instants = (np.fromiter(getattr(message, name), dtype=np.int64) for name in _SERIES)
    known = [values if values.size else None for values in instants]
    return BlockSamples(process, message.block, latency_ns, *known)


_STOP_REASONS = {
    measurement_pb2.STOP_REASON_TARGET_MET: StopReason.TARGET_MET,
    measurement_pb2.STOP_REASON_MAX_DURATION: StopReason.MAX_DURATION,
    measurement_pb2.STOP_REASON_DISTURBED: StopReason.DISTURBED,
}

_MOST = 8
"""Names taken over, whatever an agent tells."""


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
        stop_reason=_STOP_REASONS.get(message.stop_reason),
        **told_figures(message, Process),
        afterwards=from_afterwards(message.afterwards) if message.HasField("afterwards") else None,
        bystanders=from_bystanders(message.bystanders) if message.HasField("bystanders") else None,
    )


def from_calibration(message: measurement_pb2.Calibration) -> MeasuringCost:
    """What measuring itself cost."""
    return MeasuringCost(message.timer_ns, message.empty_loop_ns, message.block_ns)


def from_afterwards(message: measurement_pb2.Afterwards) -> Afterwards:
    """What the engine did after the timed blocks."""
    return Afterwards(
        optional(message, "late_difference"),
        optional(message, "repeat_difference"),
        tuple(message.seen_ns),
        tuple(message.fresh_ns),
    )


def from_warm_up(message: measurement_pb2.WarmUp) -> WarmUp:
    """How a warm-up went."""
    return WarmUp(None if message.undecided else message.steady, message.iterations, message.reason)


def from_bystanders(message: measurement_pb2.Bystanders) -> Bystanders:
    """Who else used the machine."""
    return Bystanders(
        before=from_machine_use(message.before) if message.HasField("before") else None,
        waited_ns=message.waited_ns,
        meanwhile=from_machine_use(message.meanwhile) if message.HasField("meanwhile") else None,
        quota_cores=optional(message, "quota_cores"),
        unseen=tuple(shorts(message.unseen)),
    )


def from_machine_use(message: measurement_pb2.MachineUse) -> MachineUse | None:
    """What others used; None of a stretch that has no length."""
    if not message.duration_ns or not message.processors:
        return None
    return MachineUse(
        message.duration_ns,
        message.processors,
        message.other_cpu_time_ns,
        message.steal_ns,
        tuple(ProcessUse(short(one.name), one.pid, one.count, one.cpu_time_ns) for one in message.busiest[:_MOST]),
    )


def to_captured_output(output: CapturedOutput) -> measurement_pb2.CapturedOutput:
    """One captured output as the wire carries it."""
    return measurement_pb2.CapturedOutput(
        input_index=output.input_index,
        name=output.name,
        dtype=output.dtype,
        shape=output.shape,
        values=to_float32_bytes(output.values),
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
        values=from_float32_bytes(message.values),
    )
