"""Connected components (union-find), for whatever is linked."""

from collections.abc import Hashable, Iterable
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
