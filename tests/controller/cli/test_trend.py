"""`enginebench trend` reads of a store what it was asked for."""

import json

import pytest
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.home import default_home
from enginebench_controller.store.store import Store
from histories import Change, digest, keep_history


@pytest.mark.slow
def test_of_one_model_the_histories_of_no_other_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    for name in ("net", "other"):
        keep_history(default_home().store, name, Change(), points=3)
    asked, histories = [], Store.histories
    monkeypatch.setattr(Store, "histories", lambda store, *of: asked.append(of) or histories(store, *of))

    done = CliRunner().invoke(make_app(("trend", "net")), ("trend", "net"))
    assert done.exit_code == 0, done.output
    assert asked == [(digest("net"), None, None)]


def told(*words):
    done = CliRunner().invoke(make_app(words), words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_processors_are_told_where_a_target_has_or_had_several(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    store = default_home().store
    keep_history(store, "net", Change(), points=3)
    keep_history(store, "net", Change(), points=3, target="nuc")
    assert "processor" not in told("trend")

    keep_history(store, "net", Change(), points=4, imported_from="Their CPU")
    keep_history(store, "other", Change(at=2, cpu_model="New CPU"), points=3)
    shown = told("trend")
    assert "local, imported from Their CPU, CPU" in shown
    assert "Invented CPU → New CPU" in shown
    document = json.loads(told("trend", "net", "--target", "local", "--json"))
    assert {(one["imported"], *one["processors"], one["points"]) for one in document["histories"]} == {
        (False, "Invented CPU", 3),
        (True, "Their CPU", 4),
    }


def test_a_file_that_happens_to_have_the_name_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    keep_history(default_home().store, "net", Change(), points=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net").write_text("a note")
    done = CliRunner().invoke(make_app(("trend", "net")), ("trend", "net"))
    assert done.exit_code == 0, done.output
