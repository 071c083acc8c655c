"""Connected components, longest common and longest increasing subsequences: of items of any kind."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Components(Generic[Item]):
    """Items that were linked, directly or over others."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._parent = {item: item for item in items}

    def link(self, one: Item, other: Item) -> None:
        """Make the components of both one."""
        self._parent[self._root(one)] = self._root(other)

    def groups(self) -> list[list[Item]]:
        """The components, and the items of each, in the order in which the items were given."""
        found: dict[Item, list[Item]] = {}
        for item in self._parent:
            found.setdefault(self._root(item), []).append(item)
        return list(found.values())

    def _root(self, item: Item) -> Item:
        while (parent := self._parent[item]) != item:
            self._parent[item] = item = self._parent[parent]
        return item


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
