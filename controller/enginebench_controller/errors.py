"""What can go wrong for a person at the controller: each error is one sentence and an exit code.

`cli/error_table.py` explains every one of them.
"""

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

from enginebench_controller.typed_numbers import NUMBER, pointed
from enginebench_proto.agreed.names import printable

_MOST_SHOWN = 80
"""Characters of a value that an error repeats."""

_OWN_WORDS = "value_error"
_NEEDS: Mapping[str, str] = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of less than 4300 digits",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "less_than": "a number below {lt}",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "mapping_type": "a table",
    "dict_type": "a table",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
}
"""What is needed, by pydantic's type of error; it names the bound that was broken."""


def wrong_value(problem: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` in words after its name: "0 is not a number of at least 1"."""
    kind = problem["type"]
    if kind == _OWN_WORDS:
        return str(problem["msg"]).removeprefix("Value error, ")
    if kind == "missing":
        return "it is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "there is no such entry"
    if kind == "too_short":
        return "at least one is needed"
    if kind in _NEEDS:
        told = pointed(str(problem["input"]), NUMBER) if kind == "float_parsing" else ""
        needed = _needed(kind, problem.get("ctx", {}))
        return f"{_shown(problem['input'])} is not {needed}: {told}".removesuffix(": ")
    return f"{problem['msg']} (given: {_shown(problem['input'])})"


def plainly(error: Exception) -> str:
    """An error in a line, pydantic's as its first entry in words."""
    entries = getattr(error, "errors", None)  # asked for by name: what is imported here, all commands load
    return wrong_value(entries()[0]) if callable(entries) else str(error).partition("\n")[0]


def _needed(kind: str, context: Mapping[str, Any]) -> str:
    return _NEEDS[kind].format_map({key: _plain(value) for key, value in context.items()})


def _plain(limit: object) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit).replace("'", "")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


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


def unknown_word(error: ValueError, where: str) -> StoreError:
    """What somebody reads who went back by a version, where everything is there and a word of it is not known."""
    return StoreError(
        f"{where} holds what only a newer enginebench knows, or is damaged ({plainly(error)}): update this one"
    )


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
