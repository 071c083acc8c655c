"""What a machine did between two stretches of points: another processor, other reference work, more disturbance."""

from collections.abc import Sequence
from math import exp, log
from statistics import median

from enginebench_controller.stats.change_points import is_other_level
from enginebench_controller.store.trends import TrendPoint

MORE_DISTURBED = 0.25
"""So much more of the time must have been disturbed after a change than before."""


def reference_change(first: Sequence[TrendPoint], second: Sequence[TrendPoint]) -> float | None:
    """The logarithm of how much longer the reference work takes: of that part of it which changed most.

    A part that differs by chance has not changed: streams scatter by tens of per cent where others use the memory.
    """
    products = _part([[one.reference_product_ns for one in each] for each in (first, second)])
    streams = _part([[one.reference_stream_ns for one in each] for each in (first, second)])
    return max((one for one in (products, streams) if one is not None), key=abs, default=None)


def _part(times: Sequence[Sequence[float | None]]) -> float | None:
    known = [[one for one in each if one] for each in times]
    if not all(known):
        return None
    return log(median(known[1]) / median(known[0])) if is_other_level(*known) else 0.0


def other_machine(first: Sequence[TrendPoint], second: Sequence[TrendPoint]) -> str:
    """That one side has a processor that the other has not.

    All points count: where two machines take turns under one name, those beside the change may be of the same.
    """
    before, after = ([one.cpu_model for one in each if one.cpu_model] for each in (first, second))
    if not before or not after or set(before) == set(after):
        return ""
    was, now = (" or ".join(dict.fromkeys(each)) for each in (before, after))
    return f"the processor was {was} and is {now}"


def reference_words(reference: float | None) -> str:
    """What a `reference_change` says, as a clause."""
    if reference is None:
        return "how fast the machine was is not known, as no reference work was done on one side"
    if not reference:  # no part of it changed beyond chance
        return "the reference work between blocks takes as long as before"
    return f"the reference work between blocks takes {exp(reference):.3f}× as long"


def disturbed_since(first: Sequence[TrendPoint], second: Sequence[TrendPoint], change: float) -> str:
    """That others disturbed more of the time on the slower side."""
    shares = [[one.disturbed for one in each if one.disturbed is not None] for each in (first, second)]
    if not all(shares):
        return ""
    before, after = (sum(each) / len(each) for each in shares)
    if (after - before) * change <= 0 or abs(after - before) < MORE_DISTURBED:
        return ""
    return f"{after:.0%} of the time was disturbed since, {before:.0%} before"
