"""What can go wrong in an agent: a code and a sentence each. `error_table.py` explains the codes."""

from enum import Enum, IntEnum, auto
from typing import ClassVar


class ErrorCode(Enum):
    """The kinds of refusal a caller can meet."""

    INVALID = auto()
    NOT_FOUND = auto()
    NOT_READY = auto()
    DIFFERENT_RUN = auto()
    UPLOAD_UNDER_WAY = auto()
    DISK_FULL = auto()
    BUSY = auto()
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


class BusyError(AgentError):
    """The agent has as much to do as its owner allows."""

    code = ErrorCode.BUSY


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
