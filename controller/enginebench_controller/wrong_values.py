"""What is wrong with a value, in words: the one place where pydantic's findings become sentences for people."""

from collections.abc import Mapping
from typing import Any

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
        return f"{_shown(problem['input'])} is not {_needed(kind, problem.get('ctx', {}))}"
    return f"{problem['msg']} (given: {_shown(problem['input'])})"


def _needed(kind: str, context: Mapping[str, Any]) -> str:
    return _NEEDS[kind].format_map({key: _plain(value) for key, value in context.items()})


def _plain(limit: object) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit).replace("'", "")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
