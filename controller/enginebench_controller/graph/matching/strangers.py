"""Layers that engines made for themselves, such as reorders: which of several profiles are known to be the same thing.

ONNX Runtime numbers them in an order that another process does not keep: of one model, "ReorderOutput" is behind c1 in
one and behind c2 in the next. OpenVINO says what it moves: "input_abcd_acdb_conv1".
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.graph.matching.matched import LayerCategory, MatchedProfile, is_executed
from enginebench_controller.records import Layer

_WORD = re.compile(r"[^\W\d_]+")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_UNIQUE = "_token_"
"""ONNX Runtime puts it, with a number, behind a name that is taken."""
_NOBODYS = frozenset({"layer", "node", "unnamed"})

Kind = tuple[LayerCategory, str | int, str]
"""A layer's category, its engine (without one the side: nobody knows whose words these are), and its type."""


@dataclass(frozen=True)
class Stranger:
    """The places of one thing by side, in each profile's layers.

    Where it `is_known` what it is, those of its kind of which this is known, too, are something else.
    """

    kind: Kind
    places: Mapping[int, int]
    is_known: bool


def strangers(profiles: Sequence[MatchedProfile], rows: Sequence[Mapping[int, int]]) -> list[Stranger]:
    """The layers outside of all groups; those of one engine are one thing where nothing else on a side could be it.

    `rows` has for each profile the row of each of its groups. A name tells where it holds more than the type's words
    and numbers; else a layer is known by the row, or the input of the graph, whose output it moves, and by its shapes.
    """
    known: dict[tuple[Kind, Hashable], list[tuple[int, int]]] = defaultdict(list)
    found: list[Stranger] = []
    for side, profile in enumerate(profiles):
        origins = _Origins(profile, rows[side])
        for place, group in enumerate(profile.matching.group_of_layer):
            if group is None:
                category, layer = profile.matching.categories[place], profile.layers[place]
                kind = (category, side if profile.engine is None else profile.engine, layer.type)
                identity = _identity(layer, category, origins.of(place))
                if identity is None:
                    found.append(Stranger(kind, {side: place}, is_known=False))
                else:
                    known[kind, identity].append((side, place))
    return [*found, *(one for (kind, _), alike in known.items() for one in _told_apart(kind, alike))]


def _told_apart(kind: Kind, alike: Sequence[tuple[int, int]]) -> Iterator[Stranger]:
    """All of them as one, or each alone where a side has several and none tells which of them is the other side's."""
    is_one = max(Counter(side for side, _ in alike).values()) == 1
    for places in [alike] if is_one else [[one] for one in alike]:
        yield Stranger(kind, dict(places), is_known=is_one)


def _identity(layer: Layer, category: LayerCategory, origin: int | str | None) -> Hashable:
    if not _is_numbered(layer.name, layer.type, category):
        return layer.name
    # Without the first dimension, for it is the batch's, and another batch's reorder is still the same thing.
    return None if origin is None else (origin, tuple(shape[1:] for shape in layer.output_shapes))


def _is_numbered(name: str, type_: str, category: LayerCategory) -> bool:
    """Whether a name tells no more than what kind of layer it is, and a number."""
    parts = {part.lower() for part in _PART.findall(type_)}
    own = {type_.lower(), *parts, *category.split("_"), *_NOBODYS}
    return _UNIQUE in name or all(word.lower() in own for word in _WORD.findall(name))


class _Origins:
    """Where what a profile's layers read comes from."""

    def __init__(self, profile: MatchedProfile, rows: Mapping[int, int]) -> None:
        self._layers = profile.layers
        self._inputs = frozenset(profile.graph.inputs)
        self._rows = [None if group is None else rows[group] for group in profile.matching.group_of_layer]
        executed = zip(self._rows, profile.layers, strict=True)
        self._sizes = Counter(row for row, layer in executed if is_executed(layer))
        self._makers = {name: place for place, layer in enumerate(profile.layers) for name in layer.outputs}

    def of(self, place: int) -> int | str | None:
        """The row, or the name of the graph's input, behind all strangers before this one; None where unknown.

        Of a row with several layers nobody knows which of them are each other's.
        """
        seen = set()
        while place not in seen:
            seen.add(place)
            layer = self._layers[place]
            # A layer that reads nothing holds data: an input of the graph, or a weight.
            name = next(iter(layer.inputs or layer.outputs), "")
            if not layer.inputs or name not in self._makers:
                return name if name in self._inputs else None
            place = self._makers[name]
            if (row := self._rows[place]) is not None:
                return row if self._sizes[row] == 1 else None
        return None
