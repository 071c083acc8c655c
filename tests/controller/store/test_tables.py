"""Every table and column is explained, and docs/reference/tables.md says the same."""

from pathlib import Path

import pytest

import invented
from enginebench_controller.store.store import Store
from enginebench_controller.store.tables import WORDS, page

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "tables.md"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb")


@pytest.mark.slow
def test_every_table_and_column_has_words_and_the_words_have_a_column(store):
    there = store.query(
        "SELECT table_name, list(column_name ORDER BY column_name) FROM duckdb_columns() "
        "WHERE NOT internal GROUP BY ALL"
    )
    assert {name: sorted(words.columns) for name, words in WORDS.items()} == dict(there.rows)


def test_the_page_of_the_tables_is_up_to_date(store):
    written = DOCUMENT.read_text(encoding="utf-8")
    assert written == page(store.tables()), (
        "run: python -m enginebench_controller.store.tables > docs/reference/tables.md"
    )


def test_tables_tell_how_much_they_hold(store):
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1"), invented.samples("m1"))
    rows = {table.name: table.rows for table in store.tables()}
    assert (rows["benchmarks"], rows["block_samples"], rows["layers"]) == (1, 200, 0)


def test_what_was_removed_is_no_longer_counted(store):
    for name in ("b1", "b2"):
        store.add_benchmark(invented.benchmark(name))
    store.remove_benchmark("b1")
    assert next(table.rows for table in store.tables() if table.name == "benchmarks") == 1
