"""Change points: where a series of figures goes from one level to another.

Where is found by `ruptures` (kernel change points, whose bounded kernel lets single wild points be); whether a level
differs from the one before is judged by permuting the points of both, which knows that the place was searched for. That
is done in two ways, for each hides what the other shows (docs/evidence/trends.md): by figures without the odd points,
as of ranks a single wild point jumps from one end to the other; and by the ranks of all, as points of a level that
scatters more than the one before, or drifts, all look odd.
"""

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import InputError

FEWEST_POINTS = 10
"""Of fewer, no order is so unlikely that it means something: five and five lie apart in one of 126 ways."""

SHORTEST = 3
"""Points of a level; two can be two bad days."""

LIKELIHOOD = 0.01
"""A change is told where fewer orders of the same points than this look like one."""

PARTED_LIKELIHOOD = 0.02
"""Of stretches that nobody searched for: 3 points beside 7 can be parted by chance in one of 60 ways."""

_PERMUTATIONS = 4999
_GAMMA, _PENALTY = 0.5, 0.6
"""Chosen on made-up series: 1 % of those without a change get one, 5 % amid noise of 1 % is found in 19 of 20."""

_REACH, _CLIPPED = 4.0, 0.1
"""How far apart, in σ, points of a level may lie; and the share at each end that counts like the next one to it.

Chosen on one half of made-up series among ranks, 0 to 25 %, and 3 to 10 σ, and judged on the other: more clipped hides
3 or 4 points after 30, less lets several bad days hide a change.
"""

_SMALLER_DIFFERENCES, _NORMAL_DIFFERENCE = 0.4, 0.7416
"""So many of the differences from one figure to the next are smaller than this where σ is 1 and all is normal."""

_SMALLEST_SIGMA = 1e-4
"""Figures that are the same to four digits are the same."""

_Values = NDArray[np.float64]


def change_points(values: Sequence[float]) -> tuple[int, ...]:
    """The places where a new level begins, in series of positive figures; none in fewer than `FEWEST_POINTS`.

    Raises `InputError` without the library.
    """
    if len(values) < FEWEST_POINTS:
        return ()
    logs = np.log(np.asarray(values, dtype=np.float64))
    sigma = _sigma(logs)
    edges = [0, *_candidates(logs, sigma), len(logs)]
    generator = np.random.default_rng(0)  # the same history has the same changes, whenever it is asked
    known: dict[tuple[int, int], float] = {}
    while len(edges) > 2:
        spans = list(zip(edges, edges[2:], strict=False))
        known |= {(a, c): _likelihood(logs[a:c], sigma, generator) for a, c in spans if (a, c) not in known}
        worst = int(np.argmax([known[one] for one in spans]))
        if known[spans[worst]] <= LIKELIHOOD:
            break
        del edges[worst + 1]
    return tuple(edges[1:-1])


def is_other_level(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether figures of two stretches that something else has parted differ beyond chance (Mann-Whitney)."""
    from scipy.stats import mannwhitneyu  # noqa: PLC0415  # it takes half a second, of every command

    return float(mannwhitneyu(before, after).pvalue) <= PARTED_LIKELIHOOD


def may_be_other_level(before: int, after: int) -> bool:
    """Whether stretches of so many points could ever be told apart: of a few, chance parts any."""
    return 2 / comb(before + after, before) <= PARTED_LIKELIHOOD


def _sigma(logs: _Values) -> float:
    """How much figures differ from one to the next, which a change of level, or a bad day, hardly touches.

    Where days follow one another that is less than how much they differ; where one level scatters more than another it
    is what the quieter one does.

    A bad day is in two of the differences: of twenty days five bad ones leave no more than half of them as they are.
    """
    found = float(np.quantile(np.abs(np.diff(logs)), _SMALLER_DIFFERENCES)) / _NORMAL_DIFFERENCE
    return max(found, _SMALLEST_SIGMA)


def _candidates(logs: _Values, sigma: float) -> list[int]:
    try:
        from ruptures import KernelCPD  # noqa: PLC0415  # half a second, for the few who ask
    except ImportError as error:
        raise InputError(
            "change points need the package ruptures, which this Python does not have: pip install ruptures"
        ) from error
    scaled = (logs - np.median(logs)) / sigma
    found = KernelCPD(kernel="rbf", min_size=SHORTEST, params={"gamma": _GAMMA}).fit(scaled.reshape(-1, 1))
    return [int(place) for place in found.predict(pen=_PENALTY * np.log(len(logs)))[:-1]]


def _likelihood(logs: _Values, sigma: float, generator: np.random.Generator) -> float:
    """In which share of all orders of these points some place parts them as clearly, in one of two ways of looking.

    Of each order it is the less likely of both ways that counts (Westfall and Young's min-p), so that looking twice is
    paid for, and where the kept are too few for any order of theirs to mean something, ranks decide alone.
    """
    ranks = np.searchsorted(np.sort(logs), logs).astype(np.float64)  # what is alike ranks alike
    is_kept = _beside_others(logs, sigma)
    clipped = np.clip(logs, *np.quantile(logs[is_kept], [_CLIPPED, 1 - _CLIPPED]))
    orders = generator.permuted(np.tile(np.arange(len(logs)), (_PERMUTATIONS + 1, 1)), axis=1)
    orders[0] = np.arange(len(logs))  # the order found is one of all, so that nothing is ever impossible
    kept = orders[is_kept[orders]].reshape(len(orders), -1)
    likelihoods = np.minimum(_shares(ranks[orders]), _shares(clipped[kept]))
    return float(np.mean(likelihoods <= likelihoods[0]))


def _beside_others(logs: _Values, sigma: float) -> NDArray[np.bool_]:
    """Which have others about them, enough for a level; all, where hardly any have."""
    beside = (np.abs(logs[:, np.newaxis] - logs) <= _REACH * sigma).sum(axis=1) >= SHORTEST
    return np.asarray(beside if beside.sum() > 2 * SHORTEST else np.ones(len(logs), dtype=np.bool_))


def _shares(orders: _Values) -> _Values:
    """Of each order the share of all that part as clearly."""
    found = _clearest(orders - orders[0].mean())
    return np.asarray(1 - np.searchsorted(np.sort(found), found - 1e-9) / len(found))


def _clearest(values: _Values) -> _Values:
    """The largest difference of means before and after a place, in units of what is usual there."""
    points = values.shape[-1]
    places = np.arange(SHORTEST, points - SHORTEST + 1)
    weights = np.sqrt(points / (places * (points - places)))
    return np.asarray(np.abs(np.cumsum(values, axis=-1)[..., places - 1] * weights).max(axis=-1))
