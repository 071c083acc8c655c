"""Raw latencies reduced where they lie: what a chart can show of them, however many there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from enginebench_controller.stats.mean_latency import BlockLatency
from enginebench_controller.store.statements import Row, rows

SHARES = 400
"""Into how many equal shares of the samples the quantiles part them."""

LEVEL_RATIO = 1.01
"""Each level of a histogram ends 1 % above where it begins, for every measurement alike."""


@dataclass(frozen=True, eq=False)
class LatencyCurve:
    """The raw latencies of a measurement, reduced to what can be seen.

    `iterations` and `latency_ns`, int64 of shape (points,), are the smallest and the largest latency of each of many
    equal stretches, in the order in which they came: no peak is lost. Iterations count from 0 over all processes,
    which begin at `process_starts`. `quantiles_ns`, int64 of shape (SHARES + 1,), are the latencies within which 0, 1,
    … SHARES of SHARES parts of the samples were done. `levels_ns`, of shape (levels,), are where the levels of the
    histogram begin, and `level_shares` the shares of all samples in each; empty levels are left out.
    """

    samples: int
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
        FROM block_samples WHERE measurement_id IN (SELECT unnest(?))
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
        SELECT measurement_id, process, min(before)::BIGINT AS start FROM placed GROUP BY ALL
    ), starts AS (
        SELECT measurement_id, list(start ORDER BY process) AS starts FROM begun GROUP BY ALL
    ), shares AS (
        SELECT measurement_id, count(*) AS samples,
            quantile_disc(latency_ns, [part / {SHARES} FOR part IN range({SHARES} + 1)]) AS quantiles
        FROM own GROUP BY ALL
    ), leveled AS (
        SELECT measurement_id, floor(ln(greatest(latency_ns, 1)) / ln({LEVEL_RATIO}))::INTEGER AS level,
            count(*) AS samples
        FROM own GROUP BY ALL
    ), levels AS (
        SELECT measurement_id, list(level ORDER BY level) AS levels, list(samples ORDER BY level) AS level_samples
        FROM leveled GROUP BY ALL
    )
    SELECT * FROM curves JOIN starts USING (measurement_id) JOIN shares USING (measurement_id)
        JOIN levels USING (measurement_id)"""  # noqa: S608

_BLOCKS = """
    SELECT measurement_id, process, block, count(*) AS samples, sum(latency_ns)::BIGINT AS total_ns,
        median(latency_ns) AS median_ns
    FROM block_samples WHERE measurement_id IN (SELECT unnest(?))
    GROUP BY ALL ORDER BY measurement_id, process, block"""


def latency_curves(
    connection: duckdb.DuckDBPyConnection, measurement_ids: Sequence[str], bins: int
) -> Mapping[str, LatencyCurve]:
    """Return the reduced latencies of measurements by id; those without samples are left out."""
    return {row["measurement_id"]: _curve(row) for row in rows(connection, _CURVES, list(measurement_ids), bins)}


def block_latencies(
    connection: duckdb.DuckDBPyConnection, measurement_ids: Sequence[str]
) -> Mapping[str, tuple[BlockLatency, ...]]:
    """Return what the latencies of each block add up to, by measurement id; those without samples are left out."""
    found: dict[str, list[BlockLatency]] = {}
    for row in rows(connection, _BLOCKS, list(measurement_ids)):
        found.setdefault(row.pop("measurement_id"), []).append(BlockLatency(**row))
    return {identity: tuple(blocks) for identity, blocks in found.items()}


def _curve(row: Row) -> LatencyCurve:
    at = np.column_stack((row["low_at"], row["high_at"])).astype(np.int64)
    latency_ns = np.column_stack((row["low"], row["high"])).astype(np.int64)
    later = at[:, 0] > at[:, 1]
    at[later], latency_ns[later] = at[later][:, ::-1], latency_ns[later][:, ::-1]
    kept = np.ones(at.size, dtype=bool)
    kept[1::2] = at[:, 0] != at[:, 1]
    return LatencyCurve(
        samples=row["samples"],
        iterations=at.ravel()[kept],
        latency_ns=latency_ns.ravel()[kept],
        process_starts=tuple(row["starts"]),
        quantiles_ns=np.asarray(row["quantiles"], dtype=np.int64),
        levels_ns=LEVEL_RATIO ** np.asarray(row["levels"], dtype=np.float64),
        level_shares=np.asarray(row["level_samples"], dtype=np.float64) / row["samples"],
    )
