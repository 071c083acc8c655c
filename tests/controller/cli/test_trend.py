"""`enginebench trend` reads of a store what it was asked for."""

import json
import time

import pytest
from typer.testing import CliRunner

import invented
from controller.verdicts import pairs
from controller.verdicts.pairs import arms, keep_gate
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.alerts import Confirmation, Finding
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


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return default_home().store


def ran(*words):
    return CliRunner().invoke(make_app(words), words)


@pytest.mark.parametrize("options", [(), ("--alerts",), ("--alerts", "--confirm")])
def test_a_job_in_its_first_night_is_not_wrong(store, options):
    keep_history(store, "net", Change(), points=1)
    for model in ((), ("net",)):
        done = ran("trend", *model, *options)
        assert done.exit_code == 0, done.output
        assert "measured more than once: a trend needs two points" in " ".join(done.stderr.split())
    assert json.loads(told("trend", "net", *options, "--json"))["histories"] == []
    for unknown in (("nosuch",), ("--engine", "another"), ("net", "--target", "nuc")):
        assert isinstance(ran("trend", *unknown, *options).exception, InputError)


def test_a_model_that_was_in_gates_only_is_not_named_as_one_that_has_points(store):
    keep_history(store, "net", Change(), points=2)
    keep_gate(store, "b0000001", digest("gated"), base="fake==1.0", head="fake==2.0")
    assert store.measured_models() == {digest("net"): "net"}
    said = str(ran("trend", "nosuch").exception)
    assert said == "no model 'nosuch' was measured, gates aside; these were: net"


def test_json_has_what_the_table_shows_and_says_where_nobody_looked_for_changes(store):
    keep_history(store, "net", Change(factor=1.2, version="2.0"))
    (unsearched,) = json.loads(told("trend", "--json"))["histories"]
    (searched,) = json.loads(told("trend", "--alerts", "--json"))["histories"]
    assert unsearched["alerts"] is None
    assert len(searched["alerts"]) == 1
    assert unsearched == searched | {"alerts": None}
    assert searched["versions"] == ["1.0", "2.0"]
    assert searched["since_oldest_ratio"] == searched["newest"]["median_ns"] / searched["oldest"]["median_ns"]


@pytest.mark.parametrize(("mended", "code"), [(False, 4), (True, 0)])
def test_a_regression_ends_with_4_until_it_is_mended(store, mended, code):
    keep_history(store, "net", Change(at=8, factor=1.2, version="2.0"))
    if mended:
        keep_history(store, "net", Change(at=16, version="3.0"), first=16, points=24)
    keep_gate(store, "b0000001", digest("net"), ratio=1.2, base="fake==1.0", head="fake==2.0")
    keep_gate(store, "b0000002", digest("net"), ratio=1 / 1.2, base="fake==2.0", head="fake==3.0")
    done = ran("trend", "net", "--alerts", "--confirm")
    assert done.exit_code == code, done.output
    assert ("regression, since mended: worse: head takes 1." in done.stdout) is mended
    assert ("  regression: worse" in done.stdout) is not mended


def test_where_the_engine_got_faster_a_gate_that_says_otherwise_is_no_regression(store):
    keep_history(store, "net", Change(factor=0.8, version="2.0"))
    keep_gate(store, "b0000001", digest("net"), ratio=1.05, base="fake==1.0", head="fake==2.0")
    done = ran("trend", "net", "--alerts", "--confirm")
    assert done.exit_code == 0, done.output
    assert "not confirmed: worse: head takes 1.0" in done.stdout


@pytest.mark.parametrize(("budget", "asked"), [("40s", []), ("2m", ["2m"])])
def test_a_gate_that_was_too_coarse_is_not_run_anew_until_it_may_take_longer(store, monkeypatch, budget, asked):
    keep_history(store, "net", Change(factor=1.02, version="2.0"), noise=0.001)
    monkeypatch.setattr(pairs, "arms", lambda ratio, **_: arms(ratio, scatter=0.025, seed=0))
    keep_gate(store, "b0000001", digest("net"), base="fake==1.0", head="fake==2.0")
    given = []

    def confirm(home, alert, budget, watcher):
        given.append(budget)
        return Confirmation(Finding.NOT_CONFIRMED, "not now")

    monkeypatch.setattr("enginebench_controller.cli.commands.trend.confirm", confirm)
    done = ran("trend", "net", "--alerts", "--confirm", "--budget", budget)
    assert done.exit_code == 0, done.output
    assert given == asked
    assert ("cannot tell: pass: head takes " in done.stdout) is (not asked)
    assert ("too coarse for this change: give a longer --budget" in done.stdout) is (not asked)


DAY_NS = 86_400_000_000_000
MISDATED = "set the clock, if it is wrong; else measure anew and `enginebench remove b-net-003`"


@pytest.fixture
def misdated(store, monkeypatch):
    keep_history(store, "net", Change(), points=3)
    with monkeypatch.context() as clock:
        clock.setattr(invented, "CREATED_NS", time.time_ns() + 20 * 365 * DAY_NS)
        keep_history(store, "net", Change(factor=2), first=3, points=4)


@pytest.mark.parametrize("words", [(), ("net",), ("--json",), ("--alerts",), ("--alerts", "--json")])
@pytest.mark.usefixtures("misdated")
def test_what_a_wrong_clock_dated_is_left_out_and_told_of_once(words):
    done = ran("trend", *words)
    assert done.exit_code == 0, done.output
    assert done.stderr.count(MISDATED) == 1
    assert "1 point is left out: 1 benchmark has a date that cannot be, b-net-003 at 20" in done.stderr
    if "--json" in words:
        assert [one["points"] for one in json.loads(done.stdout)["histories"]] == [3]


@pytest.mark.usefixtures("misdated")
def test_where_all_of_it_is_misdated_that_is_told_as_well(store):
    for number in range(3):
        store.remove_benchmark(f"b-net-00{number}")
    done = ran("trend", "net")
    assert isinstance(done.exception, InputError)
    assert MISDATED in done.stderr


@pytest.mark.fault(29)
@pytest.mark.usefixtures("misdated")
def test_list_and_check_tell_of_it_too(store):
    listed = ran("list")
    assert (listed.exit_code, listed.stderr.count(MISDATED)) == (0, 1)
    assert ran("list", "--json").stderr.count(MISDATED) == 1
    assert ran("store", "check").stderr.count(MISDATED) == 1
    assert sum(MISDATED in one for one in store.check().problems) == 1


def test_where_clocks_were_right_nobody_is_told_of_any(store):
    keep_history(store, "net", Change(), points=3)
    told = [ran(*words).stderr for words in (("trend",), ("list",), ("store", "check"))]
    assert not any("the clock" in one for one in told), told
