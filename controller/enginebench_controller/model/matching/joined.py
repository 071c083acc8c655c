"""Profiles put side by side: rows of layers that run the same part of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from enginebench_controller.model.matching.matched import Layer, LayerCategory, Matching
from enginebench_controller.model.source_graph import SourceGraph
from enginebench_controller.records import LayerState


@dataclass(frozen=True)
class MatchedProfile:
    """A profile's layers with the graph they were matched to."""

    graph: SourceGraph
    layers: Sequence[Layer]
    matching: Matching


@dataclass(frozen=True)
class Side:
    """One profile's part of a row: layers by position, source nodes by index, and the layers' mean time together.

    Without layers, `nodes` are this model's counterparts of the row's nodes, and `state` tells why nothing ran them:
    OPTIMIZED_AWAY (they depend on no input), NOT_EXECUTED, ABSENT (this model has no such node), or NO_DATA (there are
    layers of which nobody knows what they ran). With layers, NO_DATA says that they ran and told no time.
    """

    layers: tuple[int, ...]
    nodes: tuple[int, ...]
    time_ns: int | None
    state: LayerState


@dataclass(frozen=True)
class Row:
    """Layers that run the same part of the model, one side a profile in the order given.

    A layer that is no part of the model, such as a reorder, has a row of its own that tells its category. `exact`:
    the sides run the very same nodes; otherwise one side fused a light node with a neighbour in another row.
    """

    sides: tuple[Side, ...]
    category: LayerCategory
    exact: bool

    @property
    def is_joined(self) -> bool:
        """Whether every side executed it."""
        return all(side.state is LayerState.EXECUTED for side in self.sides)


@dataclass(frozen=True)
class Join:
    """Rows in which every layer of every profile stands exactly once, so that times add up to the totals.

    `total_ns` and `joined_ns` (in rows that every side executed) have one entry a profile. `largest_share` is the
    largest part of a model's nodes, folded ones left out, that stands in one joined row: near 1, a join tells nothing.
    """

    rows: tuple[Row, ...]
    total_ns: tuple[int, ...]
    joined_ns: tuple[int, ...]
    largest_share: float

    @property
    def coverage(self) -> tuple[float | None, ...]:
        """The part of each profile's time in joined rows; None where no time was measured."""
        return tuple(
            joined / total if total else None for joined, total in zip(self.joined_ns, self.total_ns, strict=True)
        )

    @property
    def joined_rows(self) -> int:
        """How many rows every side executed."""
        return sum(row.is_joined for row in self.rows)

    @property
    def exact_rows(self) -> int:
        """How many of them run the very same nodes."""
        return sum(row.is_joined and row.exact for row in self.rows)
