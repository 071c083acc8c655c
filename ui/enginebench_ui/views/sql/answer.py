"""An answer as a table: every column of one kind, under a name of its own."""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from enginebench_controller.store.sql_query import QueryResult
from enginebench_ui.views.text import cells, count_of

_EXACT_IN_BROWSER = 2**53
"""Numbers above are not exact in JavaScript: identifiers and instants in nanoseconds would change."""

_INSTANTS = ("TIMESTAMP", "DATE")


def answer_frame(result: QueryResult) -> pd.DataFrame:
    """Return the answer as a table; lists, structures and numbers too large for a browser are text there."""
    names = column_names(result)
    columns = zip(*result.rows, strict=True) if result.rows else [()] * len(names)
    kinds = [column.type for column in result.columns]
    return pd.DataFrame({name: _series(values, kind) for name, values, kind in zip(names, columns, kinds, strict=True)})


def column_names(result: QueryResult) -> tuple[str, ...]:
    """Return the names of the columns; of equal ones, all but the first with a number."""
    names: list[str] = []
    for column in result.columns:
        name, number = column.name, 1
        while name in names:
            number += 1
            name = f"{column.name} ({number})"
        names.append(name)
    return tuple(names)


def caption(result: QueryResult) -> str:
    """Say how much was found and how long it took."""
    return f"{count_of(len(result.rows), 'row')} in {result.duration_s * 1e3:,.0f} ms"


def _series(values: Sequence[Any], kind: str) -> "pd.Series[Any]":
    if kind.startswith(_INSTANTS) and not kind.endswith("]"):  # DATE[] and DATE[3] are lists
        # An instant that pandas cannot hold, such as infinity, becomes NaT, which shows as unknown.
        return pd.Series(pd.to_datetime(list(values), errors="coerce", format="ISO8601"))
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pd.Series(values, dtype="boolean")
    if known and all(_is_number(value) for value in known):
        whole = all(isinstance(value, int) for value in known)
        return pd.Series(values, dtype="Int64" if whole else "Float64")
    return pd.Series([_text(value) for value in values], dtype="string")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= _EXACT_IN_BROWSER


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    safe: str = cells({"": text})[""]
    return safe
