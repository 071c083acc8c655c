"""One row of layers opened: parameters, fusing, what differs, and what was not executed, in words."""

import pytest

from controller.verdicts.chains import OTHER_ENGINE, chain, layer, reorder
from enginebench_controller.records import LayerState
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_ui.pages.compare.shapes.details import MOST_LISTED, Fusing, detail, fusing_figure, parameter_rows


def opened(first, second, **options):
    (pair,) = compare_profiles([chain("a", first), chain("b", second, **options)]).pairs
    return detail(pair, pair.rows[0])


def test_parameters_of_both_sides_stand_beside_each_other_and_those_that_differ_are_marked():
    found = opened(
        [layer(0, 2_000_000, parameters={"strides": "1,1", "pads": "0"})],
        [
            layer(
                0, 1_000_000, precision="u8", kernel="brgemm", parameters={"strides": "1,1", "pads": "1", "group": "1"}
            )
        ],
    )
    rows = {row["Parameter"]: row for row in parameter_rows(found, only_differing=False)}
    assert (rows["time (ms)"]["A"], rows["time (ms)"]["B"], rows["time (ms)"]["≠"]) == ("2.000", "1.000", "")
    assert (rows["strides"]["A"], rows["strides"]["≠"]) == ("1,1", "")
    assert (rows["pads"]["A"], rows["pads"]["B"], rows["pads"]["≠"]) == ("0", "1", "≠")
    assert (rows["group"]["A"], rows["group"]["B"]) == (None, "1")
    differing = [row["Parameter"] for row in parameter_rows(found, only_differing=True)]
    assert differing == ["precision", "kernel", "group", "pads"]


def test_other_engines_words_are_not_called_differences():
    found = opened([layer(0, 5_000)], [layer(0, 5_000, engine=OTHER_ENGINE, kernel="x")], engine=OTHER_ENGINE)
    assert found.differing == ()


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (LayerState.NOT_EXECUTED, "This layer was not executed in A: the engine ran nothing for its nodes."),
        (
            LayerState.EXECUTED,
            "There is no data for this layer in A: nobody knows whether, or how long, it ran there.",
        ),
    ],
)
def test_a_layer_that_a_side_did_not_run_says_so(state, sentence):
    found = opened([layer(0, None, state=state)], [layer(0, 5_000)])
    assert found.notices == (sentence,)
    assert found.differing == ()
    rows = {row["Parameter"]: row for row in parameter_rows(found, only_differing=False)}
    assert (rows["time (ms)"]["A"], rows["time (ms)"]["B"]) == (None, "0.005")


def test_what_a_model_has_not_is_absent_rather_than_not_executed():
    found = opened([reorder(0, 7_000), layer(1, 5, group=0)], [layer(0, 5)])
    assert found.heading == "reorder0"
    assert found.notices == ("This layer was not executed in B: its model has no such nodes.",)


def test_source_nodes_become_executed_layers():
    found = opened([layer(0, 5_000)], [layer(0, None)])
    fused, none = found.fusing
    assert fused.sentence == "A: 2 source nodes → 1 executed"
    assert fused.nodes == (("Conv", "conv0"), ("Relu", "relu_conv0"))
    assert none.sentence == "B: 2 source nodes → nothing executed"
    assert fusing_figure(none, "#123456") is None


def test_what_the_engine_made_itself_has_no_source():
    made = opened([reorder(0, 7_000), layer(1, 5, group=0)], [layer(0, 5)]).fusing[0]
    assert made.sentence == "A: 1 executed, made by the engine itself"
    assert fusing_figure(made, "#123456") is None


def test_the_drawing_joins_every_node_to_every_layer():
    figure = fusing_figure(Fusing("B", (("Conv", "c"), ("Relu", "r"), ("Add", "a")), ("l1", "l2")), "#123456")
    lines, nodes, layers = figure.data
    assert list(lines.x).count(None) == 6
    assert list(nodes.text) == [" Conv: c ", " Relu: r ", " Add: a "]
    assert layers.marker.color == "#123456"


def test_a_great_fusion_is_counted_rather_than_drawn_whole():
    figure = fusing_figure(Fusing("A", tuple(("Add", f"n{place}") for place in range(40)), ("layer",)), "#123456")
    assert len(figure.data[1].text) == MOST_LISTED
    assert "and 29 more" in figure.data[1].text[-1]


def test_names_with_markup_and_a_kilobyte_of_length_stay_inside():
    figure = fusing_figure(Fusing("A", (("Conv", "<b>" + "x" * 1000),), ("<i>y</i>",)), "#123456")
    assert len(figure.data[1].text[0]) < 40
    assert figure.data[2].text[0] == " &lt;i&gt;y&lt;/i&gt; "
