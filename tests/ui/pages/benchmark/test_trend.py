"""A trend tells engines and versions apart, and says what changed beyond noise."""

import time
from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.home import default_home
from enginebench_controller.records import Configuration, EngineRef, Interval, IntervalMethod, Status
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.store.trends import TrendPoint
from enginebench_ui.pages.benchmark import stored
from enginebench_ui.pages.benchmark.shapes.figures import Statistic, Value
from enginebench_ui.pages.benchmark.shapes.trend import (
    TrendLens,
    change,
    difference,
    tracks,
    trend_figure,
    trend_rows,
    unlike_hosts,
)
from histories import Change, keep_history

LENS = TrendLens(Quantity.TIME_PER_ITEM, Statistic.MEDIAN, 4, "b3")


def interval(low, high):
    return Interval(low, high, 0.95, IntervalMethod.PROCESSES_T)


def point(number, median_ms, version="1.0", engine="fake", **fields):
    whole = TrendPoint(
        measurement_id=f"m{number}",
        benchmark_id=f"b{number}",
        benchmark_name=f"run {number}",
        imported=False,
        at_unix_ns=invented.CREATED_NS + number * 3_600_000_000_000,
        engine=EngineRef(engine, "default", version),
        options={},
        status=Status.OK,
        failure_kind=None,
        median_ns=median_ms * 1e6,
        median_interval=interval(median_ms * 0.99e6, median_ms * 1.01e6),
        mean_ns=median_ms * 1.1e6,
        throughput_items_per_s=4000 / median_ms,
        throughput_interval=None,
        effective_precision="f32",
        effective_threads=2,
        input_set_sha256="cd" * 32,
        cpu_model="Invented CPU",
    )
    return replace(whole, **fields)


FAILED = {"status": Status.FAILED, "failure_kind": "crashed", "median_ns": None, "median_interval": None}
POINTS = (point(1, 4.0), point(2, 4.02), point(3, 3.0, "2.0"), point(2, 8.0, engine="other"))


def test_each_engine_is_a_track_and_others_are_left_out():
    found = tracks(POINTS, {"fake"})

    assert [(track.name, len(track.points)) for track in found] == [("fake", 3)]
    tuned = replace(POINTS[0], options={"arena": "off"})
    assert [track.name for track in tracks([*POINTS, tuned], {"fake", "other"})] == [
        "fake",
        "other",
        "fake · arena=off",
    ]


def test_what_was_imported_is_a_track_of_its_own_for_each_processor():
    """It is another machine by the same name: from one to the other nothing changed."""
    theirs = [point(4, 8.0, imported=True, cpu_model=model) for model in ("Their CPU", "Third CPU", "Their CPU")]
    found = tracks([*POINTS, *theirs], {"fake"})

    assert [(track.name, len(track.points)) for track in found] == [
        ("fake", 3),
        ("fake · imported from Their CPU", 2),
        ("fake · imported from Third CPU", 1),
    ]


def test_options_that_differ_past_what_is_shown_of_long_ones_are_tracks_of_their_own():
    tuned = {"cpu_mem_arena": "false", "denormals_as_zero": "true", "mem_pattern": "false"}
    levels = ("all", "disabled", "all", "disabled")
    points = [
        point(number, 4.0 if level == "all" else 8.0, options=tuned | {"graph_optimization_level": level})
        for number, level in enumerate(levels)
    ]
    shown = tracks(points, {"fake"})

    assert [len(track.points) for track in shown] == [2, 2]
    assert [f"level={level}" in track.name for track, level in zip(shown, levels, strict=False)] == [True, True]
    assert [row["Change"] for row in trend_rows(shown, LENS)] == ["×1.00", "×1.00", None, None]
    first, second = trend_figure(shown, LENS, EngineLooks()).data
    assert first.name != second.name and first.line.color != second.line.color


def test_tracks_whose_names_are_alike_in_full_are_told_apart_all_the_same():
    points = [point(1, 4.0, options={"a": "b, c=d"}), point(2, 4.0, options={"a": "b", "c": "d"})]
    points.append(point(3, 4.0, options={"c": "d", "a": "b"}))
    shown = tracks(points, {"fake"})
    assert [len(track.points) for track in shown] == [1, 2]
    assert len({track.name for track in shown}) == 2


def test_the_figure_names_versions_where_they_change_and_marks_this_benchmark():
    (line,) = trend_figure(tracks(POINTS, {"fake"}), LENS, EngineLooks()).data

    assert list(line.y) == pytest.approx([1.0, 1.005, 0.75])
    assert list(line.text) == ["", "", "2.0"]
    assert line.marker.size[2] > line.marker.size[0]
    assert line.error_y.array[0] == pytest.approx(0.01)
    assert "%{y:,.4~r} ms/" in line.hovertemplate, "large figures stand in full"


def test_the_chart_has_the_times_of_the_table(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        shown = tracks(POINTS, {"fake"})
        (line,) = trend_figure(shown, LENS, EngineLooks()).data
        assert [f"{one:%Y-%m-%d %H:%M}" for one in line.x] == [row["When"][:16] for row in trend_rows(shown, LENS)][
            ::-1
        ]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_in_the_hour_that_comes_twice_the_line_goes_on_and_rows_tell_the_two_apart(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        first_ns = 1_792_889_400_000_000_000  # 2026-10-25 00:50 UTC, twenty minutes before the second
        points = [point(number, 4.0, at_unix_ns=first_ns + number * 1_200 * 10**9) for number in (0, 1)]
        shown = tracks(points, {"fake"})
        figure = trend_figure(shown, LENS, EngineLooks())
        assert [f"{one:%H:%M}" for one in figure.data[0].x] == ["01:50", "02:10"], "Plotly drops the offsets"
        assert figure.layout.xaxis.title.text == "time (CET)" and "%M} CET:" in figure.data[0].hovertemplate
        assert [row["When"] for row in trend_rows(shown, LENS)] == ["2026-10-25 02:10 CET", "2026-10-25 02:50 CEST"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_rows_are_newest_first_with_the_change_from_the_point_before():
    rows = trend_rows(tracks(POINTS, {"fake"}), LENS)

    assert [row["Version"] for row in rows] == ["2.0", "1.0", "1.0"]
    assert rows[0]["Change"] == "×0.75"
    assert [row["Difference"] for row in rows] == ["beyond noise", "not told apart", None]
    assert rows[0]["Remarks"] == "this benchmark"
    assert rows[0]["Benchmark"] == "benchmark?id=b3"
    assert (rows[2]["ms/item"], rows[2]["ms/batch"]) == pytest.approx((1.0, 4.0))


@pytest.mark.parametrize(("factor", "told"), [(1.017, "beyond noise"), (1.013, "not told apart")])
def test_intervals_that_overlap_may_still_be_apart_as_compare_has_it(factor, told):
    """Five processes each whose means are known to 1 %: Welch's test tells 1.17 % apart."""
    one, other = (Value(10 * by, interval(9.9 * by, 10.1 * by)) for by in (1, factor))

    assert difference(one, other) == difference(other, one) == told


def test_a_failure_is_a_gap_and_the_next_point_is_compared_with_the_one_before():
    points = (point(1, 4.0), point(2, 4.0, **FAILED, throughput_items_per_s=None), point(3, 4.0))
    shown = tracks(points, {"fake"})

    assert trend_figure(shown, LENS, EngineLooks()).data[0].y[1] is None
    newest, failed, _ = trend_rows(shown, LENS)
    assert (failed["ms/item"], failed["Remarks"]) == (None, "crashed")
    assert newest["Change"] == "×1.00"


def test_what_really_ran_otherwise_is_remarked():
    points = (point(1, 4.0), point(2, 2.0, effective_precision="bf16", cpu_model="Other CPU"))
    shown = tracks(points, {"fake"})

    remarks = trend_rows(shown, LENS)[0]["Remarks"]
    assert remarks.startswith("effective precision differs: f32 before, bf16 now")
    assert unlike_hosts(shown) == "the processors differ: Invented CPU, Other CPU"
    assert unlike_hosts(tracks(POINTS, {"fake"})) is None


def test_means_have_no_interval_and_a_change_of_them_is_not_judged():
    lens = replace(LENS, statistic=Statistic.MEAN, figure=Quantity.TIME_PER_BATCH)

    assert lens.value(POINTS[0]) == Value(pytest.approx(4.4))
    assert trend_rows(tracks(POINTS, {"fake"}), lens)[0]["Difference"] == "unknown: no interval"


def test_unknown_values_have_no_change():
    assert change(Value(None), Value(1.0)) is None
    assert change(Value(0.0), Value(1.0)) is None
    assert difference(Value(1.0), Value(None)) is None


def test_nothing_is_drawn_of_failures_alone():
    assert trend_figure(tracks([point(1, 4.0, **FAILED)], {"fake"}), LENS, EngineLooks()) is None


@pytest.mark.slow
def test_changes_are_looked_for_in_those_histories_alone_that_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    store = default_home().store
    keep_history(store, "net", Change(), points=3)
    for number in range(3):
        one = store.measurement(f"m-net-{number:03}")
        store.add_measurement(replace(one, id=f"m-four-{number}", configuration=Configuration("CPU", 4, cores=2)))

    for identity, batch in (("m-net-000", 1), ("m-four-0", 4)):
        assert [one.history.configuration.batch for one, _ in stored.trend_alerts(identity)] == [batch]
