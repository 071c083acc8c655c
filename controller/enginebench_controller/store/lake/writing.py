"""Benchmarks and profiles of the own store into a lake: whole ones, each once, however often and by whomever.

Delta makes a commit to one table atomic, and not to several. So the row through which a benchmark is seen is committed
last, and each commit says as Delta's application transactions whose rows it has: of two writers that bring the same
one is refused, and looks again, as all do who find that somebody has begun: somebody else, or whoever was killed.
"""

import random
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebench_controller.errors import EnginebenchError, StoreError
from enginebench_controller.store.connection import DEFAULT_TIMEOUT_S, reading
from enginebench_controller.store.lake.place import Lake, dataset, explained, library, made, told_parts
from enginebench_controller.store.lake.tables import (
    BENCHMARK,
    HEADS,
    KINDS,
    MODELS,
    SAMPLES,
    Kind,
    LakeTable,
    arrow_schema,
    selection,
)

if TYPE_CHECKING:
    import pyarrow

_MOST_TOGETHER = 50
_SAMPLES_TOGETHER = 5_000_000
"""So many benchmarks, or samples, go into one commit: small files are what makes a lake slow."""

_SAMPLES_AT_ONCE = 500_000
"""So many are in memory; others may use the store in between."""

_ATTEMPTS = 20
_ROW_GROUP = 131_072

_WAITING = {
    "benchmark": """
        SELECT benchmarks.id, count(measurements.id) AS parts, coalesce(sum(iterations), 0)::BIGINT AS samples
        FROM benchmarks LEFT JOIN measurements ON benchmark_id = benchmarks.id
        GROUP BY benchmarks.id, created_at_unix_ns ORDER BY created_at_unix_ns, benchmarks.id""",
    "profile": """
        SELECT id, count(layers.profile_id) AS parts, 0 AS samples FROM profiles LEFT JOIN layers ON profile_id = id
        GROUP BY id, created_at_unix_ns ORDER BY created_at_unix_ns, id""",
}

_NAMED_MODELS = {
    "benchmark": """
        SELECT model_digest AS digest FROM measurements WHERE benchmark_id IN (SELECT unnest($ids))
        UNION SELECT unnest(json_extract_string(plan, '$.models[*]')) FROM benchmarks
        WHERE id IN (SELECT unnest($ids))""",
    "profile": "SELECT model_digest AS digest FROM profiles WHERE id IN (SELECT unnest($ids))",
}

_WITH_PARENTS = """
    WITH RECURSIVE named AS (
        {}
        UNION SELECT parent_digest FROM models JOIN named USING (digest) WHERE parent_digest IS NOT NULL
    ) SELECT digest AS id FROM named JOIN models USING (digest) ORDER BY digest"""

_OF_SAMPLES = """
    SELECT id, iterations AS samples FROM measurements
    WHERE benchmark_id IN (SELECT unnest($ids)) AND iterations > 0 ORDER BY id"""


@dataclass(frozen=True)
class Synced:
    """What came of one kind: the ids that were brought into the lake, how many it had before, or from somebody else
    meanwhile, and what it has not all of.
    """

    noun: str
    new: tuple[str, ...]
    known: int
    behind: tuple[str, ...] = ()


def sync(path: Path, lake: Lake, without: Collection[str] = (), timeout_s: float = DEFAULT_TIMEOUT_S) -> list[Synced]:
    """Write what the lake lacks of the store at `path`, but for the benchmarks in `without`.

    Raises `StoreError` where the lake or the store cannot be used; what was written whole until then is seen.
    """
    writer = _Writer(path, lake, timeout_s, dict(made(lake)))
    with explained(lake):
        return [writer.write(kind, frozenset(without)) for kind in KINDS]


@dataclass
class _Writer:
    path: Path
    lake: Lake
    timeout_s: float
    tables: dict[str, Any]
    brought: set[str] = field(default_factory=set)
    """Whose head rows this one committed: of several who bring the same at once, one does."""

    def write(self, kind: Kind, without: Collection[str]) -> Synced:
        waiting = [one for one in self._rows_of_store(_WAITING[kind.noun]) if one["id"] not in without]
        known = self._rows_by_id(kind.head)
        lacking = [one for one in waiting if one["id"] not in known]
        for together in _batches(lacking, _SAMPLES_TOGETHER, _MOST_TOGETHER):
            self._write_whole(kind, together)
        there = [one for one in waiting if one["id"] in known]
        new = tuple(one["id"] for one in lacking if one["id"] in self.brought)
        return Synced(kind.noun, new, len(waiting) - len(new), self._behind(kind, there))

    def _behind(self, kind: Kind, there: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Those that grew since they were written, as what was imported or resumed may."""
        if kind is not BENCHMARK or not there:
            return ()
        measurements = self._rows_by_id(BENCHMARK.parts[0])
        return tuple(one["id"] for one in there if one["parts"] > measurements[one["id"]])

    def _write_whole(self, kind: Kind, together: Sequence[Mapping[str, Any]]) -> None:
        ids = [one["id"] for one in together]
        self._write_models(kind, ids)
        # Nobody writes of something to a later table who has not written of it to the first one. So if that has of none
        # of these now, and will have of all, whatever others write of them comes later, and is a conflict then.
        is_first = all(one["parts"] for one in together) and not self._rows_by_id(kind.parts[0], ids)
        for table in (*kind.parts, kind.head):
            is_first = self._append(table, ids, is_first=is_first)

    def _write_models(self, kind: Kind, ids: Sequence[str]) -> None:
        named = self._rows_of_store(_WITH_PARENTS.format(_NAMED_MODELS[kind.noun]), ids=ids)
        known = self._rows_by_id(MODELS)
        self._append(MODELS, [one["id"] for one in named if one["id"] not in known], is_first=True)

    def _append(self, table: LakeTable, ids: Sequence[str], *, is_first: bool) -> bool:
        """Commit the rows of these ids to one table, but for those that it has, which who `is_first` need not look for.

        Returns whether that is still so: not where somebody else turned out to write of them, too. A commit conflicts
        with those after the moment at which the table was looked at, so to look at it again is to look for all ids.
        """
        deltalake, opened = library(), self.tables[table.name]
        for attempt in range(_ATTEMPTS):
            lacking = list(ids)
            if not is_first:
                there = self._rows_by_id(table, ids)
                lacking = [one for one in ids if one not in there]
            told = next((told_parts(kind, self.tables) for kind in KINDS if kind.head == table), {})
            arriving = _Arriving(self, table, lacking)
            data = arriving.rows() if lacking else None
            if data is None:
                return is_first
            try:
                deltalake.write_deltalake(
                    opened,
                    data,
                    mode="append",
                    schema_mode="merge",
                    writer_properties=deltalake.WriterProperties(compression="ZSTD", max_row_group_size=_ROW_GROUP),
                    commit_properties=deltalake.CommitProperties(
                        custom_metadata=told,
                        max_commit_retries=_ATTEMPTS,
                        app_transactions=[deltalake.Transaction(_transaction_id(one), 1) for one in lacking],
                    ),
                )
            except deltalake.exceptions.CommitFailedError:
                time.sleep(random.uniform(0, 0.1 * 2 ** min(attempt, 5)))  # noqa: S311  # spreads writers, no secret
                is_first = False
            except deltalake.exceptions.DeltaError:
                if arriving.failure:
                    raise arriving.failure from None
                raise
            else:
                self.brought.update(lacking if table in HEADS else ())
                return is_first
        raise StoreError(
            f"{self.lake.url} is written to by too many others at once; do the same again: nothing is doubled"
        )

    def _rows_of_store(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        with reading(self.path, self.timeout_s) as connection:
            result = connection.execute(query, parameters)
            names = [column[0] for column in result.description]
            return [dict(zip(names, values, strict=True)) for values in result.fetchall()]

    def _rows_by_id(self, table: LakeTable, among: Sequence[str] | None = None) -> Counter[str]:
        """Whose rows a table of the lake has by now, of these ids or of any, and how many of each.

        The transactions of the log would say it, too, but to ask for one is to read all of the log.
        """
        from pyarrow import dataset as datasets  # noqa: PLC0415  # of an extra

        opened = self.tables[table.name]
        opened.update_incremental()
        asked = None if among is None else datasets.field(table.key).isin(list(among))
        counted: Counter[str] = Counter()
        for batch in dataset(self.lake, table.name, opened).to_batches(columns=[table.key], filter=asked):
            counted.update({one["values"]: one["counts"] for one in batch.column(0).value_counts().to_pylist()})
        return counted


@dataclass
class _Arriving:
    """The rows of some ids on their way from the store; `failure` is where they broke off, as no library tells it."""

    writer: _Writer
    table: LakeTable
    ids: Sequence[str]
    failure: EnginebenchError | None = None

    def rows(self) -> "pyarrow.RecordBatchReader | pyarrow.Table | None":
        """All of them, samples a part at a time; None where there are none."""
        import pyarrow  # noqa: PLC0415  # of an extra

        if self.table.name != SAMPLES:
            found = self._selected()
            return found if found.num_rows else None
        measured = self.writer._rows_of_store(_OF_SAMPLES, ids=list(self.ids))
        batches = self._samples(measured)
        return pyarrow.RecordBatchReader.from_batches(arrow_schema(self.table), batches) if measured else None

    def _samples(self, measured: Sequence[Mapping[str, Any]]) -> Iterator["pyarrow.RecordBatch"]:
        try:
            for part in _batches(measured, _SAMPLES_AT_ONCE):
                named = {f"measurement{place}": one["id"] for place, one in enumerate(part)}
                among = f"part.measurement_id IN ({', '.join(f'${name}' for name in named)})"
                yield from self._selected(among, named).to_batches()
        except EnginebenchError as error:
            self.failure = error
            raise

    def _selected(self, among: str = "", named: Mapping[str, str] | None = None) -> "pyarrow.Table":
        with reading(self.writer.path, self.writer.timeout_s) as connection:
            query = selection(self.table, among)
            given = {"ids": list(self.ids), **(named or {})}
            found = connection.sql(query, params=given).to_arrow_table()
        return found.select(arrow_schema(self.table).names).cast(arrow_schema(self.table))


def _transaction_id(owner: str) -> str:
    return f"enginebench:{owner}"


def _batches(
    found: Sequence[Mapping[str, Any]], most_samples: int, most: int | None = None
) -> Iterator[list[Mapping[str, Any]]]:
    """Parts of at least one, with not much more than so many samples."""
    part: list[Mapping[str, Any]] = []
    for one in found:
        part.append(one)
        if len(part) == most or sum(each["samples"] for each in part) >= most_samples:
            yield part
            part = []
    if part:
        yield part
