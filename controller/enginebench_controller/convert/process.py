"""What one process of a measurement did, with the outputs it captured."""

from dataclasses import replace

from enginebench_controller.convert.bounds import short, shorts
from enginebench_controller.convert.presence import optional
from enginebench_controller.convert.run import from_effective, from_phases
from enginebench_controller.records import (
    Afterwards,
    Bystanders,
    Calibration,
    CapturedOutput,
    MachineUse,
    Process,
    ProcessUse,
    StopReason,
    WarmUp,
)
from enginebench_controller.records.float32_bytes import from_float32_bytes, to_float32_bytes
from enginebench_proto.v1 import measurement_pb2, run_pb2

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
        iterations=message.iterations or None,
        steady_state_ns=message.steady_state_ns or None,
        cpu_time_ns=optional(message, "cpu_time_ns"),
        scheduled_arrivals=optional(message, "scheduled_arrivals"),
        unsent_arrivals=optional(message, "unsent_arrivals"),
        clock_jump_ns=optional(message, "clock_jump_ns"),
        agent_paused_ns=optional(message, "agent_paused_ns"),
        afterwards=from_afterwards(message.afterwards) if message.HasField("afterwards") else None,
        bystanders=from_bystanders(message.bystanders) if message.HasField("bystanders") else None,
    )


def from_calibration(message: measurement_pb2.Calibration) -> Calibration:
    """What measuring itself cost."""
    return Calibration(message.timer_ns, message.empty_loop_ns, message.block_ns)


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
