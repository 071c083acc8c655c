"""`enginebench query` prints what SQL finds, as a table, JSON or CSV."""

import json

import pytest
from typer.testing import CliRunner

import invented
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.store.store import Store


@pytest.fixture
def query(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    Store(tmp_path / "results.duckdb").add_benchmark(invented.benchmark(name="[b]=1+1[/b]"))

    def run(*arguments):
        return CliRunner().invoke(make_app(), ["query", *arguments], catch_exceptions=True)

    return run


@pytest.mark.slow
def test_a_table_shows_names_as_they_are_and_unknown_as_a_dash(query):
    done = query("SELECT name, rerun_of, [1, 2] AS list FROM benchmarks")
    assert "[b]=1+1[/b]" in done.stdout
    assert "–" in done.stdout
    assert "[1, 2]" in done.stdout


@pytest.mark.slow
def test_json_has_columns_with_types_and_null_for_unknown(query):
    document = json.loads(query("SELECT id, rerun_of, 1 AS id FROM benchmarks", "--json").stdout)
    assert [column["name"] for column in document["columns"]] == ["id", "rerun_of", "id"]
    assert document["columns"][0]["type"] == "VARCHAR"
    assert document["rows"] == [["b0000001", None, 1]]
    assert (document["more_rows"], document["remarks"]) == (False, [])


@pytest.mark.slow
def test_csv_has_a_header_and_no_formulas(query):
    done = query("SELECT '=1+1' AS a, NULL AS b, [1, 2] AS c", "--csv")
    assert done.stdout.splitlines() == ["a,b,c", '\'=1+1,,"[1, 2]"']


@pytest.mark.slow
def test_more_rows_than_wanted_are_told_apart_from_the_data(query):
    done = query("FROM range(10)", "--csv", "--rows", "3")
    assert done.stdout.splitlines() == ["range", "0", "1", "2"]
    assert "only the first 3 rows" in done.stderr


@pytest.mark.slow
def test_what_cannot_be_answered_is_a_sentence(query):
    for arguments in (("DROP TABLE benchmarks",), ("SELECT 1", "--json", "--csv")):
        done = query(*arguments)
        assert isinstance(done.exception, InputError)
        assert not done.stdout
