"""Values as people type them, and what is wrong with one, in words.

Numbers are in ASCII and have a point; what means another number elsewhere is refused.

Of "1.000" pydantic makes 1, which is a thousand to half of Europe; the comma of "1,024" parts two values.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from enginebench_controller.errors import StoreError
from enginebench_proto.agreed.typed import WHOLE

NUMBER = r"[0-9]+(?:\.[0-9]+)?"
NANOSECONDS = {"ns": 1.0, "us": 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
"""By unit; a micro is the sign of that name, or the Greek letter, which looks the same."""
TIME_UNIT = "|".join(NANOSECONDS)

_ZERO_LED = re.compile("0[0-9]+")
_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9])")
_THOUSANDS = re.compile(r"(?<![0-9.,])([1-9][0-9]{0,2}),([0-9]{3})(?![0-9,.])")
_BEFORE_THOUSANDS, _THOUSANDS_LEFT = re.compile("[1-9][0-9]{0,2}"), re.compile(r"0[0-9]{2}(?:\.[0-9]+)?")
_SHOWN, _LONGEST = 40, 200


def plain_whole(value: Any) -> Any:
    """A value for a whole number, as it is: a text of plain digits, or what a document has. Raises `ValueError`.

    Texts that are no number at all, and those below 0, are left to who checks the bounds.
    """
    if isinstance(value, bool | float):
        raise ValueError(f"{value!r} is not a whole number")  # noqa: TRY004  # pydantic tells no other as a mistake
    if not isinstance(value, str) or not any(map(str.isdecimal, value)):
        return value
    digits = value.strip().removeprefix("-")
    if _ZERO_LED.fullmatch(digits) and digits.strip("0"):
        raise ValueError(f"{value[:_SHOWN]!r} begins with 0: write {digits.lstrip('0')[:_SHOWN]}")
    if not WHOLE.fullmatch(digits):
        raise ValueError(f"{value[:_SHOWN]!r} is not a whole number: write digits alone, such as 1000")
    return value


def undivided(values: Any) -> Any:
    """The parts of a list, as they are. Raises `ValueError` where one is what a comma in a number leaves: "024"."""
    for one, behind in pairwise(values) if isinstance(values, list | tuple) else ():
        if not (isinstance(one, str) and isinstance(behind, str) and re.fullmatch(NUMBER, one)):
            continue
        if _BEFORE_THOUSANDS.fullmatch(one) and _THOUSANDS_LEFT.fullmatch(behind):
            raise ValueError(f"'{one},{behind}' is two values: write {one}{behind}")
        if _ZERO_LED.fullmatch(behind):
            few = behind.lstrip("0") or "0"
            raise ValueError(f"'{one},{behind}' is two values: write {one},{few}, or {one}.{behind} with a point")
    return values


def pointed(text: str, form: str = ".*") -> str:
    """What to write for a text that is of this form but for the comma in a number; "" for any other."""
    with_point = _COMMA.sub(".", text.strip(), count=1)
    if len(text) > _LONGEST or with_point == text.strip() or not re.fullmatch(form, with_point):
        return ""
    whole = _THOUSANDS.sub(r"\1\2", text.strip(), count=1)
    instead = "" if whole == text.strip() else f"{whole}, or "
    return f"write {instead}{with_point}, with a point"


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


def unknown_word(error: ValueError, where: str) -> StoreError:
    """What somebody reads who went back by a version, where everything is there and a word of it is not known."""
    return StoreError(
        f"{where} holds what only a newer enginebench knows, or is damaged ({plainly(error)}): update this one"
    )
