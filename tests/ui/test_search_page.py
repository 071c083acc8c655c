"""The page Search by SQL runs over a real store: answers, charts, errors, and the question in the address."""

from functools import partial

import pytest

import invented
import opened_pages
from enginebench_controller.store.store import Store
from enginebench_ui.pages import SEARCH
from enginebench_ui.pages.search.shapes import EXAMPLES
from opened_pages import button, texts

pytestmark = pytest.mark.slow

opened = partial(opened_pages.opened, SEARCH)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1"))
    store.add_measurement(invented.measured("m2", engine="fake-fast", latency_ms=2.0))
    return store


def answer(app):
    """The table of the answer; the last one is that of the columns."""
    return app.dataframe[0].value


def test_a_question_in_the_address_is_answered(store):
    app = opened(sql="SELECT id, batch FROM measurements ORDER BY id")
    assert app.text_area[0].value == "SELECT id, batch FROM measurements ORDER BY id"
    assert answer(app).to_dict("list") == {"id": ["m1", "m2"], "batch": [1, 1]}
    assert any(text.startswith("2 rows in ") for text in texts(app.caption))


def test_a_question_that_is_written_is_answered(store):
    app = opened()
    assert "begin with one of the examples" in texts(app.info)[0]
    app.text_area[0].set_value("SELECT count(*) AS n FROM measurements").run()
    assert list(answer(app)["n"]) == [2]


def test_an_example_is_asked_with_its_chart_and_the_next_one_with_its_own(store):
    app = opened()
    first, without_chart = EXAMPLES[0], next(one for one in EXAMPLES if one.kind is None)

    button(app, first.question).click().run()
    assert app.text_area[0].value == first.sql
    assert [app.selectbox(key=key).value for key in ("kind", "x", "y", "colour")] == [
        *(first.kind, first.x, first.y, first.colour)
    ]
    assert len(app.get("plotly_chart")) == 1

    button(app, without_chart.question).click().run()
    assert not app.exception
    assert not app.get("plotly_chart")


def test_what_was_drawn_before_does_not_disturb_another_question(store):
    app = opened(sql="SELECT engine, median_ns FROM measurements", view="chart", x="engine", y="median_ns")
    app.text_area[0].set_value("SELECT batch, cores FROM measurements").run()
    assert not app.exception
    assert [app.selectbox(key=key).value for key in ("x", "y")] == ["batch", "cores"]


def test_an_error_is_a_sentence_with_the_examples_still_there(store):
    app = opened(sql="SELECT nothing FROM measurements")
    (error,) = texts(app.error)
    assert error.startswith("DuckDB cannot answer this: Binder Error: Referenced column")
    assert button(app, EXAMPLES[0].question)
    assert "this is DROP" in texts(opened(sql="DROP TABLE benchmarks").error)[0]
    assert len(store.benchmarks()) == 1


def test_no_rows_and_too_many_rows_are_said(store):
    assert "no row fits it" in texts(opened(sql="SELECT * FROM layers").info)[0]
    app = opened(sql="FROM range(1000000)")
    assert "Only the first 10,000 rows are here" in texts(app.warning)[0]
    assert len(answer(app)) == 10_000


def test_the_columns_of_a_table_are_explained_and_its_rows_a_click_away(store):
    app = opened(table="benchmarks")
    columns = app.dataframe[-1].value
    assert list(columns["Column"]) == ["id", "name", "created_at_unix_ns", "plan", "rerun_of", "imported"]
    assert "the benchmark that this one repeats" in list(columns["Meaning"])
    button(app, "See its first 100 rows").click().run()
    assert list(answer(app)["name"]) == ["invented"]
