"""`enginebench trend` reads of a store what it was asked for."""

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


def test_a_file_that_happens_to_have_the_name_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    keep_history(default_home().store, "net", Change(), points=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net").write_text("a note")
    done = CliRunner().invoke(make_app(("trend", "net")), ("trend", "net"))
    assert done.exit_code == 0, done.output
