"""The names of a model's nodes and tensors, and how to find them in names that an engine made of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SEPARATORS = "_/"
"""What engines put between a name of the model and what they add to it: "r1_nchwc", "n0/WithoutBiases"."""


@dataclass(frozen=True)
class SourceNames:
    """The nodes of a graph as given: their types by label, and the labels of those that make each tensor.

    `within` has the names of nodes and tensors in the bodies of control flow, with the label of the node around them.
    """

    types: Mapping[str, str]
    makers: Mapping[str, str]
    within: Mapping[str, str] = field(default_factory=dict)

    def node_in(self, made: str) -> str | None:
        """The label of the node that a name begins with or whose output it begins with; of several the longest.

        Where one name is that of a node and of another node's output, the node is meant.
        """
        return self._node(made, (self.types, self.makers))

    def maker_in(self, made: str) -> str | None:
        """As `node_in`, for a name made of a tensor's: where a name is both, the tensor is meant."""
        return self._node(made, (self.makers, self.types))

    def _node(self, made: str, first: tuple[Mapping[str, str], Mapping[str, str]]) -> str | None:
        for prefix in prefixes(made):
            for names in first:
                if prefix in names:
                    return self.makers[prefix] if names is self.makers else prefix
        return None


def prefixes(made: str) -> Iterator[str]:
    """A name and all its beginnings that end before a separator, the longest first."""
    yield made
    for end in range(len(made) - 1, 0, -1):
        if made[end] in SEPARATORS:
            yield made[:end]
