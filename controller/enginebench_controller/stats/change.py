"""How a ratio is said, the same in terminals, pages, reports and charts: near 1 in per cent, else as a factor."""

MUCH = 10.0
"""From this factor on, or its inverse, per cent tell nothing any more: "+29524.6 %" is ×296."""


def change_words(ratio: float) -> str:
    """What became of 1: "+12.3 %", "−4.0 %", "+176.6 %", "×29.5", "×296", "×0.03"."""
    if 1 / MUCH < ratio < MUCH:
        return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")
    return factor_words(ratio)


def factor_words(ratio: float) -> str:
    """A ratio as a factor: "×1.05", "×29.5", "×1,250", "×0.0031"."""
    if ratio < 0.1:
        return f"×{ratio:.2g}"
    return f"×{ratio:.2f}" if ratio < 10 else f"×{ratio:,.1f}" if ratio < 100 else f"×{ratio:,.0f}"
