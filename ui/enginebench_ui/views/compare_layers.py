"""Every layer of both sides as one table, in the order a person wants."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import pandas as pd

from enginebench_controller.comparing.layer_rows import LayerRow, RowSide, Verdict
from enginebench_controller.comparing.profiles import ProfilePair, how_sure, joined_sentence, verdicts
from enginebench_ui.views.text import Row, cells, milliseconds, percent

_SIGNS = {Verdict.BETTER: "▼ B better", Verdict.WORSE: "▲ B worse", Verdict.WITHIN_NOISE: "≈ within noise"}


class Order(StrEnum):
    """How rows are sorted; what is unknown comes last."""

    EXECUTION = "execution"
    DIFFERENCE = "largest difference"
    FIRST = "slowest in A"
    SECOND = "slowest in B"
    RATIO = "largest ratio"


_KEYS: Mapping[Order, Callable[[LayerRow], float | None]] = {
    Order.EXECUTION: lambda row: -row.order,
    # A row of one side makes a difference, too, though it has no Δ.
    Order.DIFFERENCE: lambda row: abs(row.contribution_ns),
    Order.FIRST: lambda row: row.first.time_ns,
    Order.SECOND: lambda row: row.second.time_ns,
    Order.RATIO: lambda row: row.ratio,
}


def layer_table(pair: ProfilePair) -> pd.DataFrame:
    """Return all rows of a pair as a table, whose index is a row's `order`. Times of layers that did not run are None.

    It is made once for a pair; what is shown of it is taken by index.
    """
    rows = [_row(one) for one in pair.rows]
    return pd.DataFrame(rows, index=[one.order for one in pair.rows])


def ordered(rows: Iterable[LayerRow], order: Order) -> tuple[LayerRow, ...]:
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


def _last_or_descending(value: float | None) -> tuple[bool, float]:
    return (True, 0.0) if value is None else (False, -value)


def _row(one: LayerRow) -> Row:
    return cells(
        {
            "Layer": one.name,
            "Time A (ms)": milliseconds(one.first.time_ns),
            "Precision A": one.first.precision or None,
            "Time B (ms)": milliseconds(one.second.time_ns),
            "Precision B": one.second.precision or None,
            "Δ (ms)": milliseconds(one.difference_ns),
            "Ratio": one.ratio,
            "Verdict": outcome(one),
            "Operator": one.operator,
            "± A (ms)": milliseconds(one.first.half_width_ns),
            "± B (ms)": milliseconds(one.second.half_width_ns),
            "A (%)": percent(one.first.share),
            "B (%)": percent(one.second.share),
            "A runs": _runs(one.first),
            "B runs": _runs(one.second),
        }
    )


def _runs(side: RowSide) -> str | None:
    return ", ".join(side.layers) or None
