"""Layer types of both sides, and the chart that some of them can be left out of."""

import pytest

from controller.verdicts.chains import ENGINE, OTHER_ENGINE, chain, layer, reorder
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_ui.pages.compare.shapes.summary import (
    INCLUDED,
    distribution_figure,
    excluded_after,
    hidden_sentence,
    type_rows,
    waterfall_figure,
)

LOOKS = dict(zip("AB", EngineLooks().of_sides("onnxruntime", "openvino"), strict=True))


@pytest.fixture
def types():
    first = chain("a", [layer(0, 6_000_000), layer(1, 1_000_000), reorder(2, 3_000_000)])
    second = chain(
        "b",
        [layer(0, 2_000_000, engine=OTHER_ENGINE, precision="u8"), layer(1, 2_000_000, engine=OTHER_ENGINE)],
        engine=OTHER_ENGINE,
    )
    return compare_profiles([first, second]).pairs[0].types


def test_the_waterfall_leads_from_the_time_of_a_to_that_of_b(types):
    (steps,) = waterfall_figure(types).data
    assert (steps.x[0], steps.x[-1]) == ("A", "B")
    assert (steps.y[0], steps.y[-1]) == (10.0, 4.0)
    assert dict(zip(steps.x[1:-1], steps.y[1:-1], strict=True)) == {"Conv": -3.0, "reorder": -3.0}
    assert sum(steps.y[:-1]) == pytest.approx(steps.y[-1])


def test_types_come_from_most_to_least_time_with_layers_by_precision(types):
    conv, reorders = type_rows(types, ())
    assert (conv["Type"], conv["A (ms)"], conv["A (%)"], conv["A layers"]) == ("Conv", 7.0, 70.0, "f32 ×2")
    assert (conv["B (ms)"], conv["B layers"]) == (4.0, "f32 ×1, u8 ×1")
    assert reorders["Type"] == "reorder"


def test_a_type_that_a_side_has_not_is_unknown_and_never_0(types):
    _, reorders = type_rows(types, ())
    assert reorders["B (ms)"] is reorders["B (%)"] is reorders["B layers"] is None
    assert distribution_figure(types, (), LOOKS).data[1].x[1] is None


def test_leaving_a_type_out_rescales_both_bars_and_keeps_the_true_percentages(types):
    whole, part = distribution_figure(types, (), LOOKS), distribution_figure(types, {"Conv"}, LOOKS)
    assert list(part.data[0].y) == ["reorder"]
    assert part.data[0].text[0] == whole.data[0].text[1] == "30.0%"
    assert part.layout.xaxis.range[1] < whole.layout.xaxis.range[1]
    assert part.layout.xaxis.range[1] == pytest.approx(0.3 * 1.25)
    conv, reorders = type_rows(types, {"Conv"})
    assert (conv[INCLUDED], conv["A (%)"], reorders[INCLUDED]) == (False, 70.0, True)
    assert hidden_sentence(types, {"Conv"}) == ("The chart leaves out 1 of 2 types: 70.0% of A's time, 100.0% of B's.")


def test_with_all_left_out_there_is_no_chart(types):
    assert distribution_figure(types, {"Conv", "reorder"}, LOOKS) is None
    assert hidden_sentence(types, ()) is None


def test_edited_check_marks_become_the_list_of_what_is_left_out():
    names = ["Conv", "reorder", "Pool"]
    assert excluded_after(names, (), {0: {INCLUDED: False}}) == ["Conv"]
    assert excluded_after(names, ("Conv", "gone"), {0: {INCLUDED: True}, 2: {INCLUDED: False}}) == ["Pool"]
    assert excluded_after(names, ("Conv",), {7: {INCLUDED: False}, 1: {}}) == ["Conv"]


def test_long_and_marked_up_names_stay_inside():
    first = chain("a", [layer(0, 5, engine=ENGINE, type="<i>" + "x" * 1000)], nodes=())
    (pair,) = compare_profiles([first, first]).pairs
    figure = distribution_figure(pair.engine_types, (), LOOKS)
    assert figure.data[0].y[0].startswith("&lt;i&gt;")
    assert len(figure.data[0].y[0]) < 40
