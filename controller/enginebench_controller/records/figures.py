"""A figure is a field of a record that is one number, word or truth, and says what it means.

It is declared once, as `Annotated[…, Figure("…")]`. What is taken over of the wire's field of that name, the column,
the cell of CSV, the value in JSON with its line in the schema, and the words in docs/reference/tables.md follow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from operator import itemgetter
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

R = TypeVar("R")


@dataclass(frozen=True)
class Figure:
    """What a figure means, in a line, with its unit; that of a whole may be the total of its parts'."""

    meaning: str
    is_total: bool = False

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Callable[[Any], Any]) -> Any:
        """Pydantic asks this of what annotates a field: the meaning is its description in a JSON Schema."""
        return {**handler(core_schema), "description": self.meaning}


@cache
def figures(record: type) -> Mapping[str, str]:
    """The figures among the fields of a record, by name in their order, with their meanings."""
    return {name: figure.meaning for name, _, figure in _declared(record)}


@cache
def derived_figures(record: type) -> Mapping[str, str]:
    """The figures that follow from others of a record, by name in their order, with their meanings."""
    makers = {name: one.fget for name, one in vars(record).items() if isinstance(one, property)}
    found = {name: _figure(get_type_hints(maker, include_extras=True)["return"]) for name, maker in makers.items()}
    return {name: figure.meaning for name, figure in found.items() if figure}


def values(record: Any) -> dict[str, Any]:
    """Name and value of each figure of a record; an enum's is its word."""
    return {name: _plain(getattr(record, name)) for name in figures(record.__class__)}


def derived_values(record: Any) -> dict[str, Any]:
    """Name and value of each figure that follows from others."""
    return {name: getattr(record, name) for name in derived_figures(record.__class__)}


def from_values(record: type, row: Mapping[str, Any]) -> dict[str, Any]:
    """What to make a record with, of a mapping that has a value for each of its figures; words become enums again."""
    names, take, enums = _taking(record)
    found = dict(zip(names, take(row), strict=True))
    for name, kind in enums:
        if found[name] is not None:
            found[name] = kind(found[name])
    return found


def totals(whole: type, parts: Sequence[Any]) -> dict[str, Any]:
    """The figures of a whole that are the totals of those of its parts, by name; unknown where that of one part is."""
    names = [name for name, _, figure in _declared(whole) if figure.is_total]
    return {name: _total([getattr(part, name) for part in parts]) for name in names}


def _total(values: Sequence[Any]) -> Any:
    return sum(values) if values and None not in values else None


def _declared(record: type) -> Iterator[tuple[str, Any, Figure]]:
    hints = get_type_hints(record, include_extras=True)
    for one in fields(record):
        if figure := _figure(hints[one.name]):
            yield one.name, get_args(hints[one.name])[0], figure


def _figure(hint: Any) -> Figure | None:
    told = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((one for one in told if isinstance(one, Figure)), None)


@cache
def _taking(
    record: type,
) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[tuple[str, type[Enum]], ...]]:
    """The names of the figures, what takes their values out of a row, and which are enums: pages read 100,000 rows."""
    names = tuple(figures(record))
    take = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)
    kinds = ((name, one) for name, hint, _ in _declared(record) for one in get_args(hint))
    return names, take, tuple((name, one) for name, one in kinds if isinstance(one, type) and issubclass(one, Enum))


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
