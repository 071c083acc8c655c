"""Every layer of both sides as one table: in the order a person wants, and filtered by short texts of the address.

A text is FIELD:CONDITION or FIELD:CONDITION:VALUE, for instance `name:contains:conv`, `ta:gt:0.5` or `tb:not_executed`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from enginebench_controller.records import LayerState
from enginebench_controller.verdicts.layers.profiles import ProfilePair, how_sure, joined_sentence, verdicts
from enginebench_controller.verdicts.layers.rows import LayerRow, LayerVerdict, RowSide
from enginebench_ui.shared.charts import BETTER, WORSE
from enginebench_ui.shared.text import Row, cells, in_milliseconds, in_percent

_SIGNS = {
    LayerVerdict.BETTER: "▼ B better",
    LayerVerdict.WORSE: "▲ B worse",
    LayerVerdict.WITHIN_NOISE: "≈ within noise",
}


class RowOrder(StrEnum):
    """How rows are sorted; what is unknown comes last."""

    SLOWEST = "slowest first"
    EXECUTION = "execution"
    DIFFERENCE = "largest difference"
    FIRST = "slowest in A"
    SECOND = "slowest in B"
    RATIO = "largest ratio"


_KEYS: Mapping[RowOrder, Callable[[LayerRow], float | None]] = {
    RowOrder.SLOWEST: lambda row: row.slowest_ns or None,
    RowOrder.EXECUTION: lambda row: -row.order,
    # A row of one side makes a difference, too, though it has no Δ.
    RowOrder.DIFFERENCE: lambda row: abs(row.contribution_ns),
    RowOrder.FIRST: lambda row: row.first.time_ns,
    RowOrder.SECOND: lambda row: row.second.time_ns,
    RowOrder.RATIO: lambda row: row.ratio,
}


def layer_table(pair: ProfilePair) -> pd.DataFrame:
    """Return all rows of a pair as a table, whose index is a row's `order`. Times of layers that did not run are None.

    It is made once for a pair; what is shown of it is taken by index.
    """
    rows = [_row(one) for one in pair.rows]
    return pd.DataFrame(rows, index=[one.order for one in pair.rows])


def ordered(rows: Iterable[LayerRow], order: RowOrder) -> tuple[LayerRow, ...]:
    """Return the rows in an order, those equal in it in the order of execution."""
    key = _KEYS[order]
    return tuple(sorted(rows, key=lambda row: (_last_or_descending(key(row)), row.order)))


def sentences(pair: ProfilePair) -> tuple[str, ...]:
    """Say what came of all rows, how much of the time they join, and how sure verdicts are."""
    return tuple(
        f"{text[:1].upper()}{text[1:]}." for text in (verdicts(pair), joined_sentence(pair, "B"), how_sure(pair))
    )


def outcome(row: LayerRow) -> str:
    """The verdict with a sign, or why there is none."""
    return _SIGNS[row.verdict] if row.verdict else row.outcome


def verdict_styles(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a style a cell, for what is better or worse; the signs say the same without colour."""
    colours = {_SIGNS[LayerVerdict.BETTER]: BETTER, _SIGNS[LayerVerdict.WORSE]: WORSE}
    styles = rows["Verdict"].map(lambda said: f"font-weight: 600; color: {colours[said]}" if said in colours else "")
    return pd.DataFrame(dict.fromkeys(rows.columns, styles), index=rows.index)


def _last_or_descending(value: float | None) -> tuple[bool, float]:
    return (True, 0.0) if value is None else (False, -value)


def _row(one: LayerRow) -> Row:
    return cells(
        {
            "Layer": one.name,
            "Time A (ms)": in_milliseconds(one.first.time_ns),
            "Precision A": one.first.precision or None,
            "Time B (ms)": in_milliseconds(one.second.time_ns),
            "Precision B": one.second.precision or None,
            "Δ (ms)": in_milliseconds(one.difference_ns),
            "Ratio": one.ratio,
            "Verdict": outcome(one),
            "Operator": one.operator,
            "± A (ms)": in_milliseconds(one.first.half_width_ns),
            "± B (ms)": in_milliseconds(one.second.half_width_ns),
            "A (%)": in_percent(one.first.share),
            "B (%)": in_percent(one.second.share),
            "A runs": _runs(one.first),
            "B runs": _runs(one.second),
        }
    )


def _runs(side: RowSide) -> str | None:
    return ", ".join(side.layers) or None


_SHOWN_DECIMALS_MS = 3


class FilterField(StrEnum):
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


class FilterCondition(StrEnum):
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


FIELD_NAMES: Mapping[FilterField, str] = {
    FilterField.NAME: "layer",
    FilterField.OPERATOR: "operator",
    FilterField.ENGINE_NAME: "engine's name",
    FilterField.PRECISION_A: "precision A",
    FilterField.PRECISION_B: "precision B",
    FilterField.TIME_A: "time A (ms)",
    FilterField.TIME_B: "time B (ms)",
    FilterField.DIFFERENCE: "Δ (ms)",
    FilterField.RATIO: "ratio",
    FilterField.VERDICT: "verdict",
}

CONDITION_NAMES: Mapping[FilterCondition, str] = {
    FilterCondition.CONTAINS: "contains",
    FilterCondition.EQUALS: "equals",
    FilterCondition.ABOVE: ">",
    FilterCondition.AT_LEAST: "≥",
    FilterCondition.BELOW: "<",
    FilterCondition.AT_MOST: "≤",
    FilterCondition.EXECUTED: "executed",
    FilterCondition.NOT_EXECUTED: "not executed",
    FilterCondition.OPTIMIZED_AWAY: "optimized away",
    FilterCondition.ABSENT: "absent from the model",
    FilterCondition.NO_DATA: "no data",
}

_TEXT_CONDITIONS = (FilterCondition.CONTAINS, FilterCondition.EQUALS)
_NUMBER_CONDITIONS = (
    FilterCondition.EQUALS,
    FilterCondition.ABOVE,
    FilterCondition.AT_LEAST,
    FilterCondition.BELOW,
    FilterCondition.AT_MOST,
)
_STATE_CONDITIONS = (
    FilterCondition.EXECUTED,
    FilterCondition.NOT_EXECUTED,
    FilterCondition.OPTIMIZED_AWAY,
    FilterCondition.ABSENT,
    FilterCondition.NO_DATA,
)

_TEXTS: Mapping[FilterField, Callable[[LayerRow], tuple[str, ...]]] = {
    FilterField.NAME: lambda row: (row.name,),
    FilterField.OPERATOR: lambda row: (row.operator,),
    FilterField.ENGINE_NAME: lambda row: (*row.first.layers, *row.second.layers),
    FilterField.PRECISION_A: lambda row: (row.first.precision,),
    FilterField.PRECISION_B: lambda row: (row.second.precision,),
    FilterField.VERDICT: lambda row: (row.outcome,),
}
_NUMBERS: Mapping[FilterField, Callable[[LayerRow], float | None]] = {
    FilterField.TIME_A: lambda row: _milliseconds(row.first.time_ns),
    FilterField.TIME_B: lambda row: _milliseconds(row.second.time_ns),
    FilterField.DIFFERENCE: lambda row: _milliseconds(row.difference_ns),
    FilterField.RATIO: lambda row: row.ratio,
}
_SIDES: Mapping[FilterField, Callable[[LayerRow], RowSide]] = {
    FilterField.TIME_A: lambda row: row.first,
    FilterField.TIME_B: lambda row: row.second,
}


@dataclass(frozen=True)
class Filter:
    """One condition on a row. `value` is what a person typed, "" where the test needs none."""

    field: FilterField
    condition: FilterCondition
    value: str = ""


def conditions_of(field: FilterField) -> tuple[FilterCondition, ...]:
    """Return the tests that go with a field."""
    if field in _SIDES:
        return (*_NUMBER_CONDITIONS, *_STATE_CONDITIONS)
    return (*_NUMBER_CONDITIONS, FilterCondition.NO_DATA) if field in _NUMBERS else _TEXT_CONDITIONS


def needs_value(condition: FilterCondition) -> bool:
    """Whether something is to be typed."""
    return condition not in _STATE_CONDITIONS


def parse_filter(text: str) -> Filter | None:
    """Read a filter from an address; None for anything that is none."""
    field_text, _, rest = text.partition(":")
    condition_text, _, value = rest.partition(":")
    try:
        found = Filter(FilterField(field_text), FilterCondition(condition_text), value.strip())
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
    if one.condition is FilterCondition.EQUALS:
        return lambda row: any(text.casefold() == wanted for text in read(row))
    return lambda row: any(wanted in text.casefold() for text in read(row))


def _state_test(read: Callable[[LayerRow], RowSide], state: LayerState) -> Callable[[LayerRow], bool]:
    return lambda row: read(row).state is state


def _number_test(read: Callable[[LayerRow], float | None], one: Filter) -> Callable[[LayerRow], bool]:
    limit = _number(one.value) or 0.0
    compare: Mapping[FilterCondition, Callable[[float], bool]] = {
        # What reads the same in the table is equal.
        FilterCondition.EQUALS: lambda value: round(value, _SHOWN_DECIMALS_MS) == round(limit, _SHOWN_DECIMALS_MS),
        FilterCondition.ABOVE: lambda value: value > limit,
        FilterCondition.AT_LEAST: lambda value: value >= limit,
        FilterCondition.BELOW: lambda value: value < limit,
        FilterCondition.AT_MOST: lambda value: value <= limit,
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
