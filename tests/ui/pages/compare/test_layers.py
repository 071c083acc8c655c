"""Every layer of both sides: the table, its orders, and filters that stack."""

import time

import pytest

from controller.verdicts.chains import OTHER_ENGINE, chain, conv_nodes, layer, reorder
from enginebench_controller.records import LayerState
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_ui.pages.compare.shapes.layers import (
    Filter,
    FilterCondition,
    FilterField,
    RowOrder,
    conditions_of,
    filter_sentence,
    filter_text,
    layer_table,
    matching,
    ordered,
    parse_filter,
    problem,
    sentences,
)


@pytest.fixture(scope="module")
def pair():
    silent = layer(4, None, state=LayerState.EXECUTED)
    first = chain(
        "a", [layer(0, 5_000_000), layer(1, 1_000_000), layer(2, 3_000_000), layer(3, None), silent, reorder(9, 70_000)]
    )
    second = chain(
        "b",
        [
            layer(0, 2_000_000, precision="u8"),
            layer(1, 1_500_000),
            layer(2, None),
            layer(3, 500_000),
            layer(4, 100_000),
        ],
    )
    return compare_profiles([first, second]).pairs[0]


def names(rows):
    return [row.name for row in rows]


def kept(pair, *texts):
    filters = [parse_filter(text) for text in texts]
    assert None not in filters
    return names(matching(pair.rows, filters))


def test_rows_show_times_precisions_differences_and_a_word_where_one_did_not_run(pair):
    table = layer_table(pair).set_index("Layer")
    assert table.loc["conv0", "Time A (ms)"] == 5.0
    assert (table.loc["conv0", "Precision A"], table.loc["conv0", "Precision B"]) == ("f32", "u8")
    assert table.loc["conv0", "Δ (ms)"] == pytest.approx(-3.0)
    assert table.loc["conv0", "Ratio"] == pytest.approx(0.4)
    assert table.loc["conv0", "Verdict"] == "▼ B better"
    assert table.loc["conv1", "Verdict"] == "▲ B worse"
    assert table.loc["conv2", "Verdict"] == "not executed in B"
    assert table.loc["conv3", "Verdict"] == "not executed in A"
    assert table.loc["conv2", ["Time B (ms)", "Δ (ms)", "Ratio"]].isna().all()


def test_orders_put_the_unknown_last(pair):
    assert names(ordered(pair.rows, RowOrder.FIRST))[:3] == ["conv0", "conv2", "conv1"]
    assert names(ordered(pair.rows, RowOrder.SECOND))[:2] == ["conv0", "conv1"]
    assert names(ordered(pair.rows, RowOrder.RATIO))[:2] == ["conv1", "conv0"]
    assert names(ordered(pair.rows, RowOrder.DIFFERENCE))[:2] == ["conv0", "conv2"], "one-sided rows make a difference"
    assert ordered(reversed(pair.rows), RowOrder.EXECUTION) == pair.rows
    assert ordered(pair.rows, RowOrder.FIRST)[-1].first.time_ns is None


def test_texts_are_contained_or_equal_whatever_their_case(pair):
    assert kept(pair, "name:contains:CONV1") == ["conv1"]
    assert kept(pair, "op:equals:reorder") == ["reorder9"]
    assert kept(pair, "op:equals:reord") == []
    assert kept(pair, "layer:contains:fused2") == ["conv2"]
    assert kept(pair, "pb:equals:u8") == ["conv0"]
    assert kept(pair, "verdict:contains:better") == ["conv0"]


def test_numbers_are_compared_as_they_are_shown(pair):
    assert kept(pair, "ta:gt:1") == ["conv0", "conv2"]
    assert kept(pair, "ta:ge:1.000") == ["conv0", "conv1", "conv2"]
    assert kept(pair, "ta:equals:1") == ["conv1"]
    assert kept(pair, "delta:lt:0") == ["conv0"]
    assert kept(pair, "ratio:gt:1") == ["conv1"]
    assert kept(pair, "tb:le:0,5") == ["conv3", "conv4"]


def test_states_are_kept_apart(pair):
    assert kept(pair, "ta:not_executed") == ["conv3"]
    assert kept(pair, "tb:not_executed") == ["conv2"]
    assert kept(pair, "ta:no_data") == ["conv4"]
    assert kept(pair, "tb:absent") == ["reorder9"]
    assert kept(pair, "tb:executed") == ["conv0", "conv1", "conv3", "conv4"]
    assert set(kept(pair, "delta:no_data")) == {"conv2", "conv3", "conv4", "reorder9"}


def test_all_filters_must_hold(pair):
    assert kept(pair, "name:contains:conv", "ta:gt:1", "tb:executed") == ["conv0"]
    assert kept(pair, "ta:gt:1", "ta:lt:1") == []
    assert matching(pair.rows, ()) == pair.rows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name:gt:1",
        "ta:contains:1",
        "ta:gt:",
        "ta:gt:many",
        "ta:gt:nan",
        "ta:lt:inf",
        "no:equals:1",
        "op:absent",
    ],
)
def test_what_is_no_filter_is_none(text):
    assert parse_filter(text) is None


def test_filters_travel_in_addresses_and_read_as_sentences():
    one = Filter(FilterField.NAME, FilterCondition.CONTAINS, "a:b &c")
    assert parse_filter(filter_text(one)) == one
    assert filter_sentence(one) == "layer contains “a:b &c”"
    assert filter_sentence(Filter(FilterField.TIME_B, FilterCondition.NOT_EXECUTED)) == "time B (ms) not executed"
    assert filter_sentence(Filter(FilterField.RATIO, FilterCondition.AT_MOST, "0.5")) == "ratio ≤ 0.5"


def test_a_person_is_told_what_is_wrong_with_a_filter():
    assert (
        problem(Filter(FilterField.TIME_A, FilterCondition.ABOVE, "fast"))
        == "“fast” is not a number; write for instance 0.5."
    )
    assert problem(Filter(FilterField.NAME, FilterCondition.CONTAINS)) == "Type a value to compare with."
    assert (
        problem(Filter(FilterField.NAME, FilterCondition.ABSENT)) == "“absent from the model” does not go with “layer”."
    )
    assert all(
        problem(Filter(field, condition, "1")) is None for field in FilterField for condition in conditions_of(field)
    )


def test_the_rows_are_summed_up_in_words(pair):
    found = sentences(pair)
    assert found[0].startswith("1 better, 1 worse")
    assert "add up to the totals exactly" in found[1]


def test_names_cannot_become_formulas():
    first = chain("a", [layer(0, 5, name="=1+1")], nodes=())
    assert layer_table(compare_profiles([first, first]).pairs[0])["Layer"].iloc[0] == "'=1+1"


@pytest.mark.slow
def test_three_thousand_layers_are_filtered_and_sorted_at_once():
    count = 3000
    first = chain("a", [layer(place, 1000 + place) for place in range(count)], nodes=conv_nodes(count))
    second = chain(
        "b",
        [layer(place, 2000 - place % 7, engine=OTHER_ENGINE) for place in range(count)],
        nodes=conv_nodes(count),
        engine=OTHER_ENGINE,
    )
    pair = compare_profiles([first, second]).pairs[0]
    begin = time.perf_counter()
    found = ordered(
        matching(pair.rows, [parse_filter("name:contains:9"), parse_filter("ratio:gt:0.5")]), RowOrder.DIFFERENCE
    )
    assert time.perf_counter() - begin < 0.5
    assert 0 < len(found) < count
    assert len(layer_table(pair)) == count
