"""Experiments as points: A, B, what is drawn, the sweet spot and what the page says of them."""

import math

import pytest

from enginebench_controller.files.palette import EngineLooks
from enginebench_ui.pages.compare.shapes.points import (
    DRAWN,
    NO_POINT,
    NOT_DRAWN,
    alike,
    configurations,
    experiment_rows,
    lacking,
    lost_sentence,
    point_text,
    points_figure,
    selected,
    side,
    spot_sentence,
    toggled,
)
from enginebench_ui.shared.charts import SWEET_SPOT
from invented_experiments import experiment

LOOKS = dict(zip("AB", EngineLooks().of_sides("onnxruntime", "openvino"), strict=True))
QUICK, MIDDLE, SLOW = experiment("q", 2, 50), experiment("m", 5, 80, batch=2), experiment("s", 9, 90, batch=4)
FAILED = experiment("f", None)
ALL = (QUICK, MIDDLE, SLOW, FAILED)


def made(experiments=ALL, named="", hidden=(), threshold_ms=None, letter="A"):
    return side(letter, experiments, named, hidden, threshold_ms)


def trace(figure, name):
    return next(one for one in figure.data if one.name == name)


def test_the_fastest_experiment_is_preselected():
    assert made().chosen == SLOW
    assert made(named=MIDDLE.id[:12]).chosen == MIDDLE
    assert made(named="feedfeedfeed").chosen == SLOW, "a name that means nothing is no choice"


def test_a_point_names_its_requests_where_they_overlap():
    assert point_text(QUICK) == "batch 1, 1 stream, 2 cores, f32"
    overlapping = experiment("o", 3, 400, load="async", requests=4)
    assert point_text(overlapping) == "batch 1, 1 stream, 2 cores, f32, 4 requests in flight"


def test_two_sides_begin_at_one_configuration():
    """The fastest of the other side overlaps requests, and what is told of the two would be told of that."""
    overlapping = experiment("o", 3, 400, load="async", requests=4)
    sides = made(), made([overlapping, experiment("p", 4, 45), experiment("r", 7, 60, batch=2)], letter="B")
    assert [one.chosen.id[0] for one in alike(sides, ())] == ["m", "r"]
    assert [one.chosen.id[0] for one in alike((sides[1], sides[0]), ())] == ["r", "m"]


def test_a_point_that_was_chosen_stays_and_the_other_side_follows():
    chosen, other = made(named="q"), made([experiment("p", 4, 45), experiment("r", 7, 60, batch=2)], letter="B")
    assert [one.chosen.id[0] for one in alike((chosen, other), {"A"})] == ["q", "p"]
    assert alike((chosen, other), {"A", "B"}) == (chosen, other)


def test_sides_that_share_no_configuration_begin_at_their_fastest():
    sides = made(), made([experiment("p", 4, 45, cores=7)], letter="B")
    assert alike(sides, ()) == sides


def test_a_point_of_a_link_that_is_gone_is_told():
    assert lost_sentence(made(named="feedfeedfeed")) == (
        "There is no measurement feedfeedfeed of project A in this store; another one is shown."
    )
    assert lost_sentence(made([], named="feedfeedfeed")).endswith("; none is shown.")
    assert {lost_sentence(made(named=named)) for named in ("", NO_POINT, MIDDLE.id[:12], FAILED.id[:12])} == {None}


def test_a_side_says_what_it_lacks():
    assert lacking(made()) is None
    assert lacking(made(named=NO_POINT)) == "A has no point: select a row in its table."
    assert "the engine crashed" in lacking(made(named=FAILED.id[:12]))
    assert "none of its experiments" in lacking(made([FAILED], letter="B"))
    assert lacking(made([], letter="B")) == "B has no point: nothing of this project was measured yet."


def test_a_check_mark_adds_and_removes_a_point():
    hidden = toggled((), SLOW.id)
    one = made(hidden=hidden)
    assert one.drawn == (QUICK, MIDDLE)
    assert one.chosen == MIDDLE, "a hidden point is not chosen unasked"
    assert toggled(hidden, SLOW.id) == frozenset()
    assert selected(hidden, SLOW.id) == frozenset()


def test_the_sweet_spot_is_among_the_drawn_points_within_the_threshold():
    assert made(threshold_ms=5.0).spot == MIDDLE
    assert made(threshold_ms=5.0, hidden=toggled((), MIDDLE.id)).spot == QUICK
    assert made(threshold_ms=1.0).spot is None
    assert made(threshold_ms=0.0).spot is made().spot is None


def test_a_threshold_copied_from_the_table_holds_for_its_own_point():
    one = experiment("x", 4.1234567, 70)
    assert made([one], threshold_ms=4.123).spot == one
    assert made([one], threshold_ms=4.122).spot is None


def test_the_sweet_spot_is_told_in_words():
    assert spot_sentence(made(), None) is None
    assert spot_sentence(made(threshold_ms=0.0), 0.0) is None
    assert spot_sentence(made(threshold_ms=1.0), 1.0) == "A has no sweet spot: none of its points stays within 1 ms."
    own = spot_sentence(made(named=MIDDLE.id, threshold_ms=6.0), 6.0)
    assert own.startswith("A's sweet spot, which is A: 80.00 items/s at 5.000 ms (batch 2, 1 stream, 2 cores, f32)")


def test_large_numbers_stand_in_full():
    one = experiment("x", 12345.678, 23456.7)
    assert "23,457 items/s at 12,345.678 ms" in spot_sentence(made([one], threshold_ms=2e4), 2e4)
    assert "within 1,234.567 ms" in spot_sentence(made([one], threshold_ms=1234.567), 1234.567)
    figure = points_figure([made([one])], 1234.567, LOOKS)
    assert not any("g}" in (trace.hovertemplate or "") for trace in figure.data)
    assert figure.layout.annotations[0].text == "≤ 1,234.567 ms"


def test_rows_say_what_is_drawn_chosen_and_failed():
    rows = experiment_rows(made(named=MIDDLE.id, hidden=toggled((), QUICK.id), threshold_ms=6.0))
    assert [row["Drawn"] for row in rows] == [NOT_DRAWN, DRAWN, DRAWN, None]
    assert [row["Point"] for row in rows] == [None, "A · sweet spot", None, None]
    assert rows[3]["Status"] == "failed: the engine crashed"
    assert rows[3]["Items/s"] is rows[3]["Median (ms)"] is rows[3]["± ms (%)"] is None
    assert rows[0]["± items/s (%)"] == pytest.approx(2.0)
    assert "Precision" not in rows[0], "all are alike in it"


def test_axes_that_vary_have_a_column():
    rows = experiment_rows(made([QUICK, experiment("b", precision="bf16", load="async")]))
    assert [row["Precision"] for row in rows] == ["f32", "bf16"]
    assert [row["Load"] for row in rows] == ["sync", "async"]


def test_a_configuration_is_all_but_batch_and_streams():
    other = experiment("o", 3, 70, cores=1)
    found = configurations((SLOW, QUICK, other, MIDDLE))
    assert [one.inferences for one in found] == [(QUICK, MIDDLE, SLOW), (other,)]
    assert [one.best for one in found] == [SLOW, other]


def test_inferences_are_round_and_configurations_square_points():
    other = experiment("o", 3, 70, cores=1)
    figure = points_figure([made([*ALL, other])], None, LOOKS)
    inferences, configured = figure.data[0], trace(figure, "A: configurations, the best of each")
    assert (inferences.marker.symbol, list(inferences.x)) == ("circle", [2, 5, 9])
    assert (configured.marker.symbol, list(configured.x), configured.line.dash) == ("square", [3, 9], "dot")


def test_both_sides_stand_on_the_same_axes_in_their_colours():
    figure = points_figure([made(), made([experiment("x", 20, 10)], letter="B")], None, LOOKS)
    assert trace(figure, "A").marker.color == LOOKS["A"].colour
    assert trace(figure, "B").marker.color == LOOKS["B"].colour
    assert figure.layout.xaxis.range[1] > 20
    assert figure.layout.yaxis.range[1] > 90


def test_values_far_apart_stand_on_logarithmic_axes():
    """Batches of 1 to 16384 took 0.02 to 415 ms: on linear axes all but the last stood on one another."""
    cells = [experiment(f"{power:02}", 0.02 * 2**power, 50_000 / 1.5**power, batch=2**power) for power in range(15)]
    layout = points_figure([made(cells), made(letter="B")], 5.0, LOOKS).layout
    for axis, values in ((layout.xaxis, (0.02, 0.02 * 2**14)), (layout.yaxis, (50, 50_000))):
        assert (axis.type, axis.title.text.endswith("(log)")) == ("log", True)
        assert 10 ** axis.range[0] < values[0] < values[1] < 10 ** axis.range[1]
    assert (layout.shapes[0].x0, layout.shapes[0].x1) == (5.0, 5.0), "a shape stands at values"
    assert layout.annotations[0].x == pytest.approx(math.log10(5)), "what is written stands at their logarithms"


def test_a_threshold_below_all_points_is_in_sight():
    cells = [experiment("q", 2, 50), experiment("s", 200, 90)]
    assert 10 ** points_figure([made(cells)], 0.5, LOOKS).layout.xaxis.range[0] < 0.5


def test_each_axis_is_logarithmic_for_itself_and_none_where_a_point_would_be_lost_on_it():
    layout = points_figure([made([experiment("q", 2, 50), experiment("s", 200, 90)])], None, LOOKS).layout
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", None)
    assert layout.yaxis.range[0] == 0
    layout = points_figure(
        [made([experiment("q", 2, 0.0), experiment("s", 200, 90), experiment("t", 3, 1)])], None, LOOKS
    ).layout
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", None)


def test_a_sweet_spot_has_a_blue_ring_and_keeps_the_letter_where_it_is_a():
    apart = points_figure([made(threshold_ms=5.0)], 5.0, LOOKS)
    spot = trace(apart, "sweet spot of A")
    assert (spot.marker.line.color, spot.text, list(spot.x)) == (SWEET_SPOT, None, [5])
    assert trace(apart, "A").marker.color == LOOKS["A"].colour
    assert apart.layout.shapes[0].x0 == 5.0

    same = points_figure([made(named=MIDDLE.id, threshold_ms=5.0)], 5.0, LOOKS)
    both = trace(same, "A, its sweet spot")
    assert (both.marker.line.color, tuple(both.text)) == (SWEET_SPOT, ("A",))
    assert both.marker.color == LOOKS["A"].colour
    assert not [one for one in same.data if one.name == "sweet spot of A"]


def test_without_points_there_is_no_chart():
    assert points_figure([made([FAILED]), made([], letter="B")], 5.0, LOOKS) is None


def test_names_cannot_speak_to_the_chart():
    figure = points_figure([made([experiment("x", input_set="<b>bold</b>")])], None, LOOKS)
    assert "&lt;b&gt;" in figure.data[0].customdata[0]


def test_two_hundred_cells_are_one_line_a_configuration():
    cells = [
        experiment(f"{batch:02}{cores:02}", batch, 10 * cores, batch=batch, cores=cores)
        for batch in range(1, 21)
        for cores in range(1, 11)
    ]
    one = made(cells)
    assert len(configurations(one.drawn)) == 10
    assert len(experiment_rows(one)) == 200
