"""What can go wrong for a person at the controller: each error is one sentence and an exit code.

`cli/error_table.py` explains every one of them.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    """Text of other people as a line of a terminal, with marks in place of what would act there or turn text round.

    Spaces of other scripts are spaces; what joins and parts letters, as in Persian and of emoji, stays.
    """
    return text if text.isprintable() else "".join(map(_printed, text))


def _printed(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if unicodedata.category(character) == "Zs" else "\N{REPLACEMENT CHARACTER}"


class ExitCode(IntEnum):
    """The exit codes of `enginebench`."""

    OK = 0
    SOME_FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    CONDITION_MET = 4
    CANNOT_TELL = 5


INTERRUPTED = 130
"""What a command interrupted by Ctrl-C leaves with, as a shell would say it."""


class EnginebenchError(Exception):
    """Base: the text is a sentence for a person that says what, where and what to do."""

    exit_code = ExitCode.USAGE

    def __reduce__(self) -> tuple[Callable[..., "EnginebenchError"], tuple[Any, ...]]:
        """As it is, not made anew of its text: other processes hear of it too, and not each takes its text alone."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[EnginebenchError], args: tuple[Any, ...], own: Mapping[str, Any]) -> EnginebenchError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(own)
    return error


class InputError(EnginebenchError):
    """A file, name or value the user gave cannot be used."""


class ModelError(InputError):
    """A model file is missing, not a model, truncated, or cannot be made to fit the configuration.

    The text is one line, whatever names the model has: of other people's names only what can be printed stays.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class UnreadableFileError(InputError):
    """A file of a model or of an input set was there when it was planned with, and cannot be read now."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot read {path} any more ({error.strerror}): put it back, with `enginebench models add` where it is a "
            "model's, and run this again"
        )


class UnknownModelError(ModelError):
    """No model is meant by what the user wrote, or several are; `choices` lists these, a line each."""

    def __init__(self, text: str, choices: str = "") -> None:
        super().__init__(text)
        if choices:
            lines = "\n".join(map(printable, choices.split("\n")))
            self.args = (f"{self.args[0]}:\n{lines}",)


class UnknownFormatError(ModelError):
    """No engine that has been listed is known to read files of this ending; `asked` is told once all were."""

    def __init__(self, text: str, asked: str = "") -> None:
        super().__init__(text)
        self.asked = asked or text


class PlanError(InputError):
    """The plan asks for something impossible; the text gives every reason, a line each."""


class StoreError(EnginebenchError):
    """The results cannot be read or written: disk full, no permission, a lock, a newer file."""


class StoreBusyError(StoreError):
    """Others have kept the results to themselves for too long; they are there once these let go."""


class StoreUnreachableError(StoreError):
    """The object store that a lake lies in does not answer, or refuses."""

    exit_code = ExitCode.UNREACHABLE


class UnreachableError(EnginebenchError):
    """A target does not answer. `lasting` where it will not in a moment either."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, text: str, *, lasting: bool = False) -> None:
        super().__init__(text)
        self.lasting = lasting


class ChangedTargetError(EnginebenchError):
    """A target is not what it was when that was measured with which it would be compared."""

    exit_code = ExitCode.UNREACHABLE


class AgentError(EnginebenchError):
    """A target answered with an error; the text is the agent's own."""


class BusyError(AgentError):
    """A target takes no more for now; it says nothing of what was asked of it."""


class DiskFullError(BusyError):
    """A target has no room on its disk for what it was sent, or was to begin, until somebody makes some."""


class ReservedError(BusyError):
    """A target is there for somebody else alone, for a while."""


class OldAgentError(AgentError):
    """A target's agent is older than what was asked of it."""


class NoProspectsError(EnginebenchError):
    """Passes that came to nothing to show."""

    exit_code = ExitCode.SOME_FAILED


class RunUnknownError(AgentError):
    """The agent does not know the run, as it was restarted since, or cancelled it as it was stopped."""


class RemoteError(EnginebenchError):
    """A command on the other machine failed; the text has its own last words."""


def code_of(error: type[EnginebenchError]) -> str:
    """What an error is called in log lines and documents: `OldAgentError` is "old_agent"."""
    words = re.findall("[A-Z][a-z]*", error.__name__.removesuffix("Error"))
    return "_".join(words).lower()
