"""Change points: where a series of figures goes from one level to another.

Where is found by `ruptures` (kernel change points, whose bounded kernel lets single wild points be); whether a level
differs from the one before is judged by permuting the points of both, which knows that the place was searched for.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import InputError

FEWEST_POINTS = 10
"""Of fewer, no order is so unlikely that it means something: five and five can lie apart in one of 126 ways."""

SHORTEST = 3
"""Points of a level; two can be two bad days."""

LIKELIHOOD = 0.01
"""A change is told where fewer orders of the same points than this look like one."""

PARTED_LIKELIHOOD = 0.02
"""Of stretches that nobody searched for: 3 points beside 7 can be parted by chance in one of 60 ways."""

_PERMUTATIONS = 4999
_GAMMA, _PENALTY = 0.5, 0.6
"""Chosen on made-up series: 1 % of those without a change get one, 5 % amid noise of 1 % is found in 19 of 20."""

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
    edges = [0, *_candidates(logs), len(logs)]
    generator = np.random.default_rng(0)  # the same history has the same changes, whenever it is asked
    while len(edges) > 2:
        odds = [
            _likelihood(logs[a:b], logs[b:c], generator) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        worst = int(np.argmax(odds))
        if odds[worst] <= LIKELIHOOD:
            break
        del edges[worst + 1]
    return tuple(edges[1:-1])


def is_other_level(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether figures of two stretches that something else has parted differ beyond chance (Mann-Whitney)."""
    from scipy.stats import mannwhitneyu  # noqa: PLC0415  # it takes half a second, of every command

    return float(mannwhitneyu(before, after).pvalue) <= PARTED_LIKELIHOOD


def _candidates(logs: _Values) -> list[int]:
    try:
        from ruptures import KernelCPD  # noqa: PLC0415  # half a second, for the few who ask
    except ImportError as error:
        raise InputError(
            "change points need the package ruptures, which this Python does not have: pip install ruptures"
        ) from error
    sigma = 1.4826 * float(np.median(np.abs(np.diff(logs)))) / np.sqrt(2)
    scaled = (logs - np.median(logs)) / max(sigma, _SMALLEST_SIGMA)
    found = KernelCPD(kernel="rbf", min_size=SHORTEST, params={"gamma": _GAMMA}).fit(scaled.reshape(-1, 1))
    return [int(place) for place in found.predict(pen=_PENALTY * np.log(len(logs)))[:-1]]


def _likelihood(before: _Values, after: _Values, generator: np.random.Generator) -> float:
    """In which share of all orders of these points some place parts them as clearly, by their ranks."""
    joined = np.concatenate((before, after))
    ranks = np.searchsorted(np.sort(joined), joined).astype(np.float64)  # what is alike ranks alike
    ranks -= ranks.mean()
    orders = generator.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)
    # The order found is one of all, so that nothing is ever impossible.
    return float((1 + np.sum(_clearest(orders) >= _clearest(ranks) - 1e-9)) / (_PERMUTATIONS + 1))


def _clearest(ranks: _Values) -> _Values:
    """The largest difference of mean ranks before and after a place, in units of what is usual there."""
    points = ranks.shape[-1]
    places = np.arange(SHORTEST, points - SHORTEST + 1)
    weights = np.sqrt(points / (places * (points - places)))
    return np.asarray(np.abs(np.cumsum(ranks, axis=-1)[..., places - 1] * weights).max(axis=-1))
