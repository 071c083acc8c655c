"""A lake is read by the same methods as the own store, and answers the same; together with it, each thing once."""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest

import invented
from controller.plain import fields, series
from controller.store.lake.conftest import fill
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.store.lake.place import PARTS, PROPERTY, check_whole, found
from enginebench_controller.store.lake.reading import Ahead, forget, open_all, reading_together
from enginebench_controller.store.lake.tables import SCHEMA, TABLES
from enginebench_controller.store.lake.upkeep import compact
from enginebench_controller.store.lake.writing import sync
from enginebench_controller.store.sql_query import Processes
from enginebench_controller.store.store import LakeStore, Store
from integration.bench import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def other(synced, tmp_path):
    """Somebody else's store, which reads the lake."""
    return LakeStore(tmp_path / "elsewhere" / "results.duckdb", [synced.url])


def test_every_method_answers_as_the_own_store_does(own, other):
    assert other.benchmarks() == own.benchmarks()
    assert other.benchmark_page("name fake") == own.benchmark_page("name fake")
    for one in own.benchmarks():
        mine, theirs = own.bundle(one.benchmark.id), other.bundle(one.benchmark.id)
        assert list(map(fields, theirs.measurements)) == list(map(fields, mine.measurements))
        assert theirs.snapshots == mine.snapshots
        assert {key: series(found) for key, found in theirs.samples.items()} == {
            key: series(found) for key, found in mine.samples.items()
        }
        assert other.relatives(one.benchmark.id) == own.relatives(one.benchmark.id)
        assert other.headlines(one.benchmark.id) == own.headlines(one.benchmark.id)
    assert other.models() == own.models()
    assert other.contenders() == own.contenders()
    assert [other.experiments(one) for one in other.contenders()] == [own.experiments(one) for one in own.contenders()]
    assert [replace(one, best=None) for one in other.projects()] == [replace(one, best=None) for one in own.projects()]
    assert other.measured_cells(["ab" * 32]) == own.measured_cells(["ab" * 32])
    assert other.trend("b0000001-m1") == own.trend("b0000001-m1")
    assert other.histories() == own.histories()
    assert other.profile_entries() == own.profile_entries()
    assert other.profile("p0000001") == own.profile("p0000001")
    assert other.stored_work("ab" * 32) == own.stored_work("ab" * 32)
    assert other.block_latencies(["b0000001-m1", "b0000002-m2"]) == own.block_latencies(["b0000001-m1", "b0000002-m2"])
    assert other.ids_by_kind("name of b0000001") == own.ids_by_kind("name of b0000001")
    assert other.searches() == ()


def test_curves_are_those_of_the_own_store(own, other):
    ids = ["b0000001-m1", "b0000001-m2", "b0000002-m1"]
    mine, theirs = own.latency_curves(ids, bins=20), other.latency_curves(ids, bins=20)
    assert {key: one.latency_ns.tolist() for key, one in theirs.items()} == {
        key: one.latency_ns.tolist() for key, one in mine.items()
    }
    assert {key: one.iterations.tolist() for key, one in theirs.items()} == {
        key: one.iterations.tolist() for key, one in mine.items()
    }


def test_tables_have_the_names_columns_and_types_of_the_own_store(own, other):
    mine, theirs = own.tables(), other.tables()
    assert [(one.name, one.columns) for one in theirs] == [(one.name, one.columns) for one in mine]
    names = {table.name for table in TABLES}
    assert {one.name: one.rows for one in theirs if one.name in names} == {
        one.name: one.rows for one in mine if one.name in names
    }


def test_with_the_own_store_each_benchmark_is_there_once(synced, tmp_path):
    mine = Store(tmp_path / "mine" / "results.duckdb")
    fill(mine, "b0000002", "b0000009")
    together = LakeStore(mine.path, ["own", synced.url])

    assert {one.benchmark.id: one.measurements for one in together.benchmarks()} == {
        "b0000001": 3,
        "b0000002": 3,
        "b0000009": 3,
    }
    assert len(together.models()) == 2
    for identity in ("b0000002-m2", "b0000009-m2"):
        assert series(together.block_samples(identity)) == series(mine.block_samples(identity))
    assert series(together.block_samples("b0000001-m2")) == series(invented.samples("b0000001-m2", open_loop=True))


def test_nothing_can_be_written_through_it(other):
    with pytest.raises(StoreError, match="can only be read here"):
        other.remove_benchmark("b0000001")


def test_the_generation_changes_when_somebody_writes(own, synced, other, monkeypatch):
    monkeypatch.setattr("enginebench_controller.store.lake.reading._LOOK_AFTER_S", 0.0)
    before = other.generation()
    assert other.generation() == before
    fill(own, "b0000003")
    sync(own.path, synced)
    assert other.generation() != before
    assert len(other.benchmarks()) == 3


def test_a_look_that_failed_is_taken_again(own, synced, other, monkeypatch):
    monkeypatch.setattr("enginebench_controller.store.lake.reading._LOOK_AFTER_S", 0.0)
    before = other.generation()
    own.add_benchmark(invented.benchmark("b0000003"))
    sync(own.path, synced)
    away = Path(synced.url) / "measurements" / "_delta_log"
    hidden = away.rename(away.with_name("hidden"))
    (away / "00000000000000000000.json").parent.mkdir()
    (away / "00000000000000000000.json").write_text('{"protocol":')
    with pytest.raises(StoreError, match="a file of it is damaged"):
        other.generation()

    shutil.rmtree(away)
    hidden.rename(away)
    assert other.generation() != before
    assert len(other.benchmarks()) == 3


def test_files_that_cannot_have_what_is_asked_for_are_not_opened(own, synced, other):
    """Seen from files that are not there any more."""
    there = set(Path(synced.url).rglob("*.parquet"))
    fill(own, "b0000003")
    sync(own.path, synced)
    forget(synced)
    other.generation()
    for file in there:
        file.unlink()

    assert series(other.block_samples("b0000003-m1")) == series(own.block_samples("b0000003-m1"))
    assert list(map(fields, other.measurements("b0000003"))) == list(map(fields, own.measurements("b0000003")))
    with pytest.raises(StoreError, match=r"a file of it is gone \(block_samples/month=[\d-]+/part-.*parquet\), as"):
        other.block_samples("b0000001-m1")


@pytest.mark.parametrize("use", [Store.benchmarks, lambda store: store.query("FROM benchmarks")])
def test_a_file_that_is_damaged_is_told_in_a_sentence(synced, other, use):
    other.generation()
    for file in Path(synced.url, "benchmarks").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(StoreError, match=r"the lake .* cannot be used: a file of it is damaged.*; put it there again"):
        use(other)
    with pytest.raises(StoreError, match="a file of it is damaged"):
        sync(other.path, synced)


def newest_commit(lake, table):
    return max(Path(lake.url, table, "_delta_log").glob("*.json"))


@pytest.mark.parametrize(
    ("lose", "told"),
    [
        (lambda lake: shutil.rmtree(Path(lake.url, "blocks")), "has lost its table blocks: put it there again from"),
        (lambda lake: newest_commit(lake, "block_samples").unlink(), "has lost the end of its table block_samples"),
        (lambda lake: newest_commit(lake, "models").unlink(), "has lost the end of its table models"),
        (
            lambda lake: Path(lake.url, "profiles", "_delta_log", f"{0:020}.json").unlink(),
            "the log of a table has a gap; put its folder there again",
        ),
        (lambda lake: newest_commit(lake, "measurements").write_bytes(b""), r"a damaged file, .*json, which is empty"),
    ],
)
def test_a_lake_that_has_lost_something_is_no_smaller_lake(own, synced, other, lose, told):
    lose(synced)
    for use in (other.benchmarks, lambda: sync(own.path, synced), lambda: compact(synced)):
        with pytest.raises(StoreError, match=told):
            use()


def test_what_somebody_wrote_while_tables_were_opened_is_not_lost(own, synced):
    there = dict(found(synced))
    fill(own, "b0000003")
    sync(own.path, synced)
    there["benchmarks"] = found(synced)["benchmarks"]
    before = there["blocks"].version()
    check_whole(synced, there)
    assert there["blocks"].version() > before
    newest_commit(synced, "blocks").unlink()
    with pytest.raises(StoreError, match="has lost the end of its table blocks"):
        check_whole(synced, dict(found(synced)))


def test_whoever_committed_last_may_have_looked_before_others_did(own, synced, other, tmp_path):
    older = deltalake.CommitProperties(custom_metadata={PARTS: '{"measurements": 0}'})
    head = deltalake.DeltaTable(f"{synced.url}/benchmarks")
    none = head.to_pyarrow_table().slice(0, 0)
    deltalake.write_deltalake(head, none, mode="append", commit_properties=older)
    strange = deltalake.CommitProperties(custom_metadata={PARTS: "[1"})
    deltalake.write_deltalake(head, none, mode="append", commit_properties=strange)
    assert other.benchmarks() == own.benchmarks()
    newest_commit(synced, "measurements").unlink()
    forget(synced)
    with pytest.raises(StoreError, match="has lost the end of its table measurements"):
        other.benchmarks()


def test_where_no_lake_is_that_is_said(own, tmp_path):
    with pytest.raises(InputError, match=r"there is no lake at .*nothing.*store sync"):
        LakeStore(own.path, [str(tmp_path / "nothing")]).benchmarks()


@pytest.fixture
def of_before(synced):
    """The lake as an enginebench wrote it that knew of no clusters of cores."""
    for name, column in (("measurements", "cluster"), ("blocks", "cluster_migrations")):
        place = f"{synced.url}/{name}"
        kept = deltalake.DeltaTable(place).to_pyarrow_table().drop_columns(column)
        shutil.rmtree(place)
        older = {PROPERTY: str(SCHEMA - 1)}
        deltalake.DeltaTable.create(
            place, kept.schema, partition_by=["month"], configuration=older, raise_if_key_not_exists=False
        )
        deltalake.write_deltalake(place, kept, mode="append")
    return synced


def test_an_older_lake_is_read_as_an_older_file_is_and_written_to(own, of_before):
    other = LakeStore(own.path, [of_before.url])
    assert other.query("SELECT DISTINCT cluster FROM measurements").rows == (("",),)
    assert other.query("SELECT DISTINCT cluster_migrations FROM blocks").rows == ((None,),)
    assert other.benchmarks() == own.benchmarks()

    fill(own, "b0000003")
    assert sync(own.path, of_before)[0].new == ("b0000003",)
    forget(of_before)
    assert list(map(fields, other.measurements("b0000003"))) == list(map(fields, own.measurements("b0000003")))
    assert other.query("SELECT count(*) FROM measurements WHERE cluster = ''").rows == ((9,),)


HOSTILE = {
    "FROM read_parquet('{lake}/benchmarks/**/*.parquet')": "file system operations are disabled",
    "FROM '{secret}'": "file system operations are disabled",
    "FROM lakes": "does not exist",
}


@pytest.mark.parametrize("sql", HOSTILE)
def test_sql_reaches_the_tables_of_the_lake_and_nothing_else(other, synced, tmp_path, sql):
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    with pytest.raises(InputError) as refused:
        other.query(sql.format(lake=synced.url, secret=secret))
    assert HOSTILE[sql] in str(refused.value)


def test_sql_answers_from_a_lake(own, other):
    asked = "SELECT id, engine, configuration->>'$.device' AS device, grounds FROM measurements ORDER BY id"
    mine, theirs = own.query(asked), other.query(asked)
    assert (theirs.columns, theirs.rows) == (mine.columns, mine.rows)


@pytest.mark.parametrize("sql", ["SHOW TABLES", "show tables;"])
def test_the_tables_of_a_lake_are_listed_as_those_of_the_own_store(own, synced, other, sql):
    both = LakeStore(own.path, [synced.url, "own"])
    assert other.query(sql).rows == both.query(sql).rows == own.query(sql).rows
    assert other.query(sql).columns == own.query(sql).columns


def test_who_waits_for_the_next_query_has_opened_the_lake_and_sees_what_has_come_since(own, synced, other):
    count, processes = "SELECT count(*) FROM benchmarks", Processes(spares=1)
    try:
        assert other.query(count, processes=processes).rows == ((2,),)
        waiting = processes.take()
        wait_until(lambda: "deltalake" in Path(f"/proc/{waiting.pid}/maps").read_text(), 30)
        waiting.communicate("")

        processes.prepare(other.reads)
        fill(own, "b0000003")
        sync(own.path, synced)
        time.sleep(1)  # a lake is looked at once a second
        assert other.query(count, processes=processes).rows == ((3,),)
    finally:
        processes.take().communicate("")


def test_who_waits_over_a_lake_has_loaded_its_datasets_and_no_pandas(other):
    processes = Processes(spares=1)
    processes.prepare(other.reads)
    waiting = processes.take()
    wait_until(lambda: "pyarrow/_dataset" in Path(f"/proc/{waiting.pid}/maps").read_text(), 30)
    time.sleep(0.5)  # pandas would come with it, or right after it
    assert "/pandas/" not in Path(f"/proc/{waiting.pid}/maps").read_text()
    waiting.communicate("")


def test_lakes_shown_ahead_answer_as_long_as_nothing_has_come_since(own, synced, other):
    confined = {"threads": "1"}
    ahead = Ahead(other.reads, confined)
    with reading_together(other.path, other.reads, 5, confined, ahead) as connection:
        assert connection is ahead.fitting(open_all(other.reads), confined)
        assert connection.execute("SELECT count(*) FROM benchmarks").fetchall() == [(2,)]
    assert ahead.fitting(open_all(other.reads), {"threads": "2"}) is None

    fill(own, "b0000003")
    sync(own.path, synced)
    time.sleep(1)  # a lake is looked at once a second
    with reading_together(other.path, other.reads, 5, confined, ahead) as connection:
        assert connection.execute("SELECT count(*) FROM benchmarks").fetchall() == [(3,)]


def test_a_lake_that_cannot_be_opened_ahead_is_told_who_asks(other, tmp_path):
    processes = Processes(spares=1)
    try:
        processes.prepare([str(tmp_path / "nothing")])
        assert other.query("SELECT count(*) FROM benchmarks", processes=processes).rows == ((2,),)
        nowhere = LakeStore(other.path, [str(tmp_path / "nothing")])
        with pytest.raises(InputError, match="there is no lake at"):
            nowhere.query("FROM benchmarks", processes=processes)
    finally:
        processes.take().communicate("")
