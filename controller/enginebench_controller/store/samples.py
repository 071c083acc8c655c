"""Raw samples in and out of the store, by the block, in memory that does not grow with their number."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import BlockSamples

_SERIES = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns")
_CHUNK_ROWS = 65_536
_RELEASE_EVERY_SAMPLES = 1_000_000
_Buffers = dict[str, NDArray[np.int64]]


def insert_samples(connection: duckdb.DuckDBPyConnection, measurement_id: str, samples: Iterable[BlockSamples]) -> None:
    """Add the samples of a measurement, taking one block after the other from the iterable.

    Raises ValueError when the series of a block differ in length.
    """
    # DuckDB keeps every array it was ever shown until it is closed, so all blocks pass through the same few.
    buffers = {series: np.empty(_CHUNK_ROWS, dtype=np.int64) for series in _SERIES}
    connection.register("arriving", buffers)
    unreleased = 0
    for block in samples:
        _insert_block(connection, measurement_id, block, buffers)
        unreleased += block.latency_ns.size
        if unreleased >= _RELEASE_EVERY_SAMPLES:
            _release_written(connection)
            unreleased = 0
    connection.unregister("arriving")


def latencies(connection: duckdb.DuckDBPyConnection, measurement_id: str) -> NDArray[np.int64] | None:
    """Return all raw latencies in ns, int64 of shape (samples,), in the order they were stored; None without any."""
    found = _columns(connection, measurement_id, ("latency_ns",))["latency_ns"]
    return np.asarray(found, dtype=np.int64) if found.size else None


def block_samples(connection: duckdb.DuckDBPyConnection, measurement_id: str) -> tuple[BlockSamples, ...]:
    """Return the raw samples of a measurement, block by block, in the order they were stored."""
    query = "SELECT count(scheduled_ns) FROM block_samples WHERE measurement_id = ?"
    timed_by_schedule = connection.execute(query, [measurement_id]).fetchall()[0][0] > 0
    series = _SERIES if timed_by_schedule else _SERIES[:1]
    columns = _columns(connection, measurement_id, ("process", "block", *series))
    return tuple(_block(columns, series, rows) for rows in _runs(columns["process"], columns["block"]))


def _insert_block(
    connection: duckdb.DuckDBPyConnection, measurement_id: str, block: BlockSamples, buffers: _Buffers
) -> None:
    present = [series for series in _SERIES if getattr(block, series) is not None]
    columns = ", ".join(present)
    statement = (
        f"INSERT INTO block_samples (measurement_id, process, block, {columns}) "  # noqa: S608
        f"SELECT ?, ?, ?, {columns} FROM arriving LIMIT ?"
    )
    for start in range(0, block.latency_ns.size, _CHUNK_ROWS):
        rows = min(_CHUNK_ROWS, block.latency_ns.size - start)
        for series in present:
            buffers[series][:rows] = getattr(block, series)[start : start + rows]
        connection.execute(statement, [measurement_id, block.process, block.block, rows])


def _release_written(connection: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB forget what it has written to the file already; it would keep that up to 80 % of the memory.

    A limit below what it uses now makes it let go at once. Half of what may go, for a limit that cannot be reached
    aborts the transaction.
    """
    query = """
        SELECT sum(memory_usage_bytes)::BIGINT,
            coalesce(sum(memory_usage_bytes) FILTER (tag = 'BASE_TABLE'), 0)::BIGINT
        FROM duckdb_memory()"""
    ((used_bytes, written_bytes),) = connection.execute(query).fetchall()
    connection.execute(f"SET memory_limit = '{(used_bytes - written_bytes // 2) // 1024 + 1}KiB'")
    connection.execute("RESET memory_limit")


def _columns(
    connection: duckdb.DuckDBPyConnection, measurement_id: str, names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    # A scan keeps the order of insertion, which is that of completion within a block.
    query = f"SELECT {', '.join(names)} FROM block_samples WHERE measurement_id = ?"  # noqa: S608
    columns: dict[str, NDArray[Any]] = connection.execute(query, [measurement_id]).fetchnumpy()
    return columns


def _runs(process: NDArray[Any], block: NDArray[Any]) -> list[slice]:
    """Return where the rows of one block after the other begin and end."""
    if not process.size:
        return []
    changes = np.flatnonzero((np.diff(process) != 0) | (np.diff(block) != 0)) + 1
    bounds = [0, *changes.tolist(), process.size]
    return [slice(begin, end) for begin, end in pairwise(bounds)]


def _block(columns: dict[str, NDArray[Any]], series: Sequence[str], rows: slice) -> BlockSamples:
    found = {name: _unless_null(columns[name][rows]) for name in series}
    first = rows.start
    return BlockSamples(int(columns["process"][first]), int(columns["block"][first]), **found)  # type: ignore[arg-type]


def _unless_null(values: NDArray[Any]) -> NDArray[np.int64] | None:
    return None if np.ma.is_masked(values) else np.asarray(values, dtype=np.int64)
