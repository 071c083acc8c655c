"""The page of ladders runs over a real store: which one is shown, what is missing, and the link to it."""

import re
from functools import partial

import pytest

import invented
import invented_ladders
import opened_pages
from enginebench_controller.store.store import Store
from enginebench_ui.pages import LADDERS
from opened_pages import texts

pytestmark = pytest.mark.slow

opened = partial(opened_pages.opened, LADDERS)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return Store(tmp_path / "results.duckdb")


@pytest.fixture
def filled(store):
    store.save_model(invented.model(name="*net*"))
    add(store, invented_ladders.benchmark("b000000a"), target="nuc")
    add(store, invented_ladders.benchmark("b000000b", "latency", invented.CREATED_NS + 1), target="local")
    return store


def add(store, benchmark, target):
    store.add_benchmark(benchmark)
    for one in invented_ladders.measurements(benchmark.id, target=target):
        store.add_measurement(one)


def test_an_empty_store_tells_how_to_climb_one(store):
    assert "enginebench ladder throughput" in opened().code[0].value


def test_the_newest_ladder_is_shown_and_stands_in_the_address(filled):
    app = opened()
    assert texts(app.header) == ["*net* on local"]
    assert app.query_params["id"] in ("b000000b", ["b000000b"])
    assert list(app.dataframe[0].value["Id"]) == ["b000000b", "b000000a"]
    assert app.segmented_control(key="bars").value == "latency"


def test_a_link_opens_its_ladder_with_every_rung(filled):
    app = opened(id="b000000a")
    assert texts(app.header) == ["*net* on nuc"]
    rungs = app.dataframe[1].value
    assert list(rungs["Status"]) == ["ok", "ok", "ok", "not available"]
    assert rungs["Throughput (FPS)"].isna().tolist() == [False, False, False, True]
    assert "has no device 'GPU'" in rungs["Remarks"].iloc[3]
    assert any("5.23 times as fast as PyTorch" in text for text in texts(app.markdown))
    assert len(app.get("plotly_chart")) == 2
    assert "id=b000000a" in [link.proto.query_string for link in app.get("page_link")]


def test_an_address_that_comes_later_wins_over_the_row_that_was_selected(filled):
    app = opened()
    key = re.search("ladders .*", app.dataframe[0].proto.id)[0]
    app.session_state[key] = {"selection": {"rows": [1]}}
    app.run()
    assert texts(app.header) == ["*net* on nuc"]
    app.query_params["id"] = "b000000b"  # as Back does
    app.run()
    assert texts(app.header) == ["*net* on local"]
    assert app.query_params["id"] in ("b000000b", ["b000000b"])


def test_ladders_are_narrowed_by_target(filled):
    app = opened(target="nuc")
    assert list(app.dataframe[0].value["Id"]) == ["b000000a"]
    assert app.query_params["id"] in ("b000000a", ["b000000a"])


def test_a_ladder_that_is_not_there_is_told(filled):
    app = opened(id="gone")
    assert "The ladder gone is not in this list" in texts(app.warning)[0]
    assert texts(app.header) == ["*net* on local"]
