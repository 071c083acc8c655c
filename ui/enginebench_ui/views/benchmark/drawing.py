"""What the figures of a benchmark share: how lines look, axes of latencies, and where legends stand."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_ui.views.benchmark.lines import Line
from enginebench_ui.views.dress import margins
from enginebench_ui.views.palette import SERIES

MARGINS = margins(30, legend_rows=1)
LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0}

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "pentagon", "star", "hexagon")
_LARGEST_LINEAR_RATIO = 4.0
# Plotly's own ticks on a logarithmic axis leave half of a short range without a number.
_TICKS_MS = [mantissa * 10.0**exponent for exponent in range(-5, 7) for mantissa in (1, 1.5, 2, 3, 4, 5, 6, 8)]


@dataclass(frozen=True)
class Look:
    """How a line is drawn, the same in every figure; `name` holds no mark-up."""

    name: str
    colour: str
    symbol: str
    width: float


def looks(lines: Sequence[Line]) -> dict[str, Look]:
    """Return how each line is drawn, by its key; the first, which the page is based on, is the thickest."""
    return {
        line.key: Look(
            # Plotly reads a few HTML tags in every text; names from elsewhere must not speak it.
            html.escape(line.label),
            SERIES[place % len(SERIES)],
            _SYMBOLS[place % len(_SYMBOLS)],
            3.0 if place == 0 else 1.5,
        )
        for place, line in enumerate(lines)
    }


def latency_axis(least_ms: float, most_ms: float) -> Mapping[str, Any]:
    """Return an axis for latencies: logarithmic where they are far apart, so that tails and other engines are seen."""
    if least_ms <= 0 or most_ms / least_ms < _LARGEST_LINEAR_RATIO:
        return {"title": "ms/batch"}
    ticks = [tick for tick in _TICKS_MS if least_ms / 1.5 <= tick <= most_ms * 1.5]
    every = -(-len(ticks) // 12)
    return {"title": "ms/batch (log)", "type": "log", "tickvals": ticks[::every], "tickformat": "~g"}
