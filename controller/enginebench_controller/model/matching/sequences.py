"""Longest common subsequences, and longest increasing ones: aligning two orders of nodes."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence

Pair = tuple[int, int]


def common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[Pair]:
    """The positions of a longest common subsequence.

    Bit-parallel: a row of the table is one integer, so that thousands against thousands take milliseconds. Hyyrö, "Bit-
    parallel LCS-length computation revisited", 2004; the way back reads the rows as rapidfuzz does.
    """
    places: dict[Hashable, int] = defaultdict(int)
    for position, item in enumerate(one):
        places[item] |= 1 << position
    row = full = (1 << len(one)) - 1
    rows = []
    for item in other:
        meeting = row & places.get(item, 0)
        row = ((row + meeting) | (row - meeting)) & full
        rows.append(row)
    return _way_back(rows, len(one))


def _way_back(rows: Sequence[int], length: int) -> list[Pair]:
    pairs = []
    left, right = length, len(rows)
    while left and right:
        if rows[right - 1] >> (left - 1) & 1:
            left -= 1
            continue
        right -= 1
        if not right or rows[right - 1] >> (left - 1) & 1:
            left -= 1
            pairs.append((left, right))
    return pairs[::-1]


def increasing(pairs: Sequence[Pair]) -> list[Pair]:
    """A longest selection of pairs, sorted by their first numbers, whose second numbers increase, too."""
    ends: list[int] = []
    chains: list[int] = []
    before: list[int] = []
    for position, (_, value) in enumerate(pairs):
        length = bisect_left(ends, value)
        before.append(chains[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        chains[length : length + 1] = [position]
    selected = []
    position = chains[-1] if chains else -1
    while position >= 0:
        selected.append(pairs[position])
        position = before[position]
    return selected[::-1]
