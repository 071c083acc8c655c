"""Layers that engines made for themselves, such as reorders: which of several profiles are known to be the same thing.

ONNX Runtime numbers them in an order that another process does not keep: of one model, "ReorderOutput" is behind c1 in
one and behind c2 in the next. OpenVINO says what it moves: "input_abcd_acdb_conv1".
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.graph.matching.matched import ADDED, LayerCategory, MatchedProfile, is_executed

_WORD = re.compile(r"[^\W\d_]+")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBERED = re.compile(r"[A-Za-z]+_\d+")
"""OpenVINO numbers nodes that no one named by the operator, which is not the layer's type: Multiply_17731, Eltwise."""
_UNIQUE = "_token_"
"""ONNX Runtime puts it, with a number, behind a name that is taken."""
_NOBODYS = frozenset({"layer", "node", "unnamed"})

_MOVING = (*ADDED, LayerCategory.DATA)
_MOST_MOVERS = 8
"""So many move the same data one after the other; more of them are no profile of an engine."""

Kind = tuple[LayerCategory, str | int, str]
"""A layer's category, its engine (without one the side: nobody knows whose words these are), and its type."""


@dataclass(frozen=True)
class Stranger:
    """The places of one thing by side, in each profile's layers."""

    kind: Kind
    places: Mapping[int, int]


def strangers(profiles: Sequence[MatchedProfile], rows: Sequence[Mapping[int, int]]) -> list[Stranger]:
    """The layers outside of all groups; those of one engine are one thing where nothing else on a side could be it.

    `rows` has for each profile the row of each of its groups. A name tells where it holds more than the type's words
    and numbers; else a layer is known by the output of a row, or the input of the graph, that it moves, and its shapes.
    """
    known: dict[tuple[Kind, Hashable], list[tuple[int, int]]] = defaultdict(list)
    found: list[Stranger] = []
    for side, profile in enumerate(profiles):
        origins = _Origins(profile, rows[side])
        for place, group in enumerate(profile.matching.group_of_layer):
            if group is None:
                category, layer = profile.matching.categories[place], profile.layers[place]
                kind = (category, side if profile.engine is None else profile.engine, layer.type)
                is_told = not _is_numbered(layer.name, layer.type, category)
                identity = layer.name if is_told else origins.of(place)
                if identity is None:
                    found.append(Stranger(kind, {side: place}))
                else:
                    known[kind, identity].append((side, place))
    return [*found, *(one for (kind, _), alike in known.items() for one in _told_apart(kind, alike))]


def _told_apart(kind: Kind, alike: Sequence[tuple[int, int]]) -> Iterator[Stranger]:
    """All of them as one, or each alone where a side has several and none tells which of them is the other side's."""
    is_one = max(Counter(side for side, _ in alike).values()) == 1
    for places in [alike] if is_one else [[one] for one in alike]:
        yield Stranger(kind, dict(places))


def _is_numbered(name: str, type_: str, category: LayerCategory) -> bool:
    """Whether a name tells no more than what kind of layer it is, and a number."""
    parts = {part.lower() for part in _PART.findall(type_)}
    own = {type_.lower(), *parts, *category.split("_"), *_NOBODYS}
    tells_no_more = all(word.lower() in own for word in _WORD.findall(name))
    return tells_no_more or _UNIQUE in name or _NUMBERED.fullmatch(name) is not None


class _Origins:
    """Where what a profile's layers move comes from."""

    def __init__(self, profile: MatchedProfile, rows: Mapping[int, int]) -> None:
        self._layers, self._categories = profile.layers, profile.matching.categories
        self._inputs = frozenset(profile.graph.inputs)
        self._rows = [None if group is None else rows[group] for group in profile.matching.group_of_layer]
        executed = zip(self._rows, profile.layers, strict=True)
        self._sizes = Counter(row for row, layer in executed if is_executed(layer))
        self._makers = {
            name: (place, number)
            for place, layer in enumerate(profile.layers)
            for number, name in enumerate(layer.outputs)
        }

    def of(self, place: int) -> Hashable:
        """The row with the number of its output, or the name of the graph's input, that is moved, with the types of
        those that have moved it before, and the shapes that it gets; None where unknown.

        Of a row with several layers nobody knows which of them are each other's, nor what a stranger computes.
        """
        # Without the first dimension, for it is the batch's, and another batch's reorder is still the same thing.
        shapes = tuple(shape[1:] for shape in self._layers[place].output_shapes)
        before: list[str] = []
        while shapes and self._rows[place] is None and len(before) < _MOST_MOVERS:
            layer = self._layers[place]
            # A layer that reads nothing holds data: an input of the graph, or a weight.
            names = [name for name in layer.inputs or layer.outputs if name in self._makers or name in self._inputs]
            if self._categories[place] not in _MOVING or len(names) != 1:
                return None
            if not layer.inputs or names[0] not in self._makers:
                return (names[0], shapes, *before) if names[0] in self._inputs else None
            before.append(layer.type)
            place, number = self._makers[names[0]]
        row = self._rows[place]
        return (row, number, shapes, *before) if row is not None and self._sizes[row] == 1 else None
