"""What colours mean, on light and dark alike: told apart by the colour-blind, and never the only sign of anything.

Most are of Okabe and Ito, "Color Universal Design" (2008).
"""

SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#999999")
"""For series that have no order and no meaning of their own: engines, configurations."""

FIRST = "#E69F00"
"""The side A of a comparison."""

SECOND = "#CC79A7"
"""The side B; more than two sides go on in `SERIES`."""

SWEET_SPOT = "#0072B2"
"""The point with the best throughput within the latency threshold."""

BETTER = "#009E73"
WORSE = "#D55E00"
NOISE = "#999999"
"""Within noise, unknown, or of no concern."""
