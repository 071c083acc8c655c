"""What can go wrong for a person at the controller: each error is one sentence and an exit code.

`cli/error_table.py` explains every one of them.
"""

import re
from enum import IntEnum
from pathlib import Path


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


class InputError(EnginebenchError):
    """A file, name or value the user gave cannot be used."""


class ModelError(InputError):
    """A model file is missing, not a model, truncated, or cannot be made to fit the configuration.

    The text is one line, whatever names the model has: of other people's names only what can be printed stays.
    """

    def __init__(self, text: str) -> None:
        super().__init__("".join(character if character.isprintable() else "\ufffd" for character in text))


class UnknownModelError(ModelError):
    """No model is meant by what the user wrote, or several are; `choices` lists these, a line each."""

    def __init__(self, text: str, choices: str = "") -> None:
        super().__init__(text)
        if choices:
            lines = "\n".join("".join(c if c.isprintable() else "\ufffd" for c in one) for one in choices.split("\n"))
            self.args = (f"{self.args[0]}:\n{lines}",)


class PlanError(InputError):
    """The plan asks for something impossible; the text gives every reason, a line each."""


class StoreError(EnginebenchError):
    """The results cannot be read or written: disk full, no permission, a lock, a newer file."""


class UnreachableError(EnginebenchError):
    """A target does not answer. `lasting` where it will not in a moment either."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, text: str, *, lasting: bool = False) -> None:
        super().__init__(text)
        self.lasting = lasting


class AgentError(EnginebenchError):
    """A target answered with an error; the text is the agent's own."""


class OldAgentError(AgentError):
    """A target's agent is older than what was asked of it."""


def leads_nowhere(path: Path) -> str:
    """Which link on the way to `path` leads to nothing, and what to do, as the end of a sentence; "" without one."""
    for part in (*reversed(path.absolute().parents), path):
        if part.is_symlink() and not part.exists():
            return f"{part} is a link to {part.readlink()}, which is not there; mount that, or remove the link"
    return ""


def code_of(error: type[EnginebenchError]) -> str:
    """What an error is called in log lines and documents: `OldAgentError` is "old_agent"."""
    words = re.findall("[A-Z][a-z]*", error.__name__.removesuffix("Error"))
    return "_".join(words).lower()
