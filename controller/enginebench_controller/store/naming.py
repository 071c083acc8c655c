"""Which of several things a name means: one, or a sentence that tells those apart that it could mean."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

import duckdb

from enginebench_controller.errors import InputError
from enginebench_controller.records import Benchmark, Measurement, Profile, Search
from enginebench_controller.store.statements import Row, rows
from enginebench_proto.agreed.names import as_name

BY_ID = ("id = ?", "starts_with(id, ?)")
BY_NAME = ("id = ?", "? IN (name, nfc_normalize(name))", "starts_with(id, ?)")
"""How a word, `as_name`, can mean a row of a table, the strongest way first; older names may stand as files have them.
"""

Found = TypeVar("Found", Benchmark, Measurement, Profile, Search)

_LISTED_BY = {"benchmark": "list", "measurement": "show ID --json", "profile": "profiles list", "search": "list"}
_TABLES = {"benchmark": "benchmarks", "profile": "profiles", "measurement": "measurements", "search": "searches"}
_SHOWN_BY = {"benchmark": "show", "profile": "profiles show", "measurement": "open", "search": "show"}
_MOST_NAMED = 8
_FEWEST_CHARACTERS = 6
"""Shorter starts may be those of something else in the store, too: ids are random."""


def meant(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    named: str,
    ways: Sequence[str] = BY_NAME,
    order: str = "created_at_unix_ns DESC, id",
) -> list[Row]:
    """Return the rows that `named` means in the strongest way in which it means any; none for an empty name."""
    for way in ways if named else ():
        if found := rows(connection, f"SELECT * FROM {table} WHERE {way} ORDER BY {order}", as_name(named)):  # noqa: S608
            return found
    return []


def only(
    found: Sequence[Found], named: str, noun: str = "benchmark", connection: duckdb.DuckDBPyConnection | None = None
) -> Found:
    """Return what was found. Raises `InputError` where it is nothing, or several.

    Then it has the engine and the model of each, and the shortest ids that tell them apart; of nothing, what else in
    the store is called so.
    """
    if not found:
        raise unknown(named, noun) if connection is None else _not_this(connection, named, noun)
    if len(found) > 1:
        starts = shortest([one.id for one in found])
        said = [f"{short} ({_words(one)})" for short, one in zip(starts, found, strict=True)]
        more = f", and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else ""
        raise InputError(
            f"{named!r} means {len(said)} {_TABLES[noun]}; name one by its id: {', '.join(said[:_MOST_NAMED])}{more}"
        )
    return found[0]


def unknown(named: str, noun: str = "benchmark") -> InputError:
    """The error for a name that means nothing."""
    return InputError(f"there is no {noun} {named!r}; `enginebench {_LISTED_BY[noun]}` shows those there are")


def _not_this(connection: duckdb.DuckDBPyConnection, named: str, noun: str) -> InputError:
    """The error for a name that is none of these: what else it is, where it is anything."""
    for kind, table in _TABLES.items():
        ways = BY_ID if kind == "measurement" else BY_NAME
        if kind == noun or not (others := meant(connection, table, named, ways, "id")):
            continue
        if len(others) == 1:
            shown = f"`enginebench {_SHOWN_BY[kind]} {named}` shows it"
            return InputError(f"{named!r} is a {kind}, not a {noun}; {shown}")
        shown = f"`enginebench {_LISTED_BY[kind]}` shows them"
        return InputError(f"{named!r} is what {len(others)} {table} are called, and no {noun} is; {shown}")
    return unknown(named, noun)


def shortest(ids: Sequence[str], fewest: int = _FEWEST_CHARACTERS) -> list[str]:
    """The shortest starts of ids that tell these apart, of at least so many characters."""
    lengths = range(fewest, max(map(len, ids), default=0))
    length = next((one for one in lengths if len({id_[:one] for id_ in ids}) == len(ids)), None)
    return [id_[:length] for id_ in ids]


def _words(found: Benchmark | Measurement | Profile | Search) -> str:
    """What tells things of one name apart."""
    if isinstance(found, Search):
        return f"{found.kind}, {_made(found)}"
    if isinstance(found, Benchmark):
        engines, models = (", ".join(found.listed(key)) for key in ("engines", "models"))
        return " ".join(filter(None, (_made(found), engines, models and f"on {models}")))
    asked = found.configuration
    engine = " ".join(filter(None, (found.engine.name, found.engine.version)))
    ended = "" if found.status.has_numbers else f", {found.status}"
    return f"{engine} on {found.model_name}, {asked.device}, {asked.size}{ended}"


def _made(found: Benchmark | Search) -> str:
    return datetime.fromtimestamp(found.created_at_unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")
