"""How zeros are shared out over the layers of a model: the pruning policy of Sparsify, with its defaults.

Every layer has a curve: the magnitude below which a share of its weights lies. Zeros go where they cost the smallest
magnitudes, over all layers together, until the goal for the whole model is met (Han et al., "Learning both Weights and
Connections for Efficient Neural Networks", 2015; SparseML's magnitude sensitivity, in steps of 1 %). Then layers that
would hardly gain keep all their weights. Two things differ from Sparsify, which missed its goal by both: the cap is
kept while zeros are shared out, not cut off afterwards; and what a layer gives back is shared out among the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records.model import PrunableWeight

Gain = Callable[[str, float], float | None]
"""How many times as fast a layer (by its weight's name) is at a sparsity; None where unknown."""
_LEAST_GAIN = 0.6
"""Sparsify's: a layer that would run at less than this many times its dense speed stays dense."""


@dataclass(frozen=True)
class Policy:
    """What a pruned model is to be like; all are shares. The defaults are Sparsify's.

    `goal` of all weights of products are to be zero, at most `cap` of one layer's. A layer that would get less than
    `least` stays dense, and so does what `share_out` leaves out.
    """

    goal: float = 0.85
    cap: float = 0.95
    least: float = 0.4


def share_out(weights: Sequence[PrunableWeight], policy: Policy, gain: Gain) -> Mapping[str, float]:
    """The sparsity of each weight that gets any, by name. `weights` are in the order of the graph.

    The first layer stays dense, which is the most sensitive as a rule, and so do grouped convolutions, which lack
    connections already.
    """
    eligible = [weight for weight in weights[1:] if not weight.grouped]
    zeros = policy.goal * sum(weight.size for weight in weights)
    while True:
        shares = _cheapest(eligible, policy.cap, zeros)
        worthwhile = [one for one in eligible if _is_worthwhile(one.name, shares.get(one.name, 0.0), policy, gain)]
        if len(worthwhile) == len(eligible):
            return shares
        eligible = worthwhile


def _cheapest(weights: Sequence[PrunableWeight], cap: float, zeros: float) -> Mapping[str, float]:
    """Raise the sparsities by steps of 1 %, always the cheapest next, while no more than `zeros` elements are zero."""
    most = round(cap * 100)
    steps = sorted(
        (magnitude, place, percent)
        for place, weight in enumerate(weights)
        for percent, magnitude in enumerate(weight.magnitudes[: most + 1])
    )
    shares: dict[str, float] = {}
    spent = 0.0
    for _, place, percent in steps:
        weight = weights[place]
        more = weight.size * (percent / 100 - shares.get(weight.name, 0.0))
        if spent + more > zeros + 1e-9:
            break
        shares[weight.name] = percent / 100
        spent += more
    return shares


def _is_worthwhile(name: str, share: float, policy: Policy, gain: Gain) -> bool:
    found = gain(name, share)
    return share > 0 and share >= policy.least and (found is None or found >= _LEAST_GAIN)
