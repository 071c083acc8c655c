"""What a person chooses and ticks, kept in the address: short ids, so that a link shows a colleague the very same.

The address is the truth. A value that is no option there is passed over, and what would be shown without one is left
out, so that a plain address stays plain. `scope` is what the options belong to, such as the id of a benchmark: what was
chosen for one says nothing of another.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from enginebench_ui.shared.showing import row_cards
from enginebench_ui.shared.text import Row, choice_labels

_BETWEEN = ","


def choose_one(label: str, options: Mapping[str, str], name: str, *, default: str, scope: str = "", **look: Any) -> str:
    """Show a drop-down of options, by id, and return the one chosen; `name` stands in the address."""
    return _one(st.selectbox, label, options, name, default, scope, look)


def choose_view(
    label: str, options: Mapping[str, str], name: str, *, default: str, scope: str = "", **look: Any
) -> str:
    """Show a few options side by side, and return the one chosen."""
    return _one(st.segmented_control, label, options, name, default, scope, look | {"required": True})


def choose_several(
    label: str, options: Mapping[str, str], name: str, *, default: Sequence[str], scope: str = "", **look: Any
) -> tuple[str, ...]:
    """Show options of which any number may be chosen, and return those that are, as they were chosen."""
    key = _key(name, scope)
    asked = st.query_params.get(name)
    wanted = list(default) if asked is None else [one for one in asked.split(_BETWEEN) if one in options]
    st.session_state[key] = wanted

    def keep() -> None:
        _keep(name, _BETWEEN.join(st.session_state[key]), _BETWEEN.join(default))

    labels = choice_labels(options)
    chosen = st.multiselect(label, list(labels), format_func=labels.__getitem__, key=key, on_change=keep, **look)
    return tuple(chosen)


def chosen(name: str, options: Mapping[str, str], default: str) -> str:
    """Return what the address says of a choice that is shown elsewhere."""
    asked = st.query_params.get(name, default)
    return asked if asked in options else default


def _one(
    widget: Callable[..., Any],
    label: str,
    options: Mapping[str, str],
    name: str,
    default: str,
    scope: str,
    look: Mapping[str, Any],
) -> str:
    key = _key(name, scope)
    st.session_state[key] = chosen(name, options, default)

    def keep() -> None:
        _keep(name, st.session_state[key], default)

    labels = choice_labels(options)
    found = widget(label, list(labels), format_func=labels.__getitem__, key=key, on_change=keep, **look)
    return default if found is None else str(found)


def _key(name: str, scope: str) -> str:
    return f"{name}-{scope}" if scope else name


def _keep(name: str, value: str, default: str) -> None:
    if value == default:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = value


def selected_row(key: str) -> int | None:
    """Return the row that a person selected in the table of this key, by its mark or by any of its cells."""
    selection = st.session_state[key]["selection"]
    if selection.get("cells"):
        return int(selection["cells"][0][0])
    return int(selection["rows"][0]) if selection.get("rows") else None


def follow_row(key: str, row: int | None) -> str:
    """Bring the selection of a table to a row, or to none; return its key."""
    state = st.session_state.get(key)
    rows = [] if row is None else [row]
    if state is None or list(state["selection"]["rows"]) != rows or state["selection"].get("cells"):
        st.session_state[key] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    return key


_MOST_ROWS_WHOLE = 14
_MOST_ROWS_PX = 560


def select_rows(
    rows: Sequence[Row],
    ids: Sequence[str],
    addressed: Sequence[str],
    key: str,
    *,
    mode: Literal["single-row", "single-row-required", "multi-row"],
    columns: Mapping[str, Any],
    alt: str,
) -> list[str]:
    """Show a table and return the ids of the rows that are ticked, from the top; `ids` are those of `rows`.

    At first those are ticked that the address names. Hand what is written into the address to `told` afterwards: an
    address that says something else in a later run came by a link or the back button, and wins over older ticks.
    """
    state = st.dataframe(
        list(rows),
        # Another set of rows is another widget: places in one mean nothing in the other.
        key=f"{key} {_epoch(key, addressed)} {hash(tuple(ids))}",
        hide_index=True,
        placeholder="–",
        column_config=dict(columns),
        height="content" if len(rows) <= _MOST_ROWS_WHOLE else _MOST_ROWS_PX,
        on_select="rerun",
        selection_mode=mode,
        selection_default={"selection": {"rows": [place for place, one in enumerate(ids) if one in addressed]}},
        alt=alt,
    )
    row_cards(rows, len(rows), key, columns=columns)
    return [ids[place] for place in sorted(state.selection.rows) if place < len(ids)]


def told(key: str, written: Sequence[str]) -> None:
    """Remember what the page wrote into the address for the table `key`."""
    st.session_state[f"{key} told"] = tuple(written)


def _epoch(key: str, addressed: Sequence[str]) -> int:
    """Count how often the address was changed by others than the page."""
    epoch = int(st.session_state.get(f"{key} epoch", 0))
    if st.session_state.get(f"{key} told", tuple(addressed)) != tuple(addressed):
        epoch += 1
    st.session_state[f"{key} epoch"] = epoch
    return epoch
