"""Time by layer type on two sides, and what happened to precisions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from enginebench_controller.comparing.layer_rows import LayerRow
from enginebench_controller.comparing.precisions import plain_precision
from enginebench_controller.model.matching import Join, Side, mean_layer_ns
from enginebench_controller.records import Layer, Profile


@dataclass(frozen=True)
class TypeSide:
    """One profile's timed layers of a type: their time, its share, their number, and their number by precision.

    A side without any has no time, which is not a time of 0. Precisions are the engine's words, made comparable.
    """

    time_ns: int | None = None
    share: float | None = None
    layers: int = 0
    precisions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TypeRow:
    """A type on both sides."""

    type: str
    first: TypeSide
    second: TypeSide


@dataclass(frozen=True)
class Transition:
    """Rows of one operator that ran in one precision on the first side, and in another or the same on the second."""

    operator: str
    first: str
    second: str
    rows: int
    first_ns: int
    second_ns: int

    @property
    def is_same(self) -> bool:
        """Whether nothing changed."""
        return self.first == self.second


def types_by_operator(profiles: tuple[Profile, Profile], join: Join, rows: Sequence[LayerRow]) -> tuple[TypeRow, ...]:
    """By the operator of the model that a row stands for, so that Conv and Convolution are one; slowest first."""
    names = [row.operator for row in rows]
    return _table([_timed(profile, _side_types(join, names, side)) for side, profile in enumerate(profiles)])


def types_by_engine(profiles: tuple[Profile, Profile]) -> tuple[TypeRow, ...]:
    """By each engine's own words; slowest first."""
    return _table([_timed(profile, [layer.type for layer in profile.layers]) for profile in profiles])


def transitions(rows: Iterable[LayerRow]) -> tuple[Transition, ...]:
    """What became of the precisions of the rows that both sides executed, most time of the first side first."""
    groups: dict[tuple[str, str, str], list[LayerRow]] = defaultdict(list)
    for row in rows:
        if row.is_joined:
            groups[row.operator, row.first.precision, row.second.precision].append(row)
    found = [_transition(*key, own) for key, own in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.first_ns, one.operator, one.first, one.second)))


def _transition(operator: str, first: str, second: str, rows: Sequence[LayerRow]) -> Transition:
    times = [[side.time_ns or 0 for side in (row.first, row.second)] for row in rows]
    return Transition(operator, first, second, len(rows), *(sum(side) for side in zip(*times, strict=True)))


def _side_types(join: Join, names: Sequence[str], which: int) -> list[str]:
    types: dict[int, str] = {}
    for row, name in zip(join.rows, names, strict=True):
        side: Side = row.sides[which]
        types.update(dict.fromkeys(side.layers, name))
    return [types[position] for position in range(len(types))]


def _timed(profile: Profile, types: Sequence[str]) -> dict[str, list[Layer]]:
    found: dict[str, list[Layer]] = defaultdict(list)
    for layer, name in zip(profile.layers, types, strict=True):
        if layer.time_ns:
            found[name].append(layer)
    return found


def _table(sides: Sequence[Mapping[str, Sequence[Layer]]]) -> tuple[TypeRow, ...]:
    totals = [sum(map(_time, side.values())) for side in sides]
    names = dict.fromkeys(name for side in sides for name in side)
    rows = [
        TypeRow(name, *(_type_side(side.get(name, ()), total) for side, total in zip(sides, totals, strict=True)))
        for name in names
    ]
    slowest: Callable[[TypeRow], int] = lambda row: max(row.first.time_ns or 0, row.second.time_ns or 0)  # noqa: E731
    return tuple(sorted(rows, key=lambda row: (-slowest(row), row.type)))


def _type_side(layers: Sequence[Layer], total: int) -> TypeSide:
    if not layers:
        return TypeSide()
    time = _time(layers)
    precisions = Counter(plain_precision(layer.precision) for layer in layers)
    return TypeSide(time, time / total if total else None, len(layers), dict(precisions))


def _time(layers: Iterable[Layer]) -> int:
    return sum(mean_layer_ns(layer) or 0 for layer in layers)
