"""Files of older versions are brought up to date step by step; files of newer versions are left alone."""

import duckdb
import pytest

import invented
from enginebench_controller.errors import StoreError
from enginebench_controller.store import migrations
from enginebench_controller.store.migrations import MIGRATIONS, Migration, migrate, schema_version
from enginebench_controller.store.store import Store

ADDS_COLUMN = Migration("adds a column", ("ALTER TABLE benchmarks ADD COLUMN mood VARCHAR DEFAULT 'calm'",))
BREAKS = Migration("breaks half-way", ("CREATE TABLE half (x INTEGER)", "SELECT no_such_function()"))


@pytest.fixture
def version_1(tmp_path):
    """A file as the first release made it, with a benchmark in it."""
    path = tmp_path / "results.duckdb"
    with duckdb.connect(path) as connection:
        migrate(connection, path, MIGRATIONS[:1])
    Store(path).add_benchmark(invented.benchmark())
    return path


def query(path, text):
    with duckdb.connect(path, read_only=True) as connection:
        return connection.execute(text).fetchall()


def test_a_new_file_records_every_step_by_name(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())

    recorded = query(store.path, "SELECT version, name FROM migrations ORDER BY version")
    assert recorded == [(number, step.name) for number, step in enumerate(MIGRATIONS, start=1)]


def test_a_file_of_version_1_gets_the_steps_it_lacks_and_keeps_its_rows(version_1):
    with duckdb.connect(version_1) as connection:
        migrate(connection, version_1, (*MIGRATIONS[:1], ADDS_COLUMN))
        assert schema_version(connection) == 2

    assert query(version_1, "SELECT id, mood FROM benchmarks") == [("b0000001", "calm")]


def test_reading_an_older_file_brings_it_up_to_date_first(version_1, monkeypatch):
    steps = (*MIGRATIONS, ADDS_COLUMN)
    for step in (migrations.pending, migrations.migrate):
        monkeypatch.setattr(step, "__defaults__", (steps,))

    assert Store(version_1).benchmark("b0000001") == invented.benchmark()
    assert query(version_1, "SELECT mood FROM benchmarks") == [("calm",)]


def test_a_step_that_fails_leaves_no_trace_of_itself(version_1):
    with duckdb.connect(version_1) as connection:
        with pytest.raises(duckdb.Error):
            migrate(connection, version_1, (*MIGRATIONS[:1], ADDS_COLUMN, BREAKS))
        assert schema_version(connection) == 2

    tables = [name for (name,) in query(version_1, "SELECT table_name FROM duckdb_tables()")]
    assert "half" not in tables


def test_a_file_made_by_a_newer_enginebench_is_left_alone(version_1):
    with duckdb.connect(version_1) as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'from the future', 0, '9.0')")

    for use in (Store(version_1).benchmarks, lambda: Store(version_1).add_benchmark(invented.benchmark("b2"))):
        with pytest.raises(StoreError, match=r"made by a newer enginebench \(9\.0, schema 99"):
            use()
    assert query(version_1, "SELECT count(*) FROM benchmarks") == [(1,)]
