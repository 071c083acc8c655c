"""What is told of every run: how it ended, its phases and what its engine really used."""

from typing import Any

from enginebench_controller.convert.bounds import MAX_DETAIL_CHARS, MAX_MESSAGE_CHARS, short
from enginebench_controller.convert.presence import optional
from enginebench_controller.records import Effective, Failure, FailureKind, Phase, Readback, ReadbackSource, Status
from enginebench_controller.records.cause import cause, last_words
from enginebench_proto.v1 import measurement_pb2, run_pb2

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
