"""What can go wrong in an agent: a code, a sentence, its gRPC status, what it means, what to do: all in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto
from typing import ClassVar

from enginebench_proto.agreed.words import BUSY, DISK_FULL, RESERVED


class ErrorCode(StrEnum):
    """The kinds of refusal a caller can meet; on the wire, and in the log, by these words."""

    INVALID = auto()
    NOT_FOUND = auto()
    NOT_READY = auto()
    DIFFERENT_RUN = auto()
    UPLOAD_UNDER_WAY = auto()
    DISK_FULL = DISK_FULL
    TOO_LARGE = auto()
    BUSY = BUSY
    RESERVED = RESERVED
    SHUTTING_DOWN = auto()
    NEWER_REQUEST = auto()
    DEFECT = auto()
    UNAUTHENTICATED = auto()
    FORBIDDEN = auto()


class ExitCode(IntEnum):
    """The exit codes of `enginebench-agent`."""

    OK = 0
    UNHEALTHY = 1
    USAGE = 2
    INTERRUPTED = 130


class AgentError(Exception):
    """Base: the text is a sentence for the person at the controller that says what, where and what to do."""

    code: ClassVar[ErrorCode]


class InvalidRequestError(AgentError):
    """A name, digest, configuration or content that can never be accepted."""

    code = ErrorCode.INVALID


class NotFoundError(AgentError):
    """The agent knows no such run, file, engine or device."""

    code = ErrorCode.NOT_FOUND


class NotReadyError(AgentError):
    """The request is sound, but something else has to happen first."""

    code = ErrorCode.NOT_READY


class DifferentRunError(AgentError):
    """The run id already belongs to a run with another specification."""

    code = ErrorCode.DIFFERENT_RUN


class UploadUnderWayError(AgentError):
    """Another caller is sending the same file, or was, after this one asked how much of it is there."""

    code = ErrorCode.UPLOAD_UNDER_WAY


class DiskFullError(AgentError):
    """The disk of the agent's data folder has no room, or what the agent may use of it."""

    code = ErrorCode.DISK_FULL


class TooLargeError(AgentError):
    """A file that would fit into no empty cache of this agent either."""

    code = ErrorCode.TOO_LARGE


class BusyError(AgentError):
    """The agent has as much to do as its owner allows."""

    code = ErrorCode.BUSY


class ReservedError(AgentError):
    """The target is there for another name alone."""

    code = ErrorCode.RESERVED


class ShuttingDownError(AgentError):
    """The agent is about to stop."""

    code = ErrorCode.SHUTTING_DOWN


class NewerRequestError(AgentError):
    """The request says something that came with a later version than this agent's."""

    code = ErrorCode.NEWER_REQUEST


class DefectError(AgentError):
    """Something nobody foresaw; what exactly stands in the agent's log."""

    code = ErrorCode.DEFECT


class UnauthenticatedError(AgentError):
    """Nobody this agent knows: no certificate, or one that ended or was revoked."""

    code = ErrorCode.UNAUTHENTICATED


class ForbiddenError(AgentError):
    """The caller is known, but its role does not allow that."""

    code = ErrorCode.FORBIDDEN


class SetupError(Exception):
    """The command line cannot do what was asked; the text is one sentence, and the exit code is 2."""


@dataclass(frozen=True)
class KnownError:
    """What an error means and what who meets it can do, in sentences; `status` is its name in grpc.StatusCode.

    By name, since workers read this too, and must not load gRPC.
    """

    status: str
    meaning: str
    remedy: str


@dataclass(frozen=True)
class KnownExit:
    """What an exit code means, and what to do; both are sentences."""

    meaning: str
    remedy: str


ERRORS: Mapping[ErrorCode, KnownError] = {
    ErrorCode.INVALID: KnownError(
        "INVALID_ARGUMENT",
        "A name, digest, configuration, option or content that can never be accepted.",
        "Correct what the sentence names; the same request again is refused again.",
    ),
    ErrorCode.NOT_FOUND: KnownError(
        "NOT_FOUND",
        "The agent has no such run, file, engine, environment or device.",
        "See what it has with `enginebench devices`; a run is unknown once it was acknowledged or the agent restarted.",
    ),
    ErrorCode.NOT_READY: KnownError(
        "FAILED_PRECONDITION",
        "The request is sound, but something else has to happen first.",
        "Do what the sentence names – upload the file, wait for the run, mend the configuration – and ask again.",
    ),
    ErrorCode.DIFFERENT_RUN: KnownError(
        "ALREADY_EXISTS",
        "The run id belongs to a run with another specification.",
        "Choose a new run id.",
    ),
    ErrorCode.UPLOAD_UNDER_WAY: KnownError(
        "ABORTED",
        "Another caller is sending the same file, or was, after this one asked how much of it is there.",
        "Ask anew what is missing, in some seconds: either the file is there then, or the upload can be continued.",
    ),
    ErrorCode.DISK_FULL: KnownError(
        "RESOURCE_EXHAUSTED",
        "The disk of the agent's data folder has no room now, or what the agent may use of it.",
        "Make room there, allow more with max_cache_bytes in agent.toml, or start the agent with another --data-dir; "
        "what was uploaded so far is kept.",
    ),
    ErrorCode.TOO_LARGE: KnownError(
        "RESOURCE_EXHAUSTED",
        "A file is larger than all model files together may be there, or than the whole disk: it never fits.",
        "Allow more with max_cache_bytes in agent.toml, start the agent with a --data-dir on a larger disk, or do "
        "without that model there.",
    ),
    ErrorCode.BUSY: KnownError(
        "RESOURCE_EXHAUSTED",
        "The agent has as many runs or calls as its owner allows.",
        "Try again later, or let its owner allow more in agent.toml.",
    ),
    ErrorCode.RESERVED: KnownError(
        "RESOURCE_EXHAUSTED",
        "Somebody else has reserved the target, for longer than the run would wait.",
        "Wait until the time that the sentence names is over, or have the holder or an admin release it.",
    ),
    ErrorCode.UNAUTHENTICATED: KnownError(
        "UNAUTHENTICATED",
        "The caller showed no certificate that this agent knows, or one that ended or was revoked.",
        "Have one issued or renewed by the agent's authority, with `enginebench ca`.",
    ),
    ErrorCode.FORBIDDEN: KnownError(
        "PERMISSION_DENIED",
        "The caller is known, but its role does not allow that.",
        "Ask who keeps the authority for a certificate with the role that the sentence names.",
    ),
    ErrorCode.SHUTTING_DOWN: KnownError(
        "UNAVAILABLE",
        "The agent is about to stop.",
        "Ask again once it has been started anew; its finished results are kept.",
    ),
    ErrorCode.NEWER_REQUEST: KnownError(
        "UNIMPLEMENTED",
        "The request says something that this agent, being older than its caller, does not know.",
        "Upgrade the agent; or do without what it does not know.",
    ),
    ErrorCode.DEFECT: KnownError(
        "INTERNAL",
        "The agent failed in a way nobody foresaw, and goes on serving.",
        "Read its log on standard error, and report what stands there.",
    ),
}

EXITS: Mapping[ExitCode, KnownExit] = {
    ExitCode.OK: KnownExit("It did what was asked, or was stopped by a signal and ended in order.", "Nothing."),
    ExitCode.UNHEALTHY: KnownExit(
        "`health` found no agent that serves there.", "Start one there, or correct the address; the sentence says why."
    ),
    ExitCode.USAGE: KnownExit(
        "Wrong usage, or what was asked cannot be; one sentence on standard error says why.",
        "Do what the sentence says.",
    ),
    ExitCode.INTERRUPTED: KnownExit("Interrupted with Ctrl-C; children were ended.", "Run it again."),
}
