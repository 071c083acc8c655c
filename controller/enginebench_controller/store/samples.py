"""Raw samples in and out by the block, in memory that does not grow, and reduced where they lie for charts."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import BlockSamples
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.statements import Row, among, rows

_SERIES = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns")
_PLACE = ("owner", "process", "block")
_CHUNK_ROWS = 65_536
_RELEASE_EVERY_SAMPLES = 1_000_000
_READ_SAMPLES = 4_000_000
"""So many are read at a time, or those of one measurement: each scan passes over the samples of all others."""

SHARES = 400
"""Into how many equal shares of the samples the quantiles part them."""

LEVEL_RATIO = 1.01
"""Each level of a histogram ends 1 % above where it begins, for every measurement alike."""


@dataclass(frozen=True, eq=False)
class LatencyCurve:
    """The raw latencies of a measurement, reduced to what can be seen.

    `iterations` and `latency_ns`, int64 of shape (points,), are the smallest and the largest latency of each of many
    equal stretches, in the order in which they came: no peak is lost. Iterations count from 0 over all processes,
    which begin at `process_starts`. The rest is of the `counted` samples alone, those outside of excluded blocks:
    `quantiles_ns`, int64 of shape (SHARES + 1,), are the latencies within which 0, 1, … SHARES of SHARES parts of them
    were done. `levels_ns`, of shape (levels,), are where the levels of the histogram begin, and `level_shares` the
    shares of them in each; empty levels are left out.
    """

    samples: int
    counted: int
    iterations: NDArray[np.int64]
    latency_ns: NDArray[np.int64]
    process_starts: tuple[int, ...]
    quantiles_ns: NDArray[np.int64]
    levels_ns: NDArray[np.float64]
    level_shares: NDArray[np.float64]


# One scan of the samples, of which there may be many millions. The rows of a block lie one behind the other in the
# order of completion, so the place of each within its block is that of its row.
_CURVES = f"""
    WITH own AS MATERIALIZED (
        SELECT measurement_id, process, block, latency_ns, rowid AS place
        FROM block_samples WHERE {{among}}
    ), left_out AS (
        SELECT unnest(?::VARCHAR[]) AS measurement_id, unnest(?::INTEGER[]) AS process, unnest(?::INTEGER[]) AS block
    ), counting AS (
        SELECT measurement_id, latency_ns FROM own ANTI JOIN left_out USING (measurement_id, process, block)
    ), per_block AS MATERIALIZED (
        SELECT measurement_id, process, block, count(*) AS samples, min(place) AS first_place FROM own GROUP BY ALL
    ), placed AS (
        SELECT *, sum(samples) OVER (PARTITION BY measurement_id ORDER BY process, block) - samples AS before,
            sum(samples) OVER (PARTITION BY measurement_id) AS whole
        FROM per_block
    ), counted AS (
        SELECT measurement_id, latency_ns, (before + place - first_place)::BIGINT AS iteration, whole::BIGINT AS whole
        FROM own JOIN placed USING (measurement_id, process, block)
    ), binned AS (
        SELECT measurement_id, iteration * ? // whole AS bin,
            min(latency_ns) AS low, arg_min(iteration, latency_ns) AS low_at,
            max(latency_ns) AS high, arg_max(iteration, latency_ns) AS high_at
        FROM counted GROUP BY ALL
    ), curves AS (
        SELECT measurement_id, list(low_at ORDER BY bin) AS low_at, list(low ORDER BY bin) AS low,
            list(high_at ORDER BY bin) AS high_at, list(high ORDER BY bin) AS high
        FROM binned GROUP BY ALL
    ), begun AS (
        SELECT measurement_id, process, min(before)::BIGINT AS start, sum(samples)::BIGINT AS samples
        FROM placed GROUP BY ALL
    ), starts AS (
        SELECT measurement_id, list(start ORDER BY process) AS starts, sum(samples)::BIGINT AS samples
        FROM begun GROUP BY ALL
    ), shares AS (
        SELECT measurement_id, count(*) AS counted,
            quantile_disc(latency_ns, [part / {SHARES} FOR part IN range({SHARES} + 1)]) AS quantiles
        FROM counting GROUP BY ALL
    ), leveled AS (
        SELECT measurement_id, floor(ln(greatest(latency_ns, 1)) / ln({LEVEL_RATIO}))::INTEGER AS level,
            count(*) AS samples
        FROM counting GROUP BY ALL
    ), levels AS (
        SELECT measurement_id, list(level ORDER BY level) AS levels, list(samples ORDER BY level) AS level_samples
        FROM leveled GROUP BY ALL
    )
    SELECT * FROM curves JOIN starts USING (measurement_id) JOIN shares USING (measurement_id)
        JOIN levels USING (measurement_id)"""  # noqa: S608

_BLOCKS = """
    SELECT measurement_id, process, block, count(*) AS samples, sum(latency_ns)::BIGINT AS total_ns,
        median(latency_ns) AS median_ns
    FROM block_samples WHERE {among}
    GROUP BY ALL ORDER BY measurement_id, process, block"""


# The samples of a measurement lie one behind the other, and so do those of each of its blocks.
_LAYOUT = """
    SELECT measurement_id, process, block, count(*) AS samples, count(scheduled_ns) > 0 AS is_scheduled
    FROM block_samples WHERE {among} GROUP BY measurement_id, process, block ORDER BY {order}"""


class SampleStore(StoreFile):
    """What is kept of raw samples; they come with their measurement, and go with its benchmark."""

    def samples(self, measurement_id: str) -> NDArray[np.int64] | None:
        """Return all raw latencies in ns, int64 of shape (samples,), block after block; None without any."""
        with self._reading() as connection:
            found = _columns(connection, [measurement_id], ("latency_ns",))["latency_ns"]
        return np.asarray(found, dtype=np.int64) if found.size else None

    def block_samples(self, measurement_id: str) -> tuple[BlockSamples, ...]:
        """Return the raw samples of a measurement, block by block; empty without any."""
        with self._reading() as connection:
            return samples_of(connection, [measurement_id])[measurement_id]

    def latency_curves(
        self,
        measurement_ids: Sequence[str],
        excluded: Mapping[str, Collection[tuple[int, int]]] | None = None,
        bins: int = 600,
    ) -> Mapping[str, LatencyCurve]:
        """Return the raw latencies of measurements, by id, reduced to what a chart shows; without samples, none.

        The `excluded` blocks of measurements, by id, are among the iterations only.
        """
        left_out = [(one, *block) for one in measurement_ids for block in (excluded or {}).get(one, ())]
        columns = ([place[column] for place in left_out] for column in range(3))
        with self._reading() as connection:
            query = _CURVES.format(among=among("measurement_id", measurement_ids))
            found = rows(connection, query, *measurement_ids, *columns, bins)
        return {row["measurement_id"]: _curve(row) for row in found}

    def block_latencies(self, measurement_ids: Sequence[str]) -> Mapping[str, tuple[BlockLatency, ...]]:
        """Return what the raw latencies of each block add up to, by measurement id; without samples, none."""
        found: dict[str, list[BlockLatency]] = {}
        with self._reading() as connection:
            query = _BLOCKS.format(among=among("measurement_id", measurement_ids))
            for row in rows(connection, query, *measurement_ids):
                found.setdefault(row.pop("measurement_id"), []).append(BlockLatency(**row))
        return {identity: tuple(blocks) for identity, blocks in found.items()}


def insert_samples(
    connection: duckdb.DuckDBPyConnection, together: Iterable[tuple[str, Iterable[BlockSamples]]]
) -> None:
    """Add the samples of measurements, by id, taking one block after the other from the iterables.

    Raises ValueError when the series of a block differ in length.
    """
    arriving = _Arriving(connection)
    for measurement_id, samples in together:
        for block in samples:
            arriving.add(measurement_id, block)
    arriving.close()


class _Arriving:
    """Samples on their way into the table, of so many blocks and measurements as fill the buffers.

    DuckDB keeps every array it was ever shown until it is closed, so all of them pass through the same few.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._buffers = {name: np.empty(_CHUNK_ROWS, dtype=np.int64) for name in (*_PLACE, *_SERIES)}
        self._rows = self._unreleased = 0
        self._owners: list[str] = []
        self._present: tuple[str, ...] = ()
        connection.register("arriving", self._buffers)

    def add(self, measurement_id: str, block: BlockSamples) -> None:
        present = tuple(series for series in _SERIES if getattr(block, series) is not None)
        if present != self._present:
            self._write()
            self._present = present
        begin = 0
        while begin < block.latency_ns.size:
            begin += self._take(measurement_id, block, begin)
            if self._rows == _CHUNK_ROWS:
                self._write()

    def close(self) -> None:
        self._write()
        self._connection.unregister("arriving")

    def _take(self, measurement_id: str, block: BlockSamples, begin: int) -> int:
        if self._owners[-1:] != [measurement_id]:
            self._owners.append(measurement_id)
        count = min(_CHUNK_ROWS - self._rows, block.latency_ns.size - begin)
        place = slice(self._rows, self._rows + count)
        for name, value in zip(_PLACE, (len(self._owners), block.process, block.block), strict=True):
            self._buffers[name][place] = value
        for series in self._present:
            self._buffers[series][place] = getattr(block, series)[begin : begin + count]
        self._rows += count
        return count

    def _write(self) -> None:
        if not self._rows:
            return
        columns = ", ".join(self._present)
        statement = (
            f"INSERT INTO block_samples (measurement_id, process, block, {columns}) "  # noqa: S608
            f"SELECT (?::VARCHAR[])[owner], process, block, {columns} FROM arriving LIMIT ?"
        )
        self._connection.execute(statement, [self._owners, self._rows])
        self._unreleased += self._rows
        self._rows, self._owners = 0, []
        if self._unreleased >= _RELEASE_EVERY_SAMPLES:
            _release_written(self._connection)
            self._unreleased = 0


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


def samples_of(
    connection: duckdb.DuckDBPyConnection, measurement_ids: Sequence[str]
) -> dict[str, tuple[BlockSamples, ...]]:
    """Return the raw samples of measurements, by id, block by block, in the order they were stored."""
    order = "measurement_id, process, block" if _shows_lakes(connection) else "min(rowid)"
    query = _LAYOUT.format(among=among("measurement_id", measurement_ids), order=order)
    layout = rows(connection, query, *measurement_ids)
    found: dict[str, list[BlockSamples]] = {one: [] for one in measurement_ids}
    for blocks in _portions(layout):
        for measurement_id, block in _read(connection, blocks):
            found[measurement_id].append(block)
    return {one: tuple(blocks) for one, blocks in found.items()}


def _portions(layout: Iterable[Row]) -> Iterator[list[Row]]:
    """The blocks of whole measurements, as many as are read at a time."""
    portion: list[Row] = []
    samples = 0
    for _, measured in groupby(layout, key=itemgetter("measurement_id")):
        blocks = list(measured)
        more = sum(row["samples"] for row in blocks)
        if portion and samples + more > _READ_SAMPLES:
            yield portion
            portion, samples = [], 0
        portion += blocks
        samples += more
    if portion:
        yield portion


def _read(connection: duckdb.DuckDBPyConnection, layout: Sequence[Row]) -> Iterator[tuple[str, BlockSamples]]:
    series = _SERIES if any(row["is_scheduled"] for row in layout) else _SERIES[:1]
    columns = _columns(connection, list(dict.fromkeys(row["measurement_id"] for row in layout)), series)
    for row, end in zip(layout, accumulate(row["samples"] for row in layout), strict=True):
        found = {name: _unless_null(columns[name][end - row["samples"] : end]) for name in series}
        yield row["measurement_id"], BlockSamples(row["process"], row["block"], **found)  # type: ignore[arg-type]


def _columns(
    connection: duckdb.DuckDBPyConnection, measurement_ids: Sequence[str], names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    # The order of insertion is that of completion within a block; a scan may lose it, as where it is joined with names.
    order = "ORDER BY measurement_id, process, block, rowid" if _shows_lakes(connection) else "ORDER BY rowid"
    which = among("measurement_id", measurement_ids)
    query = f"SELECT {', '.join(names)} FROM block_samples WHERE {which} {order}"  # noqa: S608
    columns: dict[str, NDArray[Any]] = connection.execute(query, list(measurement_ids)).fetchnumpy()
    return columns


def _shows_lakes(connection: duckdb.DuckDBPyConnection) -> bool:
    query = "SELECT count(*) > 0 FROM duckdb_views() WHERE view_name = 'block_samples'"
    return bool(connection.execute(query).fetchall()[0][0])


def _unless_null(values: NDArray[Any]) -> NDArray[np.int64] | None:
    return None if np.ma.is_masked(values) else np.asarray(values, dtype=np.int64)


def _curve(row: Row) -> LatencyCurve:
    at = np.column_stack((row["low_at"], row["high_at"])).astype(np.int64)
    latency_ns = np.column_stack((row["low"], row["high"])).astype(np.int64)
    later = at[:, 0] > at[:, 1]
    at[later], latency_ns[later] = at[later][:, ::-1], latency_ns[later][:, ::-1]
    kept = np.ones(at.size, dtype=bool)
    kept[1::2] = at[:, 0] != at[:, 1]
    return LatencyCurve(
        samples=row["samples"],
        counted=row["counted"],
        iterations=at.ravel()[kept],
        latency_ns=latency_ns.ravel()[kept],
        process_starts=tuple(row["starts"]),
        quantiles_ns=np.asarray(row["quantiles"], dtype=np.int64),
        levels_ns=LEVEL_RATIO ** np.asarray(row["levels"], dtype=np.float64),
        level_shares=np.asarray(row["level_samples"], dtype=np.float64) / row["counted"],
    )
