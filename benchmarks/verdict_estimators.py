"""Which estimators withstand: candidates tried on the earlier half of each recording, and judged on the later one."""

from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.markdown import markdown_table
from benchmarks.verdict_recordings import Round, Series
from benchmarks.verdict_replay import STRETCH, Within, observe
from enginebench_controller.stats.paired import RatioInterval, interval, log_ratio, spread

FEW, MANY = 5, 20
"""How many pairs an interval is made of."""

Over = Callable[[Sequence[float]], RatioInterval | None]
"""The interval over process pairs."""


def _hodges_lehmann(values: Sequence[float]) -> float:
    rows, columns = np.triu_indices(len(values))
    array = np.asarray(values)
    return float(np.median((array[rows] + array[columns]) / 2))


def _of_block_pairs(centre: Callable[[Sequence[float]], float]) -> Within:
    return lambda first, second: centre([log(b) - log(a) for a, b in zip(first, second, strict=True)])


WITHIN: Mapping[str, Within] = {
    "median of block pairs (ours)": log_ratio,
    "Hodges–Lehmann of block pairs": _of_block_pairs(_hodges_lehmann),
    "mean of block pairs": _of_block_pairs(fmean),
    "ratio of medians": lambda first, second: log(median(second)) - log(median(first)),
    "ratio of minima": lambda first, second: log(min(second)) - log(min(first)),
}


def _student(values: Sequence[float]) -> RatioInterval:
    middle, half = fmean(values), stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return RatioInterval(middle, middle - half, middle + half)


def _signed_ranks(values: Sequence[float]) -> RatioInterval | None:
    """Hodges and Lehmann's estimate and interval; None for fewer than six pairs, which Wilcoxon's test cannot tell."""
    if len(values) < 6:
        return None
    rows, columns = np.triu_indices(len(values))
    array = np.asarray(values)
    averages = np.sort((array[rows] + array[columns]) / 2)
    deviation = np.sqrt(len(values) * (len(values) + 1) * (2 * len(values) + 1) / 24)
    out = max(0, round(averages.size / 2 - 1.96 * deviation))
    return RatioInterval(float(np.median(averages)), float(averages[out]), float(averages[-1 - out]))


def _bootstrap_t(values: Sequence[float], draws: int = 199) -> RatioInterval:
    """Efron and Tibshirani, "An Introduction to the Bootstrap", chapter 12, with a fixed seed."""
    array = np.asarray(values)
    drawn = np.random.default_rng(1).choice(array, (draws, array.size))
    errors = np.maximum(drawn.std(axis=1, ddof=1), 1e-12) / np.sqrt(array.size)
    low, high = np.quantile((drawn.mean(axis=1) - array.mean()) / errors, (0.025, 0.975))
    error = stats.sem(array)
    return RatioInterval(float(array.mean()), float(array.mean() - high * error), float(array.mean() - low * error))


OVER: Mapping[str, Over] = {
    "trimmed mean (ours)": interval,
    "mean, Student's t": _student,
    "Hodges–Lehmann, signed ranks": _signed_ranks,
    "mean, bootstrap t": _bootstrap_t,
}


def halves(rounds: Sequence[Round]) -> tuple[Sequence[Round], Sequence[Round]]:
    """The earlier half, to choose on, and the later one, to judge on."""
    return rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]


def within_table(series: Mapping[Series, Sequence[Round]]) -> str:
    """How much the log ratio of a pair scatters from pair to pair by each estimator: the median over all series."""
    rows = []
    for name, within in WITHIN.items():
        seen = [[observe(half, within).controls for half in halves(rounds)] for rounds in series.values()]
        spreads = [[_spread(half) for half in one] for one in seen]
        largest = [max(float(np.abs(half).max()) for half in one) for one in seen]
        columns = [median(one[place] for one in spreads) for place in (0, 1)]
        rows.append((name, *(f"{100 * one:.2f} %" for one in columns), f"×{exp(median(largest)):.2f}"))
    columns_of = ("within a pair", "spread of equal pairs, chosen on", "judged on", "the worst pair of a series")
    return markdown_table(columns_of, rows)


def over_table(series: Mapping[Series, Sequence[Round]], draws: int) -> str:
    """How often the interval over pairs holds the log ratio of the whole half, and how wide it is."""
    rows = []
    for name, over in OVER.items():
        cells = []
        for place in (0, 1):
            for pairs in (FEW, MANY):
                found = [_tried(observe(halves(one)[place]).ratios, over, pairs, draws) for one in series.values()]
                known = [one for one in found if one is not None]
                cells.append(_cell(known))
        rows.append((name, *cells))
    head = [f"{half} on, {pairs} pairs" for half in ("chosen", "judged") for pairs in (FEW, MANY)]
    return markdown_table(("over pairs: coverage, half-width", *head), rows)


def _cell(known: Sequence[tuple[float, float]]) -> str:
    if not known:
        return "–"
    return f"{100 * fmean(one[0] for one in known):.1f} %, ± {100 * median(one[1] for one in known):.2f} %"


def _tried(ratios: NDArray[np.float64], over: Over, pairs: int, draws: int) -> tuple[float, float] | None:
    """Coverage of the whole half's median, and the median half-width; None where the interval knows none."""
    generator = np.random.default_rng(pairs)
    true = float(np.median(ratios))
    held, halves_ = [], []
    for _ in range(draws):
        begins = generator.integers(ratios.size, size=-(-pairs // STRETCH))
        order = [(begin + step) % ratios.size for begin in begins for step in range(STRETCH)][:pairs]
        if (found := over(list(ratios[order]))) is None:
            return None
        held.append(found.low <= true <= found.high)
        halves_.append(found.half)
    return float(np.mean(held)), float(np.median(halves_))


def _spread(values: NDArray[np.float64]) -> float:
    return spread(list(values)) or 0.0
