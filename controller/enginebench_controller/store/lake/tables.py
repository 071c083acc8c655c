"""The tables of a lake: which of ours it has, whose rows they are, and how these are read out of the own store.

A table has the columns of ours, and besides them `month`, by which files are parted, and where ours does not have it
the id that its rows belong to. JSON is text there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from enginebench_controller.store.connection import in_memory
from enginebench_controller.store.schema import FIRST_VERSION, MIGRATIONS
from enginebench_controller.store.statements import rows

if TYPE_CHECKING:
    import pyarrow

SCHEMA = FIRST_VERSION + len(MIGRATIONS) - 1
"""A lake's schema is that of the store: a step of it adds the same columns here and there."""

MONTH = "month"
"""When the benchmark, profile or model was made: 2026-11, in UTC."""

SAMPLE = "sample"
"""The place of a sample within its block, from 0: files of a lake have no order among them."""


@dataclass(frozen=True)
class LakeTable:
    """A table of a lake. `key` names what a row belongs to, and `sorted_by` what readers look for.

    `source` is where the rows of ids lie in the own store, with `part` for the table itself and `$ids` for the ids.
    """

    name: str
    key: str
    sorted_by: str
    source: str


_OF_BENCHMARK = "{table} AS part JOIN benchmarks AS made ON made.id = part.benchmark_id"
_OF_MEASUREMENT = (
    "{table} AS part JOIN measurements AS one ON one.id = part.measurement_id "
    "JOIN benchmarks AS made ON made.id = one.benchmark_id"
)
_OF_PROFILE = "{table} AS part JOIN profiles AS made ON made.id = part.profile_id"


def _table(name: str, key: str, sorted_by: str, source: str = "{table} AS part") -> LakeTable:
    return LakeTable(name, key, sorted_by, source.format(table=name))


MODELS = _table("models", "digest", "digest")


@dataclass(frozen=True)
class Kind:
    """What is written whole: its parts first, in this order, and its row in `head` last, through which all are seen."""

    noun: str
    head: LakeTable
    parts: tuple[LakeTable, ...]


BENCHMARK = Kind(
    "benchmark",
    _table("benchmarks", "id", "id"),
    (
        _table("measurements", "benchmark_id", "benchmark_id", _OF_BENCHMARK),
        _table("benchmark_snapshots", "benchmark_id", "benchmark_id", _OF_BENCHMARK),
        _table("processes", "benchmark_id", "measurement_id", _OF_MEASUREMENT),
        _table("blocks", "benchmark_id", "measurement_id", _OF_MEASUREMENT),
        _table("captured_outputs", "benchmark_id", "measurement_id", _OF_MEASUREMENT),
        _table("block_samples", "benchmark_id", "measurement_id", _OF_MEASUREMENT),
    ),
)
PROFILE = Kind(
    "profile",
    _table("profiles", "id", "id"),
    (
        _table("layers", "profile_id", "profile_id", _OF_PROFILE),
        _table("profile_nodes", "profile_id", "profile_id", _OF_PROFILE),
    ),
)
KINDS = (BENCHMARK, PROFILE)
HEADS = tuple(kind.head for kind in KINDS)
TABLES = (*HEADS, MODELS, *BENCHMARK.parts, *PROFILE.parts)
SAMPLES = "block_samples"


@dataclass(frozen=True)
class StoreColumn:
    """A column of the own store; `type` is DuckDB's, and `default` the SQL of what an older row has in it."""

    name: str
    type: str
    default: str


@cache
def store_columns() -> Mapping[str, tuple[StoreColumn, ...]]:
    """The columns of the tables of the own store, as this version makes them."""
    query = "SELECT table_name, column_name, data_type, column_default FROM duckdb_columns() WHERE NOT internal"
    found: dict[str, tuple[StoreColumn, ...]] = {}
    with in_memory() as connection:
        for row in rows(connection, f"{query} ORDER BY table_name, column_index"):
            column = StoreColumn(row["column_name"], row["data_type"], row["column_default"] or "NULL")
            found[row["table_name"]] = (*found.get(row["table_name"], ()), column)
    return found


def arrow_schema(table: LakeTable) -> "pyarrow.Schema":
    """The columns of a table of a lake, what its rows belong to first: files tell least and most of the first ones."""
    import pyarrow  # noqa: PLC0415  # of an extra

    fields = [(column.name, _arrow_type(pyarrow, column.type)) for column in store_columns()[table.name]]
    own = [] if any(name == table.key for name, _ in fields) else [(table.key, pyarrow.string())]
    place = [(SAMPLE, pyarrow.int32())] if table.name == SAMPLES else []
    return pyarrow.schema([(MONTH, pyarrow.string()), *own, *fields, *place])


def _arrow_type(pyarrow: Any, kind: str) -> Any:
    if kind.endswith("[]"):
        return pyarrow.list_(_arrow_type(pyarrow, kind.removesuffix("[]")))
    types = {
        "BIGINT": pyarrow.int64(),
        "BLOB": pyarrow.binary(),
        "BOOLEAN": pyarrow.bool_(),
        "DOUBLE": pyarrow.float64(),
        "INTEGER": pyarrow.int32(),
        "JSON": pyarrow.string(),
        "VARCHAR": pyarrow.string(),
    }
    return types[kind]


def selection(table: LakeTable, among: str = "") -> str:
    """The query, with `$ids`, for the rows of a table in the own store; of those only that are `among`, a condition."""
    names = [column.name for column in store_columns()[table.name]]
    kinds = {column.name: column.type for column in store_columns()[table.name]}
    owner = "part" if table.source.endswith("AS part") else "made"
    key = f"{owner}.{table.key if owner == 'part' else 'id'}"
    month = f"strftime(make_timestamp_ns({owner}.created_at_unix_ns)::TIMESTAMP, '%Y-%m') AS {MONTH}"
    chosen = [month, *([] if table.key in kinds else [f"{key} AS {table.key}"])]
    chosen += [f"part.{name}{'::VARCHAR' if kinds[name] == 'JSON' else ''} AS {name}" for name in names]
    if table.name == SAMPLES:
        place = "row_number() OVER (PARTITION BY part.measurement_id, process, block ORDER BY part.rowid) - 1"
        chosen.append(f"({place})::INTEGER AS {SAMPLE}")
    conditions = " AND ".join(filter(None, (f"{key} IN (SELECT unnest($ids))", among)))
    order = ", ".join(
        dict.fromkeys((table.sorted_by, *(["process", "block", SAMPLE] if table.name == SAMPLES else [])))
    )
    return f"SELECT {', '.join(chosen)} FROM {table.source} WHERE {conditions} ORDER BY {order}"  # noqa: S608
