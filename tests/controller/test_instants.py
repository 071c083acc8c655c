"""What the clock on the wall shows says whose clock it is, above all in the hour that it shows twice."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

import invented
from enginebench_controller.cli import make_app
from enginebench_controller.home import default_home
from enginebench_controller.instants import local_instant, zone_name
from enginebench_ui.pages import BENCHMARKS
from opened_pages import opened, texts

FORM = "%Y-%m-%d %H:%M"


@pytest.fixture
def clock(monkeypatch):
    """Sets this machine's time zone, for this test."""

    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def ns(*of_day, month=10, day=25):
    return int(datetime(2026, month, day, *of_day, tzinfo=UTC).timestamp()) * 10**9


def test_the_hour_that_comes_twice_has_the_name_of_its_zone_and_no_other_hour(clock):
    clock("Europe/Berlin")
    shown = [local_instant(ns(*at), FORM) for at in ((0, 50), (1, 10), (2, 10))]
    assert shown == ["2026-10-25 02:50 CEST", "2026-10-25 02:10 CET", "2026-10-25 03:10"]
    assert local_instant(ns(3, 0, month=7), FORM) == "2026-07-25 05:00"
    assert local_instant(ns(1, 10, month=3, day=29), FORM) == "2026-03-29 03:10", "the hour that is left out"
    assert local_instant(ns(2, 10), FORM, with_zone=True) == "2026-10-25 03:10 CET"


@pytest.mark.parametrize(
    ("zone", "name"), [("Europe/Berlin", "CET/CEST"), ("UTC", "UTC"), ("Asia/Tokyo", "JST"), ("America/Lima", "-05")]
)
def test_a_zone_has_a_name_for_winter_and_one_for_summer(clock, zone, name):
    clock(zone)
    assert zone_name() == name


@pytest.mark.parametrize("columns", ["60", "90", ""])
def test_a_table_names_the_zone_of_its_times_in_the_heading(clock, columns, tmp_path, monkeypatch):
    clock("Europe/Berlin")
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", columns)
    store = default_home().store
    for number, at in ((1, (0, 50)), (2, (1, 10))):
        store.add_benchmark(replace(invented.benchmark(f"b000000{number}"), created_at_unix_ns=ns(*at)))
        store.add_measurement(invented.measured(f"m{number}", f"b000000{number}"), invented.samples(f"m{number}"))
    done = CliRunner().invoke(make_app(("list",)), ("list",))
    assert ("created (CET/CEST)" in done.stdout) != ("no room for: created" in done.stderr)
    if columns == "":
        assert "2026-10-25 02:10:00 CET " in done.stdout and "2026-10-25 02:50:00 CEST" in done.stdout
    done = CliRunner().invoke(make_app(("show",)), ("show", "b0000001"))
    assert "2026-10-25 02:50:00 CEST" in done.stdout


@pytest.mark.slow
def test_every_page_names_the_zone_of_its_times(clock, tmp_path, monkeypatch):
    clock("Europe/Berlin")
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    assert any(text.startswith("Times are in CET") for text in texts(opened(BENCHMARKS).sidebar.caption))
