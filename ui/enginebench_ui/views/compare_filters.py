"""Filters of the layers of both sides: each is a short text in the address, and all of them must hold.

A text is FIELD:CONDITION or FIELD:CONDITION:VALUE, for instance `name:contains:conv`, `ta:gt:0.5` or `tb:not_executed`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from enginebench_controller.comparing.layer_rows import LayerRow, RowSide
from enginebench_controller.records import LayerState

_SHOWN_DECIMALS_MS = 3


class Field(StrEnum):
    """What a filter looks at; `A` and `B` are the sides."""

    NAME = "name"
    OPERATOR = "op"
    ENGINE_NAME = "layer"
    PRECISION_A = "pa"
    PRECISION_B = "pb"
    TIME_A = "ta"
    TIME_B = "tb"
    DIFFERENCE = "delta"
    RATIO = "ratio"
    VERDICT = "verdict"


class Condition(StrEnum):
    """What must hold; the last five need no value."""

    CONTAINS = "contains"
    EQUALS = "equals"
    ABOVE = "gt"
    AT_LEAST = "ge"
    BELOW = "lt"
    AT_MOST = "le"
    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"
    OPTIMIZED_AWAY = "optimized_away"
    ABSENT = "absent"
    NO_DATA = "no_data"


FIELD_NAMES: Mapping[Field, str] = {
    Field.NAME: "layer",
    Field.OPERATOR: "operator",
    Field.ENGINE_NAME: "engine's name",
    Field.PRECISION_A: "precision A",
    Field.PRECISION_B: "precision B",
    Field.TIME_A: "time A (ms)",
    Field.TIME_B: "time B (ms)",
    Field.DIFFERENCE: "Δ (ms)",
    Field.RATIO: "ratio",
    Field.VERDICT: "verdict",
}

CONDITION_NAMES: Mapping[Condition, str] = {
    Condition.CONTAINS: "contains",
    Condition.EQUALS: "equals",
    Condition.ABOVE: ">",
    Condition.AT_LEAST: "≥",
    Condition.BELOW: "<",
    Condition.AT_MOST: "≤",
    Condition.EXECUTED: "executed",
    Condition.NOT_EXECUTED: "not executed",
    Condition.OPTIMIZED_AWAY: "optimized away",
    Condition.ABSENT: "absent from the model",
    Condition.NO_DATA: "no data",
}

_TEXT_CONDITIONS = (Condition.CONTAINS, Condition.EQUALS)
_NUMBER_CONDITIONS = (Condition.EQUALS, Condition.ABOVE, Condition.AT_LEAST, Condition.BELOW, Condition.AT_MOST)
_STATE_CONDITIONS = (
    Condition.EXECUTED,
    Condition.NOT_EXECUTED,
    Condition.OPTIMIZED_AWAY,
    Condition.ABSENT,
    Condition.NO_DATA,
)

_TEXTS: Mapping[Field, Callable[[LayerRow], tuple[str, ...]]] = {
    Field.NAME: lambda row: (row.name,),
    Field.OPERATOR: lambda row: (row.operator,),
    Field.ENGINE_NAME: lambda row: (*row.first.layers, *row.second.layers),
    Field.PRECISION_A: lambda row: (row.first.precision,),
    Field.PRECISION_B: lambda row: (row.second.precision,),
    Field.VERDICT: lambda row: (row.outcome,),
}
_NUMBERS: Mapping[Field, Callable[[LayerRow], float | None]] = {
    Field.TIME_A: lambda row: _milliseconds(row.first.time_ns),
    Field.TIME_B: lambda row: _milliseconds(row.second.time_ns),
    Field.DIFFERENCE: lambda row: _milliseconds(row.difference_ns),
    Field.RATIO: lambda row: row.ratio,
}
_SIDES: Mapping[Field, Callable[[LayerRow], RowSide]] = {
    Field.TIME_A: lambda row: row.first,
    Field.TIME_B: lambda row: row.second,
}


@dataclass(frozen=True)
class Filter:
    """One condition on a row. `value` is what a person typed, "" where the test needs none."""

    field: Field
    condition: Condition
    value: str = ""


def conditions_of(field: Field) -> tuple[Condition, ...]:
    """Return the tests that go with a field."""
    if field in _SIDES:
        return (*_NUMBER_CONDITIONS, *_STATE_CONDITIONS)
    return (*_NUMBER_CONDITIONS, Condition.NO_DATA) if field in _NUMBERS else _TEXT_CONDITIONS


def needs_value(condition: Condition) -> bool:
    """Whether something is to be typed."""
    return condition not in _STATE_CONDITIONS


def parse_filter(text: str) -> Filter | None:
    """Read a filter from an address; None for anything that is none."""
    field_text, _, rest = text.partition(":")
    condition_text, _, value = rest.partition(":")
    try:
        found = Filter(Field(field_text), Condition(condition_text), value.strip())
    except ValueError:
        return None
    return None if problem(found) else found


def filter_text(one: Filter) -> str:
    """Write a filter as `parse_filter` reads it."""
    return f"{one.field}:{one.condition}" + (f":{one.value}" if needs_value(one.condition) else "")


def problem(one: Filter) -> str | None:
    """Say why a filter cannot be used; None where it can."""
    if one.condition not in conditions_of(one.field):
        return f"“{CONDITION_NAMES[one.condition]}” does not go with “{FIELD_NAMES[one.field]}”."
    if not needs_value(one.condition):
        return None
    if not one.value:
        return "Type a value to compare with."
    if one.field in _NUMBERS and _number(one.value) is None:
        return f"“{one.value}” is not a number; write for instance 0.5."
    return None


def filter_sentence(one: Filter) -> str:
    """Name a filter for a person: "time A (ms) > 0.5"."""
    quoted = f" “{one.value}”" if one.field in _TEXTS else f" {one.value}"
    return f"{FIELD_NAMES[one.field]} {CONDITION_NAMES[one.condition]}" + (quoted if needs_value(one.condition) else "")


def matching(rows: Iterable[LayerRow], filters: Sequence[Filter]) -> tuple[LayerRow, ...]:
    """Return the rows for which every filter holds, in their order.

    Texts are compared without regard to case. A number that is unknown is neither above, below nor equal to anything.
    """
    tests = [_test(one) for one in filters]
    return tuple(row for row in rows if all(test(row) for test in tests))


def _test(one: Filter) -> Callable[[LayerRow], bool]:
    if one.field in _TEXTS:
        return _text_test(_TEXTS[one.field], one)
    if needs_value(one.condition):
        return _number_test(_NUMBERS[one.field], one)
    if one.field in _SIDES:
        return _state_test(_SIDES[one.field], LayerState(one.condition.value))
    read = _NUMBERS[one.field]
    return lambda row: read(row) is None


def _text_test(read: Callable[[LayerRow], tuple[str, ...]], one: Filter) -> Callable[[LayerRow], bool]:
    wanted = one.value.casefold()
    if one.condition is Condition.EQUALS:
        return lambda row: any(text.casefold() == wanted for text in read(row))
    return lambda row: any(wanted in text.casefold() for text in read(row))


def _state_test(read: Callable[[LayerRow], RowSide], state: LayerState) -> Callable[[LayerRow], bool]:
    return lambda row: read(row).state is state


def _number_test(read: Callable[[LayerRow], float | None], one: Filter) -> Callable[[LayerRow], bool]:
    limit = _number(one.value) or 0.0
    compare: Mapping[Condition, Callable[[float], bool]] = {
        # What reads the same in the table is equal.
        Condition.EQUALS: lambda value: round(value, _SHOWN_DECIMALS_MS) == round(limit, _SHOWN_DECIMALS_MS),
        Condition.ABOVE: lambda value: value > limit,
        Condition.AT_LEAST: lambda value: value >= limit,
        Condition.BELOW: lambda value: value < limit,
        Condition.AT_MOST: lambda value: value <= limit,
    }
    holds = compare[one.condition]

    def test(row: LayerRow) -> bool:
        value = read(row)
        return value is not None and holds(value)

    return test


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) != float("inf") and value == value else None  # noqa: PLR0124  # NaN is not itself


def _milliseconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6
