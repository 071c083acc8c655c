"""Scaling is drawn against the ideal, told in a table, and its gaps have reasons."""

import re
from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Configuration
from enginebench_controller.stats.scaling import Axis, Quantity, ScalingPoint, scale
from enginebench_ui.pages.benchmark.shapes.figures import Lens
from enginebench_ui.pages.benchmark.shapes.lines import labelled, lines_of, looks
from enginebench_ui.pages.benchmark.shapes.scaling import (
    drawn_quantities,
    extremes,
    gaps,
    place_among,
    scaling_figure,
    scaling_of,
    scaling_rows,
)

LATENCY_MS = {1: 8.0, 2: 5.0, 4: 4.0}


def measured(identity, batch, cores, latency_ms, engine="fake"):
    asked = Configuration("CPU", batch, cores)
    return invented.measured(identity, engine=engine, batch=batch, latency_ms=latency_ms, configuration=asked)


@pytest.fixture
def line():
    measurements = [measured(f"m{cores}", 1, cores, latency_ms) for cores, latency_ms in LATENCY_MS.items()]
    failed = invented.failed("m8", engine="fake", configuration=Configuration("CPU", 1, 8))
    return labelled(lines_of([*measurements, failed]))[0]


def test_a_row_a_size_with_speed_up_efficiency_status_and_reason(line):
    rows = scaling_rows([line], Axis.CORES, 1, Lens())

    assert [row["Cores"] for row in rows] == [1, 2, 4, 8]
    assert [row["Speed-up"] for row in rows[:3]] == pytest.approx([1, 1.6, 2], rel=0.05)
    assert [row["Efficiency (%)"] for row in rows[:3]] == pytest.approx([100, 80, 50], rel=0.05)
    assert [row["Point"] for row in rows] == ["worst", None, "best", None]
    assert [row["Status"] for row in rows] == ["ok", "ok", "ok", "failed"]
    assert (rows[3]["ms/batch"], rows[3]["Speed-up"], rows[3]["items/s"]) == (None, None, None)
    assert "killed by SIGSEGV" in rows[3]["Remarks"]
    assert " to " in rows[1]["Speed-up, range"]


def test_of_one_item_there_is_one_time_and_far_values_are_on_a_logarithmic_axis(line):
    assert "ms/item" not in scaling_rows([line], Axis.CORES, 1, Lens())[0]
    assert drawn_quantities(Axis.CORES, 1) == (Quantity.TIME_PER_BATCH, Quantity.ITEMS_PER_S)
    assert drawn_quantities(Axis.CORES, 4) == drawn_quantities(Axis.BATCH, 1) == tuple(Quantity)

    far = labelled(lines_of([measured("s1", 1, 1, 900.0, "far"), measured("s2", 1, 2, 800.0, "far")]))[0]
    scalings = {one.key: scaling_of(one, Axis.CORES, 1, Quantity.TIME_PER_BATCH, Lens()) for one in (line, far)}
    drawn = scaling_figure(scalings, looks([line, far], EngineLooks()), with_legend=False)
    assert drawn.layout.yaxis.type == "log"
    assert drawn.data[-1].y[0] > 0, "a gap stands on the ground of the axis"
    assert not drawn.layout.showlegend


def test_each_figure_is_drawn_with_the_ideal_and_a_gap_where_a_cell_failed(line):
    for figure in Quantity:
        scaling = scaling_of(line, Axis.CORES, 1, figure, Lens())
        drawn = scaling_figure({line.key: scaling}, looks([line], EngineLooks()))

        ideal, points, crosses = drawn.data
        assert (ideal.name, crosses.name) == ("ideal", "fake 1.0: no numbers")
        assert list(points.x) == [1, 2, 4, 8]
        assert points.y[3] is None and not points.connectgaps
        assert list(crosses.x) == [8]
        assert ideal.y[0] == points.y[0]
        growth = 8 if figure is Quantity.ITEMS_PER_S else 1 / 8
        assert ideal.y[-1] == pytest.approx(points.y[0] * growth)
        assert points.error_y.array[0] > 0
        assert "%{y:,.4~r}" in points.hovertemplate, "large figures stand in full"


def test_batches_are_drawn_with_no_gain_too():
    line = labelled(lines_of([measured("m1", 1, 2, 4.0), measured("m2", 4, 2, 12.0)]))[0]
    scaling = scaling_of(line, Axis.BATCH, 2, Quantity.TIME_PER_BATCH, Lens())

    ideal, no_gain, points = scaling_figure({line.key: scaling}, looks([line], EngineLooks())).data

    assert (ideal.name, no_gain.name) == ("ideal", "no gain")
    assert ideal.y[-1] == pytest.approx(points.y[0])
    assert no_gain.y[-1] == pytest.approx(4 * points.y[0])
    (_, row) = scaling_rows([line], Axis.BATCH, 2, Lens())
    assert row["Speed-up"] == pytest.approx(4 / 3, rel=0.05)


def test_the_first_line_is_the_thickest_and_names_its_best_and_worst(line):
    other = labelled(lines_of([measured("n1", 1, 1, 9.0, "other"), measured("n2", 1, 2, 9.5, "other")]))[0]
    scalings = {one.key: scaling_of(one, Axis.CORES, 1, Quantity.TIME_PER_ITEM, Lens()) for one in (line, other)}

    _, first, second, _ = scaling_figure(scalings, looks([line, other], EngineLooks(("fake", "other")))).data

    assert first.line.width > second.line.width
    assert list(first.text) == ["worst", "", "best", ""]
    above, below = first.textposition[0], first.textposition[2]
    assert (above, below) == ("top center", "bottom center"), "a label would lie on the line that goes on from there"
    assert second.text is None
    assert first.line.color != second.line.color
    assert first.marker.symbol != second.marker.symbol


def test_best_and_worst_are_named_in_words(line):
    said = extremes(scaling_of(line, Axis.CORES, 1, Quantity.TIME_PER_BATCH, Lens()))

    assert said.startswith("Best: 4 cores, ")
    assert "Worst: 1 core, " in said
    assert "(speed-up 1.00×)" in said
    assert re.search(r"speed-up [\d.]+×, [\d.]+ to [\d.]+\)\. Worst", said)
    alone = labelled(lines_of([measured("m1", 1, 2, 4.0)]))[0]
    assert extremes(scaling_of(alone, Axis.CORES, 1, Quantity.TIME_PER_BATCH, Lens())).startswith("One point")


def test_a_best_that_may_be_none_is_not_called_best(line):
    scaling = scaling_of(line, Axis.CORES, 1, Quantity.TIME_PER_BATCH, Lens())
    wide = replace(scaling, best=replace(scaling.best, high=100.0))
    assert extremes(wide).startswith("It cannot be told which is best, as their intervals overlap: 4 cores, ")
    assert place_among(scaling.best, scaling) == "best"
    assert place_among(wide.best, wide) is None
    without = replace(scaling, worst=replace(scaling.worst, low=None, high=None))
    assert extremes(without).startswith("It cannot be told which is best, as not both have an interval: 4 cores, ")


def test_what_cannot_be_told_from_the_best_is_named_beside_it_and_nothing_is_marked(line):
    """Two cores and four are as quick, for all that is known; one core is the slowest for sure."""
    points = [ScalingPoint(1, 10.0, 9.9, 10.1), ScalingPoint(2, 5.02, 4.9, 5.14), ScalingPoint(4, 5.0, 4.88, 5.12)]
    scaling = scale([*points, ScalingPoint(8, None)], Axis.CORES, Quantity.TIME_PER_ITEM)
    said = extremes(scaling)
    assert re.match(r"Best: 4 cores, 5\.000 ms/item \(.*\), or 2 cores, which cannot be told from it\. Worst: 1 ", said)
    assert [place_among(point, scaling) for point in scaling.points] == ["worst", None, None, None]
    _, drawn, _ = scaling_figure({line.key: scaling}, looks([line], EngineLooks())).data
    assert list(drawn.text) == ["worst", "", "", ""]

    rates = [ScalingPoint(1, 10.0, 9, 11), ScalingPoint(2, 11.0, 10, 12), ScalingPoint(4, 40.0, 39, 41)]
    scaling = scale(rates, Axis.CORES, Quantity.ITEMS_PER_S)
    assert extremes(scaling).endswith(
        "Worst: 1 core, 10.00 items/s (speed-up 1.00×), or 2 cores, which cannot be told from it."
    )
    assert [place_among(point, scaling) for point in scaling.points] == [None, None, "best"]


def test_gaps_say_which_cell_and_why(line):
    (gap,) = gaps([line], Axis.CORES, 1)
    assert (gap.line, gap.cell) == ("fake 1.0", "8 cores")
    assert gap.reason.startswith("crashed, SIGSEGV, in compile: ")

    holed = labelled(lines_of([measured("m1", 1, 1, 4.0), measured("m2", 4, 2, 4.0)]))[0]
    assert [(one.cell, one.reason) for one in gaps([holed], Axis.BATCH, 1)] == [("batch 4", "not measured")]


def test_nothing_is_drawn_where_all_failed():
    failed = [invented.failed(f"m{cores}", configuration=Configuration("CPU", 1, cores)) for cores in (1, 2)]
    line = labelled(lines_of(failed))[0]
    scaling = scaling_of(line, Axis.CORES, 1, Quantity.ITEMS_PER_S, Lens())

    assert scaling_figure({line.key: scaling}, looks([line], EngineLooks())) is None
    assert extremes(scaling) == "No point with numbers: nothing to compare."
    assert len(gaps([line], Axis.CORES, 1)) == 2


def test_names_do_not_speak_plotlys_html(line):
    hostile = labelled(lines_of([measured("m1", 1, 1, 4.0, engine="<b>x</b>")]))[0]
    assert looks([hostile], EngineLooks())[hostile.key].name == "&lt;b&gt;x&lt;/b&gt; 1.0"
