"""Endings: whether a run came to numbers, and why not."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a measurement or profile ended."""

    OK = "ok"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_numbers(self) -> bool:
        """Whether a measurement that ended so has statistics, be they as sure as was asked for or not."""
        return self in (Status.OK, Status.INCONCLUSIVE)


class FailureKind(StrEnum):
    """Why there are no numbers; the same names as on the wire."""

    ENGINE_UNAVAILABLE = "engine_unavailable"
    COMPILE_FAILED = "compile_failed"
    INFERENCE_FAILED = "inference_failed"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    AGENT_LOST = "agent_lost"
    INTERNAL = "internal"


@dataclass(frozen=True)
class Failure:
    """Why a run has no numbers: `message` is a sentence for a person, `detail` the engine's own words.

    `cause` is the line of these words that tells, which the message holds, too; "" where there is none.
    """

    kind: FailureKind
    message: str
    detail: str = ""
    signal: str = ""
    exit_code: int | None = None
    stderr_tail: str = ""
    phase: str = ""
    cause: str = ""
