"""What is known of many candidates of which some were measured, in rounds: how good each is, and how sure that is.

A candidate has a level on each axis (engine, batch, cores …). The logarithm of what was seen of it is a sum of what its
levels bring, alone and with its engine, of something of its own, of what the machine did in that round, which is the
same for all that were measured in it, and of the luck of the process. All but the luck are Gaussian with variances
given below, so that what is not measured yet is known by its likes, and what two of a round have in common cancels out.
That is a ridge regression, written by its kernel: Rasmussen and Williams, "Gaussian Processes for Machine Learning",
2006, section 2.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Axes = Mapping[str, str | float]
"""The level of a candidate on each axis: a name, or a positive number."""

ENGINE = "engine"
"""The axis that all the others depend on."""

_ANY, _SLOPE, _SLOPE_OF_ENGINE, _LEVEL, _LEVEL_OF_ENGINE, _OWN = 4.0, 1.0, 0.4, 0.25, 0.2, 0.08
"""SDs of logarithms: of all together; of what doubling brings, in doublings, and by how much engines differ in it; of a
level, and of one with an engine; of what no sum of levels tells. A batch twice as large takes about twice as long."""

_USUAL_NOISE, _ITS_WEIGHT = 0.04, 4.0
"""The SD from process to process before any is known, and of so many processes' worth."""
_LEAST_NOISE = 0.003
_STRANGE = 2.5
"""Of SDs; what is farther off counts by so much less (Huber, "Robust Estimation of a Location Parameter", 1964)."""

_SLOW = 0.12
"""A round in which all take longer by so much, as a logarithm, found the machine in another state."""
_FREE, _LEAST_MOOD = 0.5, 0.01
"""The SD of rounds in such a state, and the least of the others."""
_STATE_QUANTILE = 0.25
"""Of all processes so many are surely not slowed: the state they found is the machine's own."""
_PASSES = 4


@dataclass(frozen=True)
class ProcessSeen:
    """One process of a candidate, by its place, in a round: the logarithm of what it took."""

    candidate: int
    round: int
    value: float


@dataclass(frozen=True, eq=False)
class Response:
    """Of n candidates: `middle` of shape (n,), `covariance` of shape (n, n), in the machine's own state.

    `noise` is the SD from process to process; `slow` says by how much the machine was slower in rounds in which it was.
    """

    middle: NDArray[np.float64]
    covariance: NDArray[np.float64]
    noise: float
    slow: Mapping[int, float]

    @property
    def errors(self) -> NDArray[np.float64]:
        """The SD of each candidate's middle."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def against(self, reference: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """By how much each lies above one of them, and the SD of that; arrays of shape (n,)."""
        diagonal = np.diag(self.covariance)
        squares = diagonal + diagonal[reference] - 2 * self.covariance[reference]
        return self.middle - self.middle[reference], np.sqrt(np.maximum(squares, 0.0))


def likeness(candidates: Sequence[Axes]) -> NDArray[np.float64]:
    """What candidates have in common before any is measured: covariances of shape (n, n)."""
    count = len(candidates)
    same_engine = _same([one.get(ENGINE, "") for one in candidates])
    found = np.full((count, count), _ANY**2) + _OWN**2 * np.eye(count)
    for axis in dict.fromkeys(axis for one in candidates for axis in one):
        levels = [one.get(axis, "") for one in candidates]
        alike = _same(levels)
        if alike.all():
            continue
        if all(isinstance(level, int | float) for level in levels):
            doublings = np.log([float(level) for level in levels])
            products = np.outer(doublings - doublings.mean(), doublings - doublings.mean())
            found += products * (_SLOPE**2 + _SLOPE_OF_ENGINE**2 * same_engine)
        found += alike * (_LEVEL**2 + _LEVEL_OF_ENGINE**2 * same_engine)
    return found


def spread_out(
    candidates: Sequence[Axes], count: int, given: Sequence[int] = (), work: Sequence[float] = ()
) -> list[int]:
    """The places of so many that tell most: those `given`, then each the one of which those before it tell least.

    With the `work` of each, that counts for its share: what tells as much with half the work comes first.
    """
    left = likeness(candidates)
    chosen: list[int] = []
    for number in range(min(count, len(candidates))):
        variances = np.diag(left) / np.asarray(work or 1.0)
        variances[chosen] = -np.inf
        # Of equal ones the first, whatever the last bits of the sums are.
        told_least = int(np.flatnonzero(variances >= variances.max() - 1e-9)[0])
        best = given[number] if number < len(given) else told_least
        chosen.append(best)
        left = left - np.outer(left[best], left[best]) / (left[best, best] + _USUAL_NOISE**2)
    return chosen


def respond(candidates: Sequence[Axes], seen: Sequence[ProcessSeen]) -> Response:
    """What is known of all candidates after what was seen. Raises ValueError where nothing was."""
    if not seen:
        raise ValueError("nothing was seen of any candidate")
    prior = likeness(candidates)
    who = np.array([one.candidate for one in seen])
    values = np.array([one.value for one in seen])
    rounds, which = np.unique([one.round for one in seen], return_inverse=True)
    together = (which[:, None] == which[None, :]).astype(np.float64)
    processes = np.bincount(which)
    free = np.full(rounds.size, _FREE)
    weights = np.ones(values.size)
    noise = _USUAL_NOISE
    for number in range(_PASSES):
        moods = free[which][:, None] * free[which][None, :] * together
        covariance = prior[np.ix_(who, who)] + moods + np.diag(noise**2 / weights)
        centre = float(np.median(values))
        solved = np.linalg.solve(covariance, values - centre)
        of_round: NDArray[np.float64] = free**2 * np.bincount(which, weights=solved)
        middle = centre + prior[:, who] @ solved
        residuals = values - middle[who] - of_round[which]
        noise = _noise(residuals, weights, who, which)
        weights = np.minimum(1.0, _STRANGE * noise / np.maximum(np.abs(residuals), 1e-12))
        is_slow = of_round - _usual(of_round, processes) > _SLOW
        if number == 0:
            mood = _mood(of_round[~is_slow], processes[~is_slow], noise)
        free = np.where(is_slow, _FREE, mood)
    gain = np.linalg.solve(covariance, prior[who])
    left = prior - prior[:, who] @ gain
    own = float(np.median(of_round[~is_slow]))
    slow = {int(rounds[place]): float(of_round[place] - own) for place in np.flatnonzero(is_slow)}
    return Response(middle, (left + left.T) / 2, noise, slow)


def _mood(of_round: NDArray[np.float64], processes: NDArray[np.intp], noise: float) -> float:
    """The SD from round to round in the machine's own state, less what the luck of the processes makes of it."""
    if of_round.size < 2:
        return _LEAST_MOOD
    variance = float(np.var(of_round, ddof=1) - np.mean(noise**2 / processes))
    return max(float(np.sqrt(max(variance, 0.0))), _LEAST_MOOD)


def _usual(of_round: NDArray[np.float64], processes: NDArray[np.intp]) -> float:
    """What the machine did to rounds in its own state: that of the least slowed, a quarter of all processes."""
    order = np.argsort(of_round)
    reached = np.cumsum(processes[order]) >= _STATE_QUANTILE * processes.sum()
    return float(of_round[order][np.argmax(reached)])


def _noise(
    residuals: NDArray[np.float64], weights: NDArray[np.float64], who: NDArray[np.intp], which: NDArray[np.intp]
) -> float:
    """The SD from process to process, of candidates with two or more: what is left, by the degrees that it has."""
    counts = np.bincount(who)
    repeated = counts[who] > 1
    rounds = np.unique(which[repeated]).size
    degrees = repeated.sum() - np.unique(who[repeated]).size - max(rounds - 1, 0)
    squares = float((weights * residuals**2)[repeated].sum())
    variance = (_ITS_WEIGHT * _USUAL_NOISE**2 + squares) / (_ITS_WEIGHT + max(float(degrees), 0.0))
    return max(float(np.sqrt(variance)), _LEAST_NOISE)


def _same(levels: Sequence[object]) -> NDArray[np.float64]:
    numbers = np.unique([str(level) for level in levels], return_inverse=True)[1]
    return np.equal.outer(numbers, numbers).astype(np.float64)
