"""What files of schema 6 have in words alone, read once, by the step that gives it columns of its own.

In the form of schema 7, written out here: a step goes on doing what it did, whatever rows come to look like later.
"""

import json
from collections.abc import Callable
from dataclasses import asdict

import duckdb

from enginebench_controller.records.model import Derivation
from enginebench_proto.agreed.disturbances import Disturbance


def fill_in(connection: duckdb.DuckDBPyConnection) -> None:
    """Tell by kind how models were derived and what disturbed blocks."""
    _fill(connection, "models", "derivation", "derived_by", _of_derivation)
    _fill(connection, "blocks", "disturbances", "disturbed_by", _of_disturbances)


def _fill(connection: duckdb.DuckDBPyConnection, table: str, words: str, column: str, form: Callable[..., str]) -> None:
    """Each text is read once, however many rows have it."""
    said = [one for (one,) in connection.execute(f"SELECT DISTINCT {words} FROM {table}").fetchall() if one]  # noqa: S608
    if said:
        told = "(SELECT unnest(?) AS said, unnest(?) AS form)"
        update = f"UPDATE {table} SET {column} = told.form FROM {told} AS told WHERE {table}.{words} = told.said"  # noqa: S608
        connection.execute(update, [said, list(map(form, said))])


def _of_derivation(sentence: str) -> str:
    return json.dumps(asdict(Derivation.from_sentence(sentence)))


def _of_disturbances(phrases: list[str]) -> str:
    told = (asdict(Disturbance.from_phrase(phrase)) for phrase in phrases)
    return json.dumps([{name: value for name, value in one.items() if value not in (None, "")} for one in told])
