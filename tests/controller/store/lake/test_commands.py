"""The commands that write lakes and read them."""

import json

import pytest
from typer.testing import CliRunner

import invented
from enginebench_controller.cli import make_app
from enginebench_controller.errors import StoreError
from enginebench_controller.home import home_to_read
from enginebench_ui.command import DEFAULT_PORT
from enginebench_ui.launch import home_mark
from enginebench_ui.pages import BENCHMARK, BENCHMARKS
from opened_pages import opened, texts

pytestmark = pytest.mark.slow


@pytest.fixture
def run(own, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(own.path.parent))
    monkeypatch.delenv("ENGINEBENCH_STORE", raising=False)

    def run(*arguments):
        done = CliRunner().invoke(make_app(), list(arguments), catch_exceptions=True)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


def test_results_are_brought_into_a_lake_and_read_from_a_home_without_any(run, lake, tmp_path, monkeypatch):
    assert "benchmarks: 2 new in it, 0 there already; profiles: 1 new in it" in run("store", "sync", lake.url).stderr
    assert "benchmarks: 0 new in it, 2 there already" in run("store", "sync", lake.url).stderr
    assert "files were joined" in run("store", "compact", lake.url).stderr

    mine = {name: run(*words).stdout for name, words in ASKED.items()}
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "nothing"))
    assert {name: run(*words, "--store", lake.url).stdout for name, words in ASKED.items()} == mine
    monkeypatch.setenv("ENGINEBENCH_STORE", f"'{lake.url}' own")
    assert run(*ASKED["list"]).stdout == mine["list"]


ASKED = {
    "list": ("list", "--json"),
    "show": ("show", "b0000001", "--json", "--blocks"),
    "compare": ("compare", "b0000001", "b0000002", "--json"),
    "query": ("query", "SELECT id, mean_ns FROM measurements ORDER BY id", "--csv"),
    "export": ("export", "b0000001"),
    "profile": ("export", "p0000001"),
    "profiles": ("profiles", "list", "--json"),
    "layers": ("profiles", "show", "p0000001", "--json"),
}


def test_profiles_are_exported_from_what_the_environment_names(run, synced, tmp_path, monkeypatch):
    asked = ("profiles", "export", "p0000001")
    mine = run(*asked).stdout
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("ENGINEBENCH_STORE", synced.url)
    assert run(*asked).stdout == mine


def test_a_command_to_measure_again_is_told_only_where_it_would_know_the_benchmark(run, synced, monkeypatch):
    assert "`enginebench rerun b0000001` does it again" in run("show", "b0000001").stderr
    monkeypatch.setenv("ENGINEBENCH_STORE", synced.url)
    assert "rerun" not in run("show", "b0000001").stderr


def test_a_page_of_what_the_environment_names_is_opened_where_that_is_served(run, synced, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("enginebench_ui.launch.show", lambda *asked: shown.append(asked) or 0)
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("ENGINEBENCH_STORE", synced.url)
    assert run("open", "b0000001").exit_code == 0
    assert shown == [(tmp_path / "nothing", DEFAULT_PORT, "benchmark?id=b0000001", (synced.url,))]


def test_what_is_under_way_is_left_out_until_it_is_whole(run, own, lake, monkeypatch):
    monkeypatch.setattr("enginebench_controller.runs.undertaking.under_way", lambda *_: frozenset({"b0000002"}))
    done = run("store", "sync", lake.url)
    assert "benchmarks: 1 new" in done.stderr
    assert "left out, as they are under way or wait for `enginebench resume`: b0000002" in done.stderr
    listed = json.loads(run("list", "--json", "--store", lake.url).stdout)
    assert [one["id"] for one in listed["benchmarks"]] == ["b0000001"]


def test_pages_of_a_lake_say_so_on_each_and_are_not_taken_for_those_of_the_own_store(synced, tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "nothing"))
    assert not any("Read from" in one for one in texts(opened(BENCHMARKS).sidebar.caption))
    monkeypatch.setenv("ENGINEBENCH_STORE", synced.url)
    app = opened(BENCHMARKS)
    assert [link.label for link in app.get("page_link") if link.proto.query_string.startswith("id=")]
    assert f"Read from {synced.url}, and not to be changed here" in texts(app.sidebar.caption)[0]
    home = home_to_read()
    assert home_mark(home.path, home.reads) != home_mark(home.path)


@pytest.mark.parametrize("words", [("remove", "b0000001"), ("profiles", "remove", "p0000001")])
def test_what_others_are_shown_in_place_of_is_not_removed(run, own, synced, words, monkeypatch):
    before = own.benchmarks(), own.profiles()
    monkeypatch.setenv("ENGINEBENCH_STORE", f"{synced.url} own")
    with pytest.raises(StoreError, match="can only be read here; leave --store and ENGINEBENCH_STORE out"):
        run(*words, "--yes")
    assert (own.benchmarks(), own.profiles()) == before


def test_pages_of_a_lake_remove_nothing(own, synced, monkeypatch):
    before = own.benchmarks()
    monkeypatch.setenv("ENGINEBENCH_HOME", str(own.path.parent))
    monkeypatch.setenv("ENGINEBENCH_STORE", synced.url)
    page = opened(BENCHMARK, id="b0000001")
    page.button(key="remove_benchmark").click().run()
    assert "can only be read here" in texts(page.error)[0]
    assert own.benchmarks() == before


def test_pages_read_what_the_environment_names(own, synced, tmp_path, monkeypatch):
    from enginebench_ui.shared.reading import place, store_at

    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("ENGINEBENCH_STORE", synced.url)
    path, before = place()
    assert store_at(path).benchmarks() == own.benchmarks()
    assert place() == (path, before)
    with pytest.raises(StoreError, match="can only be read"):
        home_to_read().store.add_benchmark(invented.benchmark())
