"""Backups of the results file, and taking one up again.

A copy is made while the gate is held, nobody has the file open, and the write-ahead log is folded into it: a copy
without that log opens without a word, and lacks what stood in it. Each step leaves whole files behind, whenever the
program is killed: what is written has another name until it is on the disk.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import escape
from itertools import chain, count
from pathlib import Path

import duckdb

from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.records import LatencySummary, Status
from enginebench_controller.records.figures import figures
from enginebench_controller.records.possible import why_impossible
from enginebench_controller.store.connection import StoreFile, as_it_is, at_rest, is_there
from enginebench_controller.store.rows import from_latency_columns, from_rate_interval_columns
from enginebench_controller.store.statements import Row
from enginebench_controller.store.statements import rows as rows_of
from enginebench_controller.store.tables import WORDS
from enginebench_controller.store.trends import find_misdated, misdated_words
from enginebench_proto.agreed.durable import copy_whole, make_private_folder, sync_folder

_BELONGS = (
    ("benchmark_snapshots", "benchmark_id", "benchmarks"),
    ("measurements", "benchmark_id", "benchmarks"),
    ("processes", "measurement_id", "measurements"),
    ("blocks", "measurement_id", "measurements"),
    ("block_samples", "measurement_id", "measurements"),
    ("captured_outputs", "measurement_id", "measurements"),
    ("layers", "profile_id", "profiles"),
    ("profile_nodes", "profile_id", "profiles"),
)
"""A table, the column that names what a row belongs to, and where that is."""

_INCOMPLETE = """
SELECT id, iterations, found FROM measurements
JOIN (SELECT measurement_id, count(*) AS found FROM block_samples GROUP BY ALL) ON measurement_id = id
WHERE iterations <> found ORDER BY id"""

_OF_OTHERS = """
WITH told AS (
    SELECT id, samples, excluded, min_ns, max_ns, excluded = paused AS only_paused FROM measurements
    LEFT JOIN (
        SELECT measurement_id, sum(iterations) FILTER (paused_ns > 0) AS paused FROM blocks GROUP BY ALL
    ) ON measurement_id = id
    WHERE min_ns IS NOT NULL
), found AS (
    SELECT measurement_id, process, block, count(*) AS count, min(latency_ns) AS lowest, max(latency_ns) AS highest
    FROM block_samples GROUP BY ALL
), placed AS (
    SELECT found.*,
        excluded = 0 OR (CASE WHEN only_paused THEN paused_ns > 0 ELSE len(disturbances) > 0 END) IS NOT TRUE AS counted
    FROM found JOIN told ON id = measurement_id LEFT JOIN blocks USING (measurement_id, process, block)
), ends AS (
    SELECT measurement_id, sum(count) FILTER (counted) AS counted, min(lowest) FILTER (counted) AS lowest,
        max(highest) FILTER (counted) AS highest, min(lowest) AS lowest_of_all, max(highest) AS highest_of_all
    FROM placed GROUP BY ALL
)
SELECT id FROM told JOIN ends ON measurement_id = id
WHERE CASE WHEN excluded = 0 OR counted = samples THEN (min_ns, max_ns) <> (lowest, highest)
    ELSE min_ns < lowest_of_all OR max_ns > highest_of_all END ORDER BY id"""
"""What an export of before 2026-11 may have given to those that were imported.

Blocks are left out as by `LatencySummary.left_out_of`; where that does not come to the samples that count, the latency
lies at least between the ends of all.
"""

_FIGURES = f"""
SELECT id, benchmark_id, status, least(batch, cores, streams, requests) AS least_count, iterations,
    {", ".join(figures(LatencySummary))}, percentiles,
    COLUMNS('^(median|throughput)_(low|high|interval)_'), throughput_items_per_s, medians_ns, rates
FROM measurements LEFT JOIN (
    SELECT measurement_id, list(median_ns) AS medians_ns, list(throughput_items_per_s) AS rates
    FROM processes GROUP BY ALL
) ON measurement_id = id ORDER BY id"""  # noqa: S608  # of its own


@dataclass(frozen=True)
class StoreCheck:
    """What a look at every value found: the rows of each table, None where they cannot be read, and the problems.

    `damage` is of the file, whose place a backup can take; what is `doubtful` was stored as it is, and is in every
    backup since.
    """

    rows: dict[str, int | None]
    damage: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Both, in a sentence each."""
        return self.damage + self.doubtful


_WAL = ".wal"
_ENDINGS = ("", _WAL, ".lock")
_LEFT_S = 43_200.0
"""Nobody is at a draft that has not been written to for so long, and of backups of every night one is left at most."""


class Upkeep(StoreFile):
    """Looking after the file as a whole."""

    def check(self) -> StoreCheck:
        """Read every value there is, and look for what belongs to nothing; the file stays as it is."""
        if not is_there(self.path):
            return StoreCheck({})
        with as_it_is(self.path, self._timeout_s) as connection:
            found = _check(connection)
            can_tell = not found.damage and "block_samples" in found.rows
            return replace(found, doubtful=tuple(_doubtful(connection))) if can_tell else found

    def backup(self, wanted: Path) -> Path:
        """Copy the file to `wanted`, or into it where that is a folder; return where the copy is, once read whole.

        Raises `InputError` where there are no results yet, or a file is there already; `StoreError` when the results
        cannot be used, or are damaged, or the copy cannot be written.
        """
        path = self.path
        if not is_there(path):
            raise InputError(f"there are no results in {path} yet, so there is nothing to back up")
        copy = wanted / f"{path.stem}-{_stamp()}{path.suffix}" if wanted.is_dir() else wanted
        if copy.exists():
            raise InputError(f"{copy} is there already; name another file, or a folder")
        partial = copy.with_name(copy.name + ".part")
        names = f"{path.stem}-*{path.suffix}" if wanted.is_dir() else escape(copy.name)
        self._clear_away()
        _sweep(copy.parent, f"{names}.part", f".{names}.part.*.part")
        try:
            with at_rest(path, self._timeout_s):
                _copy(path, partial)
            _require_sound(partial, self._timeout_s, path)
            partial.replace(copy)
            sync_folder(copy.parent)
        finally:
            _remove_all(partial)
        return copy

    def compact(self) -> tuple[int, int]:
        """Give back what removed results took of the disk; return the bytes of the file before and after.

        DuckDB keeps that room for what comes later. What is written anew takes the file's place once it holds the same,
        row for row, and if it is smaller: small files come out larger. Raises `InputError` where there are no results
        yet, `StoreError` like `backup`.
        """
        path = self.path.resolve()
        if not is_there(path):
            raise InputError(f"there are no results in {self.path} yet")
        self._clear_away()
        coming = path.with_name(f"{path.name}.{os.getpid()}.coming")
        try:
            with at_rest(path, self._timeout_s):
                before = path.stat().st_size  # now that its log is folded in, which may be longer than itself
                _write_anew(path, coming)
                _require_sound(coming, self._timeout_s, path)
                after = coming.stat().st_size
                if after < before:
                    coming.replace(path)
                    sync_folder(path.parent)
                return before, min(before, after)
        finally:
            _remove_all(coming)

    def restore(self, source: Path) -> Path | None:
        """Put a backup in the place of the file; return where that is kept from now on, None without any.

        Raises `InputError` for a source that is no file or is the results themselves, `StoreError` for one that cannot
        be used. Nothing is changed then.
        """
        path = self.path.resolve()  # a link stays one, and leads to what is restored
        if not source.is_file():
            raise InputError(f"there is no file {source}; name a backup that `enginebench store backup` made")
        if not _is_database(source):
            raise InputError(f"{source} is not a DuckDB file; name a backup that `enginebench store backup` made")
        if path.exists() and source.samefile(path):
            raise InputError(f"{source} are the results themselves; name a backup of them")
        _make_folder(path.parent)
        self._clear_away()
        coming = path.with_name(f"{path.name}.{os.getpid()}.coming")
        try:
            for suffix in ("", _WAL):
                if (there := _beside(source, suffix)).exists():
                    _copy(there, _beside(coming, suffix))
            _require_sound(coming, self._timeout_s, source)
            with at_rest(coming, self._timeout_s):
                pass
            with at_rest(path, self._timeout_s, may_be_damaged=True):
                return _replace(path, coming)
        finally:
            _remove_all(coming)

    def _clear_away(self) -> None:
        """Remove what was left beside the file, by a step of the schema as well."""
        path = self.path.resolve()
        _sweep(path.parent, f"{path.name}.*.coming", f".{path.stem}[.-]*.part")


def _check(connection: duckdb.DuckDBPyConnection) -> StoreCheck:
    """Read every value of the file, which DuckDB holds against its checksums, and look for what belongs to nothing."""
    rows: dict[str, int | None] = {}
    damage: list[str] = []
    there = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table in filter(there.__contains__, WORDS):  # an older file lacks some
        try:
            # A hash of whole rows: to count them alone would read next to nothing.
            ((count, _),) = connection.execute(
                f"SELECT count(*), bit_xor(hash(every)) FROM {table} AS every"  # noqa: S608  # one of WORDS
            ).fetchall()
            rows[table] = int(count)
        except duckdb.Error as error:
            rows[table] = None
            damage.append(f"the table {table} cannot be read: {str(error).splitlines()[0]}")
    if not damage:
        damage.extend(_inconsistencies(connection, there))
    return StoreCheck(rows, tuple(damage))


def _inconsistencies(connection: duckdb.DuckDBPyConnection, there: Collection[str]) -> Iterator[str]:
    for table, column, owner in _BELONGS:
        if table not in there:
            continue
        query = f"SELECT count(*), count(DISTINCT {column}) FROM {table} ANTI JOIN {owner} ON {column} = {owner}.id"  # noqa: S608  # of _BELONGS
        ((lost, owners),) = connection.execute(query).fetchall()
        if lost:
            yield f"{lost:,} rows of {table} belong to {owners:,} {owner} that are not there"
    if "block_samples" not in there:
        return
    for identity, iterations, found in connection.execute(_INCOMPLETE).fetchall():
        yield f"measurement {identity} has {found:,} samples of {iterations:,} iterations"


def _doubtful(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """What cannot be, each measurement that has it in a sentence that says what to do; all dates together in one.

    Older imports let it in, or another program wrote it; it stands in nobody's way, as the rest is as good as ever.
    """
    for (identity,) in connection.execute(_OF_OTHERS).fetchall():
        yield f"measurement {identity} has samples that are not its own: remove its benchmark and import it anew"
    for row in rows_of(connection, _FIGURES):
        identity, benchmark = row["id"], row["benchmark_id"]
        if why := _why_impossible(row):
            yield f"measurement {identity} has figures that cannot be: remove its benchmark, {benchmark} ({why})"
    if told := misdated_words(find_misdated(connection)):
        yield told


def _why_impossible(row: Row) -> str | None:
    if row["least_count"] < 1:
        return "a count of the configuration is out of range"
    try:
        return why_impossible(
            Status(row["status"]),
            row["iterations"],
            from_latency_columns(row),
            row["throughput_items_per_s"],
            from_rate_interval_columns(row),
            row["medians_ns"] or (),
            row["rates"] or (),
        )
    except (ValueError, TypeError) as error:  # a word that only a newer version knows, or another program left out
        return f"they cannot be read: {str(error).splitlines()[0]}"


def _write_anew(path: Path, coming: Path) -> None:
    """Copy all tables to a new file. Raises `StoreError` where that does not hold the same."""
    try:
        with duckdb.connect(coming) as connection:
            new = str(connection.execute("SELECT current_database()").fetchall()[0][0])
            quoted = str(path).replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS old (READ_ONLY)")
            connection.execute(f'COPY FROM DATABASE old TO "{new}"')
            if _contents(connection, "old") != _contents(connection, new):
                raise StoreError(f"{path} could not be written anew as it is, so nothing was changed")
    except (duckdb.Error, OSError) as error:
        raise StoreError(f"{path} could not be written anew: {str(error).splitlines()[0]}") from error
    with coming.open("rb") as file:
        os.fsync(file.fileno())
    coming.chmod(path.stat().st_mode & 0o777)


def _contents(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, tuple[object, ...]]:
    """Of each table what defines it, how many rows it has, and a hash of all that is in them."""
    query = "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = ?"
    found = dict(connection.execute(query, [database]).fetchall())
    return {
        table: (
            sql,
            *connection.execute(
                f'SELECT count(*), bit_xor(hash(every)), sum(hash(every)) FROM "{database}"."{table}" AS every'  # noqa: S608  # of its own
            ).fetchall()[0],
        )
        for table, sql in found.items()
    }


def _replace(path: Path, coming: Path) -> Path | None:
    kept = _free_name(path) if path.exists() else None
    if kept:
        # Under a second name first, so that the results are there under one of both at any instant.
        _keep(path, kept)
        if (log := _beside(path, _WAL)).exists():  # only that of a damaged file is still there
            _keep(log, _beside(kept, _WAL))
            log.unlink()
    coming.replace(path)
    sync_folder(path.parent)
    return kept


def _free_name(path: Path) -> Path:
    """A name for what is replaced now that nothing kept earlier has, also where that was within this second."""
    stem = f"{path.stem}-before-{_stamp()}"
    names = (path.with_name(f"{stem}{end}{path.suffix}") for end in chain([""], (f"-{n}" for n in count(2))))
    return next(name for name in names if not name.exists())


def _keep(path: Path, kept: Path) -> None:
    try:
        kept.hardlink_to(path)
    except OSError:  # not every file system has links
        _copy(path, kept)


def _require_sound(path: Path, timeout_s: float, called: Path) -> None:
    with as_it_is(path, timeout_s, called) as connection:
        found = _check(connection)
    if found.damage:
        raise StoreError(f"{called} is damaged, so nothing was changed: {found.damage[0]}")


def _copy(source: Path, target: Path) -> None:
    try:
        copy_whole(source, target)
    except OSError as error:
        raise StoreError(f"{source} could not be copied to {target.parent}: {error.strerror}") from None


def _make_folder(path: Path) -> None:
    try:
        make_private_folder(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from error


def _is_database(path: Path) -> bool:
    """Whether the file begins as DuckDB's do: a checksum of 8 bytes, then a name."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _remove_all(path: Path) -> None:
    for suffix in _ENDINGS:
        with suppress(FileNotFoundError):
            _beside(path, suffix).unlink()


def _sweep(folder: Path, *drafts: str) -> None:
    """Remove what backups and restores that were killed have left in a folder, under names of these patterns."""
    for found in [one for name in drafts for end in _ENDINGS for one in folder.glob(name + end)]:
        with suppress(OSError):  # another is at it, or it is another's
            if found.stat().st_mtime < time.time() - _LEFT_S:
                found.unlink()


def _stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())
