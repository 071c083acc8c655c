"""Tables in which a person ticks rows, and the address that says the same: by ids, so that a link can be sent."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from enginebench_ui.views.text import Row

_MOST_ROWS_WHOLE = 14
_MOST_ROWS_PX = 560


def select_rows(
    rows: Sequence[Row],
    ids: Sequence[str],
    addressed: Sequence[str],
    key: str,
    *,
    mode: Literal["single-row", "multi-row"],
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
