"""Typer in the manner of this house: help without types of Python's, and usage errors as one sentence."""

from typing import Any

import typer
from pydantic import ValidationError

from enginebench_controller.wrong_values import wrong_value


def without_types(command: Any, parent: typer.Context | None = None) -> Any:
    """The command, whose flags and arguments show no type in the help; those of its own commands neither."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for child in getattr(command, "commands", {}).values():
        without_types(child, context)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
    return command


def usage_sentence(error: typer.TyperException) -> str:
    """What was wrong with a command line, with the option's name, and where to read more. Empty if help was shown."""
    said = _of_values(error) or _in_lower_case(error.format_message().rstrip("."))
    context = getattr(error, "ctx", None)
    return f"{said}; see `{context.command_path} --help`" if said and context else said


def _of_values(error: typer.TyperException) -> str:
    cause, parameter = error.__cause__, getattr(error, "param", None)
    if parameter is None or not isinstance(cause, ValidationError):
        return ""
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
    return "\n".join(f"{name}: {wrong_value(problem)}" for problem in cause.errors())


def _in_lower_case(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
