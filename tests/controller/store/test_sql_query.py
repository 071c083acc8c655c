"""A person's SQL reads the documented tables, and nothing that it says does anything else."""

import time

import pytest

import invented
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.store import sql_query
from enginebench_controller.store.sql_query import Processes, QueryColumn, QueryLimits
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.slow

SHORT = QueryLimits(seconds=1.0)
USUAL = QueryLimits()


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=10)
    store.add_benchmark(invented.benchmark(name="=HYPERLINK()"), [invented.snapshot()])
    store.add_measurement(invented.measured("m1"), invented.samples("m1"))
    return store


def refusal(store, sql, limits=USUAL):
    with pytest.raises(InputError) as refused:
        store.query(sql, limits)
    return str(refused.value)


def test_an_answer_has_columns_with_types_and_rows(store):
    answer = store.query("SELECT id, batch, mean_ns / 1e6 AS ms, failure FROM measurements;")

    kinds = [QueryColumn("id", "VARCHAR"), QueryColumn("batch", "INTEGER"), QueryColumn("ms", "DOUBLE")]
    assert answer.columns == (*kinds, QueryColumn("failure", "JSON"))
    assert answer.rows == (("m1", 1, pytest.approx(4.0, rel=0.1), None),)
    assert not answer.remarks


def test_values_of_every_kind_come_as_json_has_them(store):
    answer = store.query(
        "SELECT 1 AS a, 2 AS a, 1.5, 'inf'::DOUBLE, 'x'::BLOB, [date '2020-01-02'], {'k': NULL}, 10::HUGEINT, "
        'make_timestamp_ns(1), to_timestamp(0) AS "zone ""d", true'
    )
    assert [column.name for column in answer.columns][:2] == ["a", "a"]
    assert answer.columns[9].name == 'zone "d'
    values = (1, 2, 1.5, None, "eA==", ["2020-01-02"], {"k": None}, 10, "1970-01-01 00:00:00", "1970-01-01 00:00:00+00")
    assert answer.rows == ((*values, True),)


@pytest.mark.parametrize("sql", ["DESCRIBE measurements", "SHOW TABLES", "SUMMARIZE models", "EXPLAIN SELECT 1"])
def test_what_only_reads_is_answered(store, sql):
    assert store.query(sql).rows


def test_a_store_that_is_not_there_is_empty_and_is_not_made(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    assert store.query("SELECT count(*) FROM measurements").rows == ((0,),)
    assert not store.path.exists()


HOSTILE = {
    "INSERT INTO models SELECT * FROM models": "this is INSERT",
    "UPDATE benchmarks SET name = 'x'": "this is UPDATE",
    "DELETE FROM benchmarks": "this is DELETE",
    "DROP TABLE benchmarks": "this is DROP",
    "CREATE TEMP TABLE t AS SELECT 1": "this is CREATE",
    "WITH gone AS (DELETE FROM benchmarks RETURNING *) FROM gone": "read-only",
    "EXPLAIN ANALYZE DELETE FROM benchmarks": "read-only",
    "COPY measurements TO '{there}'": "this is COPY",
    "EXPLAIN ANALYZE COPY measurements TO '{there}'": "file system operations are disabled",
    "EXPORT DATABASE '{there}'": "this is EXPORT",
    "ATTACH '{there}'": "this is ATTACH",
    "FROM read_csv('{secret}')": "file system operations are disabled",
    "FROM read_text('{secret}')": "file system operations are disabled",
    "FROM read_blob('{secret}')": "file system operations are disabled",
    "FROM glob('{folder}/*')": "file system operations are disabled",
    "FROM sniff_csv('{secret}')": "file system operations are disabled",
    "FROM '{secret}'": "file system operations are disabled",
    "FROM read_duckdb('{other}', table_name = 'models')": "file system operations are disabled",
    "FROM query('COPY models TO ''{there}''')": "single SELECT",
    "FROM request": "does not exist",  # a name of the program that asks DuckDB is no table
    "INSTALL httpfs": "this is LOAD",
    "LOAD httpfs": "this is LOAD",
    "SET memory_limit = '10GB'": "this is SET",
    "PRAGMA database_list": "this is PRAGMA",
    "PRAGMA threads = 64": "this is SET",
    "CALL pragma_version()": "this is CALL",
    "CHECKPOINT": "this is CALL",
    "BEGIN": "this is TRANSACTION",
    "PREPARE p AS SELECT 1": "this is PREPARE",
    "SELECT 1; DROP TABLE benchmarks": "one statement at a time: this is 2",
    "-- nothing": "one statement at a time: this is 0",
    " ": "there is no SQL",
}


@pytest.mark.parametrize("sql", HOSTILE)
def test_nothing_is_written_and_no_other_file_read(store, tmp_path, sql):
    secret, there = tmp_path / "secret.csv", tmp_path / "there"
    secret.write_text("a,b\n1,2\n")
    Store(tmp_path / "other.duckdb").save_model(invented.model())
    before = store.generation()

    places = {"secret": secret, "there": there, "folder": tmp_path, "other": tmp_path / "other.duckdb"}
    sentence = refusal(store, sql.format_map(places))

    assert HOSTILE[sql] in sentence
    assert "\n" not in sentence
    assert store.generation() == before
    assert not there.exists()


def test_words_of_duckdb_reach_the_person(store):
    assert 'Parser Error: syntax error at or near "SELEC"' in refusal(store, "SELEC 1")
    assert 'Candidate bindings: "batch"' in refusal(store, "SELECT batches FROM measurements")


ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
DEAF = "SELECT regexp_replace(repeat('ab', 100000000), '(a)', 'bbbbb', 'g')"
"""DuckDB does not look up from it when it is interrupted."""


@pytest.mark.parametrize("sql", [ENDLESS, DEAF])
def test_a_query_without_end_is_ended_and_the_file_free_again(store, sql):
    begin = time.monotonic()
    assert "stopped after 1 s" in refusal(store, sql, SHORT)
    assert time.monotonic() - begin < 6
    assert len(store.benchmarks()) == 1


@pytest.mark.parametrize("sql", ["SELECT list_sum(range(1000000000))", "SELECT repeat('x', 3000000000)"])
def test_a_query_does_not_get_all_the_memory(store, sql):
    assert "more memory" in refusal(store, sql, QueryLimits(seconds=10))


def test_huge_answers_are_cut_and_said_to_be(store):
    endless = store.query("FROM range(100000000000)", QueryLimits(rows=7))
    assert endless.rows == tuple((number,) for number in range(7))
    assert endless.remarks == ("only the first 7 rows are here, and there are more: use LIMIT, or count and group",)
    exact = store.query("FROM range(7)", QueryLimits(rows=7))
    assert not exact.more_rows

    wide = store.query("SELECT repeat('x', 1000) FROM range(1000)", QueryLimits(answer_bytes=10_000))
    assert wide.more_rows
    assert len(wide.rows) == 9

    long = store.query("SELECT repeat('x', 50)", QueryLimits(cell_characters=10))
    assert long.rows == (("xxxxxxxxx…",),)
    assert long.remarks == ("1 long text was shortened, which shows as … at the end",)


def test_a_file_that_cannot_be_read_is_an_error_of_the_store(tmp_path):
    path = tmp_path / "results.duckdb"
    path.write_text("not a database " * 1000)
    with pytest.raises(StoreError, match="is not a DuckDB file"):
        Store(path).query("SELECT 1")


def test_two_processes_wait_for_the_next_queries_and_one_that_died_is_not_asked(store, monkeypatch):
    started, start = [], sql_query._start
    monkeypatch.setattr(sql_query, "_start", lambda reads=(): started.append(start(reads)) or started[-1])
    processes = Processes(spares=2)
    count = "SELECT count(*) FROM measurements"
    try:
        assert store.query(count, processes=processes).rows == ((1,),)
        _, next_one, after_it = started
        next_one.kill()
        next_one.wait()
        assert store.query(count, processes=processes).rows == ((1,),)
        assert after_it.returncode == 0, "the one that waited was asked"
        assert len(started) == 5
    finally:
        for one in started[3:]:
            one.communicate("")
