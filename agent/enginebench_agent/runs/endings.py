"""How a run ended: without numbers, as a typed failure by pure functions; and in words for log lines and metrics."""

from dataclasses import dataclass
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from pathlib import Path
from typing import Any

from enginebench_agent.runs.child import ChildExit
from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits
from enginebench_proto.v1.run_pb2 import (
    FAILURE_KIND_CANCELLED,
    FAILURE_KIND_CRASHED,
    FAILURE_KIND_ENGINE_UNAVAILABLE,
    FAILURE_KIND_INFERENCE_FAILED,
    FAILURE_KIND_INTERNAL,
    FAILURE_KIND_OUT_OF_MEMORY,
    FAILURE_KIND_REFUSED,
    FAILURE_KIND_SHORTAGE,
    FAILURE_KIND_TIMED_OUT,
    OUTCOME_CANCELLED,
    OUTCOME_FAILED,
    Failure,
    FailureKind,
    Outcome,
    RunKind,
    RunResult,
)

NONE = "none"


@dataclass(frozen=True)
class RunEnding:
    """How a run of this kind ended; `failure` is the kind of its failure, `NONE` where there is none."""

    kind: str
    outcome: str
    failure: str


def ending_of(result: RunResult) -> RunEnding:
    """How the run of this result ended."""
    return RunEnding(
        kind=kind_word(result.spec.kind),
        outcome=_word(Outcome, result.outcome),
        failure=_word(FailureKind, result.failure.kind) if result.HasField("failure") else NONE,
    )


def kind_word(kind: RunKind) -> str:
    """RUN_KIND_MEASURE → "measure"."""
    return _word(RunKind, kind)


def _word(values: Any, number: int) -> str:
    """Its name without the enum's; "unspecified" for a number without one, as only a child gone wild sends it."""
    prefix = values.Name(0).removesuffix("UNSPECIFIED")
    return str(values.Name(number if number in values.values() else 0)).removeprefix(prefix).lower()


# What the C++ runtimes print before they abort because an allocation failed.
_BAD_ALLOC = ("std::bad_alloc", "std::bad_array_new_length")


SHORTAGES = {
    EMFILE: "the agent may not have more files open: allow it more (LimitNOFILE= of its service, or `ulimit -n`)",
    ENFILE: "the agent's machine has more files open than it can: end programs there",
    EAGAIN: "the agent may not start more processes: allow it more (TasksMax= of its service, or `ulimit -u`)",
    ENOMEM: "the agent's machine has no memory left to start a process: end programs there",
}
"""What the machine did not give, by errno; nothing of the engine is broken then.

Cause and cure alone: what is to be repeated then, a run, a pass or a search, knows only who asked for it.
"""


def failed(failure: Failure) -> RunResult:
    """The result of a run that failed or was cancelled."""
    cancelled = failure.kind == FAILURE_KIND_CANCELLED
    return RunResult(outcome=OUTCOME_CANCELLED if cancelled else OUTCOME_FAILED, failure=failure)


def of_exit(end: ChildExit, phase: str, limits: ChildLimits = NO_LIMITS, *, oom_killed: bool) -> Failure:
    """A child that ended without a result. `oom_killed`: the kernel killed something for memory meanwhile."""
    kind, message = _over_limit(end, _where(phase), limits) or _judged(end, _where(phase), limits, oom_killed)
    return Failure(
        kind=kind,
        message=message,
        signal=end.signal_name,
        exit_code=end.exit_code,
        stderr_tail=end.stderr_tail,
        phase=phase,
    )


def of_time_limit(end: ChildExit, phase: str, limit_seconds: float) -> Failure:
    """A child that was killed because its time was up; that signal was ours and is not reported."""
    return Failure(
        kind=FAILURE_KIND_TIMED_OUT,
        message=f"the engine did not finish within {limit_seconds:g} s and was stopped {_where(phase)}: "
        "allow it more with --timeout, or with max_run_seconds in the agent's agent.toml",
        stderr_tail=end.stderr_tail,
        phase=phase,
    )


def of_memory_limit(end: ChildExit, phase: str, limits: ChildLimits) -> Failure:
    """A child that was killed because it held more memory than it may; that signal was ours and is not reported."""
    return Failure(
        kind=FAILURE_KIND_OUT_OF_MEMORY,
        message=f"the engine took more memory than it may and was stopped {_where(phase)}{limits.memory_sentence}",
        stderr_tail=end.stderr_tail,
        phase=phase,
    )


def of_cancellation(phase: str) -> Failure:
    """A run that somebody cancelled, or that the agent gave up because it was stopped."""
    return Failure(kind=FAILURE_KIND_CANCELLED, message=f"the run was cancelled {_where(phase)}", phase=phase)


def of_reservation(reason: str) -> Failure:
    """A run that waited, and would do so for longer than it may, for somebody who has reserved the target since.

    It says nothing of what was to run: who begins it anew is told the same at once. `reason` is a sentence.
    """
    return Failure(kind=FAILURE_KIND_CANCELLED, message=reason)


def of_unstartable(reason: str, number: int | None = None) -> Failure:
    """An environment whose interpreter cannot be started, for the cause of that errno."""
    if number in SHORTAGES:
        return _short(SHORTAGES[number], detail=reason)
    return Failure(
        kind=FAILURE_KIND_ENGINE_UNAVAILABLE,
        message="the environment of this engine is broken; remove it and add it again",
        detail=reason,
    )


def of_oversize(reason: str, phase: str) -> Failure:
    """A run that measured more than an agent keeps of one. `reason` is a sentence."""
    return Failure(kind=FAILURE_KIND_REFUSED, message=reason, phase=phase)


def of_clock(seen_ns: int, told_ns: int, phase: str) -> Failure:
    """A child that counted another time than the agent did for what it measured."""
    return Failure(
        kind=FAILURE_KIND_INFERENCE_FAILED,
        message=f"the engine's process counted {told_ns / 1e9:.3f} s while {seen_ns / 1e9:.3f} s went by on the "
        "agent's clock: something in it changes Python's clock (time.perf_counter_ns), so its times do not count; "
        "use a plugin that leaves the clock alone",
        phase=phase,
    )


def of_shortage(number: int, phase: str) -> Failure:
    """A run for which the agent could not get one of `SHORTAGES`."""
    return _short(SHORTAGES[number], phase)


def of_full_disk(phase: str) -> Failure:
    """A run whose blocks or result found no room on the agent's disk."""
    return _short("the agent's disk is full: make room in its data folder", phase)


def of_unwritten(error: Exception) -> Failure:
    """A run whose result the agent could not keep, for no want of room: its folder is gone or not its own, say.

    That tells nothing of the engine either, but for a defect of ours.
    """
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        text = f"the agent cannot write to its data folder ({error.strerror}): see that it is there, and its own"
        return _short(text, detail=reason)
    return of_defect("the agent could not write the result; its log on standard error tells why", detail=reason)


def _short(message: str, phase: str = "", detail: str = "") -> Failure:
    return Failure(kind=FAILURE_KIND_SHORTAGE, message=message, detail=detail, phase=phase)


def of_damage(folder: Path, reason: str) -> Failure:
    """A run whose result, or a block of it, the disk has not kept as it was written. `folder`: where it lies now."""
    text = f"what the agent kept of this run was damaged on its disk; it lies in {folder} now: run it again"
    return of_defect(text, detail=reason)


def of_defect(message: str, phase: str = "", detail: str = "") -> Failure:
    """Something that only a defect of enginebench or a broken disk explains."""
    return Failure(kind=FAILURE_KIND_INTERNAL, message=message, detail=detail, phase=phase)


def _over_limit(end: ChildExit, where: str, limits: ChildLimits) -> tuple[FailureKind, str] | None:
    """What the kernel itself ended a child for, where that is one of its limits."""
    if end.signal_name == "SIGXCPU":
        return FAILURE_KIND_TIMED_OUT, f"the engine used all its processor time {where}{limits.cpu_sentence}"
    if end.signal_name == "SIGXFSZ":
        return FAILURE_KIND_REFUSED, f"the engine wrote a file larger than it may {where}{limits.file_sentence}"
    return None


def _judged(end: ChildExit, where: str, limits: ChildLimits, oom_killed: bool) -> tuple[FailureKind, str]:
    if end.signal_name == "SIGKILL" and oom_killed:
        return FAILURE_KIND_OUT_OF_MEMORY, f"the kernel killed the engine for want of memory {where}"
    if any(text in end.stderr_tail for text in _BAD_ALLOC):
        return FAILURE_KIND_OUT_OF_MEMORY, f"the engine ran out of memory {where}{limits.memory_sentence}"
    if end.signal_name:
        return FAILURE_KIND_CRASHED, f"the engine's process was ended by {end.signal_name} {where}"
    return (
        FAILURE_KIND_CRASHED,
        f"the engine ended its process with exit code {end.exit_code} {where}, without a result",
    )


def _where(phase: str) -> str:
    return f"in phase {phase}" if phase else "before its first phase"
