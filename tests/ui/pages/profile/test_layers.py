"""Layers are shown in the order of execution with all that is known of them, and nothing that is not."""

from dataclasses import replace

import pytest

import invented_profiles
import invented_sweeps
from controller.verdicts.pruning.passes import layer
from enginebench_controller.graph.roofline import Note
from enginebench_controller.records import LayerState
from enginebench_ui.pages.profile.shapes.details import layer_details, sparsity_figure
from enginebench_ui.pages.profile.shapes.layers import (
    Scale,
    layer_views,
    measured_datasets,
    node_views,
    theoretical_datasets,
)
from enginebench_ui.pages.profile.shapes.prospects import nearest_step, savings, sweep_of
from enginebench_ui.pages.profile.shapes.results import (
    MOST_MARKS,
    Drawing,
    hover_text,
    largest_text,
    layer_figure,
    layer_rows,
)
from enginebench_ui.pages.profile.shapes.types import MOST_BARS, type_figure, type_rows, type_views

HOSTILE = "<img src=x onerror=alert(1)> **b** =1+1 " + "n" * 1000
BASELINE = measured_datasets([0.9])["Baseline ms"]
FLOPS = measured_datasets([])["FLOPS"]


@pytest.fixture
def five():
    """In five states of knowledge."""
    return layer_views(invented_profiles.profile())


@pytest.fixture
def matched():
    return layer_views(invented_sweeps.baseline(), invented_sweeps.peaks())


def many(count=3000):
    profile = invented_sweeps.baseline()
    layers = [layer(f"layer{place}", 0.1, None, type_=f"T{place % 40}", order=place) for place in range(count)]
    return layer_views(replace(profile, layers=tuple(layers), nodes=()))


def test_a_layer_names_its_nodes_weights_and_who_made_it(matched):
    conv, _, _, made = matched

    assert (conv.nodes, conv.weights, conv.made_by) == (("conv0",), ("w0",), "")
    assert (made.nodes, made.made_by) == ((), "engine-made: reorder")
    assert (conv.time_ns, conv.share) == (9e6, pytest.approx(0.3))


def test_the_largest_layers_are_named_with_their_shares():
    times = {"quick": 1.0, "slow": 5.0, "unknown": None, "middle": 2.0, "n" * 90: 2.0}
    layers = tuple(layer(name, time, None, order=place) for place, (name, time) in enumerate(times.items()))
    views = layer_views(replace(invented_sweeps.baseline(), layers=layers, nodes=()))

    named = largest_text(views, BASELINE)
    assert named.startswith("Largest: slow (50.0 %), nnn")
    assert named.endswith(" (20.0 %), middle (20.0 %)") and len(named) < 120
    assert largest_text(views[:3], BASELINE) == ""
    assert largest_text(views, FLOPS) == ""


def test_layers_stand_in_the_order_of_execution_and_keep_their_places():
    profile = invented_profiles.profile()
    turned = replace(profile, layers=profile.layers[::-1])

    assert [(one.depth, one.position) for one in layer_views(turned)][:2] == [(1, 4), (2, 3)]


def test_what_deepsparse_hands_over_is_named():
    profile = replace(invented_profiles.profile(), layers=(layer("x", 1, None, type_="ORT", category="engine_made"),))
    (view,) = layer_views(profile)
    assert (view.made_by, view.handed_over) == ("run by ONNX Runtime", True)


def test_only_layers_that_ran_have_a_time(five):
    assert [one.time_ns for one in five][2:] == [None, None, None]
    rows = layer_rows(five, BASELINE)
    assert [row["Baseline ms"] for row in rows][2:] == [None, None, None]
    assert [row["State"] for row in rows] == ["executed", "executed", "not executed", "optimized away", "no data"]


def test_the_datasets_are_baseline_each_sparsity_flops_and_count():
    assert list(measured_datasets([0.9, 0.4, 0.0])) == [
        "Baseline ms", "Pruned 0.4 ms", "Pruned 0.9 ms", "FLOPS", "Count",
    ]  # fmt: skip
    assert list(theoretical_datasets()) == ["FLOPS", "Parameters", "Bytes", "Count"]


def test_types_are_summed_and_unknown_work_is_no_zero(five):
    conv, reorder, dropout = type_views(five, BASELINE)
    assert (conv.type, conv.value, conv.known) == ("Conv", pytest.approx(6e-6), 1)
    assert reorder.is_engine_made
    assert (dropout.value, dropout.share, dropout.layers, dropout.known) == (None, None, 3, 0)

    assert {view.value for view in type_views(five, FLOPS)} == {None}
    assert type_figure(type_views(five, FLOPS), FLOPS, Scale.VALUES) is None


def test_a_type_counts_layers_and_a_layer_its_nodes(five):
    count = measured_datasets([])["Count"]
    assert [(view.type, view.value) for view in type_views(five, count)] == [
        ("Dropout", 3),
        ("Conv", 1),
        ("Reorder", 1),
    ]
    assert layer_rows(five, count)[0]["Count"] == 2


def test_pruning_is_told_by_type_and_what_the_engine_made_gains_nothing(matched):
    sweep = sweep_of(invented_sweeps.passes())
    saved = savings(invented_sweeps.baseline(), sweep, 0.9)
    rows = type_rows(type_views(matched, BASELINE, saved), BASELINE, with_savings=True)

    conv = next(row for row in rows if row["Type"] == "Conv")
    made = next(row for row in rows if row["Type"] == "Reorder")
    assert (conv["Saves (ms)"], conv["Saves (%)"]) == (21.0, pytest.approx(100 * 21 / 32))
    assert (made["Saves (ms)"], made["Saves (%)"], made["Note"]) == (None, None, "engine-made: reorder, no saving")


def test_savings_are_for_the_sparsity_looked_at_else_the_step_nearest_to_the_goal():
    sweep = sweep_of(invented_sweeps.passes())
    assert (nearest_step(sweep, 0.5), nearest_step(sweep, None)) == (0.5, 0.9)


@pytest.mark.parametrize("scale", Scale)
def test_bars_of_types_have_the_scale_asked_for(matched, scale):
    figure = type_figure(type_views(matched, BASELINE), BASELINE, scale)
    (bars,) = figure.data

    assert bars.y[0] == "Conv" and bars.y[-1] == "Reorder *"
    assert bars.x[0] == pytest.approx(100 * 28 / 30 if scale is Scale.PERCENT else 28)
    assert figure.layout.xaxis.type == ("log" if scale is Scale.LOG else None)


def test_many_types_are_drawn_as_one():
    figure = type_figure(type_views(many(), BASELINE), BASELINE, Scale.VALUES)
    assert len(figure.data[0].y) == MOST_BARS
    assert figure.data[0].y[-1] == "27 other types"


@pytest.mark.parametrize("drawing", Drawing)
@pytest.mark.parametrize("scale", Scale)
def test_every_known_layer_is_drawn_once_at_its_depth(matched, drawing, scale):
    figure = layer_figure(matched, BASELINE, scale, drawing)
    marks = [trace for trace in figure.data if trace.hoverinfo != "skip"]

    assert sorted(depth for trace in marks for depth in trace.x) == [1, 2, 3, 4]
    assert figure.layout.yaxis.type == ("log" if scale is Scale.LOG else None)


def test_layers_that_never_ran_are_no_gap_in_the_line_and_untold_ones_are(five):
    line, *_ = layer_figure(five, BASELINE, Scale.VALUES, Drawing.LINE).data
    assert (line.x, line.y) == ((1, 2, 5), (pytest.approx(6e-6), pytest.approx(10e-6 / 3), None))


def test_thousands_of_layers_are_one_line_of_as_many_points():
    layers = many()
    for drawing in Drawing:
        (trace,) = layer_figure(layers, BASELINE, Scale.VALUES, drawing).data
        assert (trace.mode, len(trace.x)) == ("lines", 3000)
    assert len(layers) > MOST_MARKS


def test_the_selected_layer_is_marked(matched):
    *_, ring = layer_figure(matched, BASELINE, Scale.VALUES, Drawing.BARS, chosen=2).data
    assert (ring.name, ring.x, ring.y) == ("selected", (3,), (18.0,))


def test_a_layer_without_any_known_figure_is_not_drawn(five):
    assert layer_figure(five, FLOPS, Scale.VALUES, Drawing.LINE) is None
    assert layer_figure((), BASELINE, Scale.VALUES, Drawing.LINE) is None


def test_a_hover_tells_id_type_weight_precision_kernel_and_roof(matched):
    said = hover_text(replace(matched[0], kernel="jit"), BASELINE)
    for text in ("#1 layer0", "Conv", "9.00 ms", "ONNX id: conv0", "weight: w0", "precision: f32", "kernel: jit"):
        assert text in said


def test_shares_of_the_roofline_stand_in_hover_table_and_details():
    profile = invented_sweeps.baseline()
    layers = tuple(replace(one, flops=2_000_000, data_bytes=1_000) for one in profile.layers)
    views = layer_views(replace(profile, layers=layers), invented_sweeps.peaks())

    assert "of its roofline: 22 % (compute-bound)" in hover_text(views[0], BASELINE)
    row = layer_rows(views, BASELINE)[0]
    assert (row["Of roof (%)"], row["Bound by"]) == (pytest.approx(100 * 2 / 9), "compute")
    assert ("Of its roofline", "22 % (compute-bound)") in layer_details(views[0]).figures


def test_every_note_on_a_layer_above_its_roof_has_words_in_the_details():
    profile = invented_sweeps.baseline()
    layers = tuple(replace(one, flops=2_000_000, data_bytes=1_000) for one in profile.layers)
    view, *_ = layer_views(replace(profile, layers=layers), invented_sweeps.peaks())
    for note in Note:
        noted = replace(view, place=replace(view.place, notes=(note,)))
        (remark,) = [value for heading, value in layer_details(noted).figures if heading == "Remark"]
        assert remark != note.value and len(remark) > 20


def test_details_say_unknown_and_in_words_why_there_is_no_time(five):
    conv, _, silent, *_ = map(layer_details, five)

    assert ("FLOPs", "unknown") in conv.figures
    assert ("ONNX id", "Conv_0, Odd_1") in conv.identity
    assert conv.engine == (("strides", "2,2"),)
    assert silent.identity[0] == ("State", "not executed: the engine kept the layer and did not run it")
    assert not [value for heading, value in silent.figures if heading == "Mean time"]


def test_a_layer_shows_its_measured_time_over_the_zeros(matched):
    series = sweep_of(invented_sweeps.passes()).prospects.series
    (curve,) = sparsity_figure(matched[2], series).data

    assert (curve.x, curve.y) == ((0, 50, 90), (20, 12, 5))
    assert "%{y:,.3~r} ms" in curve.hovertemplate, "%{y:.3g} would be 1.23e+3 for 1,230 ms"
    assert sparsity_figure(matched[3], series) is None


def test_hostile_and_very_long_names_stay_text_and_short_in_charts(five):
    layers = tuple(replace(one, name=HOSTILE, type=HOSTILE, nodes=(HOSTILE,), weights=(HOSTILE,)) for one in five)
    figures = [
        type_figure(type_views(layers, BASELINE), BASELINE, Scale.VALUES),
        *(layer_figure(layers, BASELINE, Scale.VALUES, drawing) for drawing in Drawing),
    ]
    for figure in figures:
        drawn = figure.to_json()
        assert "<img" not in drawn and "\\u003cimg" not in drawn
        assert "n" * 100 not in drawn
    assert len(layer_details(layers[0]).title) < 100
    assert layer_rows([replace(layers[0], name="=1+1")], BASELINE)[0]["Layer"] == "'=1+1"


def test_nodes_that_run_are_shown_and_folded_ones_are_not():
    views = node_views(invented_profiles.nodes())

    assert [(view.depth, view.type) for view in views] == [(1, "Conv"), (2, "org.odd.Odd")]
    assert (views[0].data_bytes, views[1].data_bytes, views[1].flops) == (2144, None, None)


@pytest.mark.parametrize("label", theoretical_datasets())
def test_every_theoretical_figure_can_be_drawn(label):
    views = node_views(invented_profiles.nodes())
    dataset = theoretical_datasets()[label]

    assert type_figure(type_views(views, dataset), dataset, Scale.LOG).data
    assert layer_rows(views, dataset)


def test_a_state_of_its_own_for_each_layer(five):
    assert [view.state for view in five] == [LayerState.EXECUTED] * 2 + [
        LayerState.NOT_EXECUTED, LayerState.OPTIMIZED_AWAY, LayerState.NO_DATA,
    ]  # fmt: skip
