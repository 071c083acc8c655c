"""An answer as a table and as a chart, whatever the SQL brought."""

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.store.sql_query import QueryColumn, QueryResult
from enginebench_controller.store.store import Store
from enginebench_ui.pages.search.shapes import (
    MOST_COLOURS,
    MOST_POINTS,
    OTHERS,
    Axes,
    ChartKind,
    answer_figure,
    answer_frame,
    caption,
    column_names,
    default_axes,
    number_columns,
    remarks,
)


def answered(columns, *rows):
    return QueryResult(tuple(QueryColumn(*column) for column in columns.items()), rows, duration_s=0.0123)


COLUMNS = {"model": "VARCHAR", "engine": "VARCHAR", "ms": "DOUBLE"}
SPEEDS = answered(
    COLUMNS,
    ("a", "openvino", 1.5),
    ("a", "torch", 3.0),
    ("b", "openvino", None),
)


def test_columns_are_of_one_kind_and_unknown_is_not_zero():
    frame = answer_frame(SPEEDS)
    assert list(frame.columns) == ["model", "engine", "ms"]
    assert frame["ms"].isna().tolist() == [False, False, True]
    assert number_columns(frame) == ("ms",)
    assert caption(SPEEDS) == "3 rows in 12 ms"


def test_columns_of_the_same_name_stay_apart():
    twice = QueryResult((QueryColumn("a", "INTEGER"), QueryColumn("a", "INTEGER")), ((1, 2),))
    assert column_names(twice) == ("a", "a (2)")
    assert answer_frame(twice).iloc[0].tolist() == [1, 2]


def test_numbers_that_a_browser_would_change_are_text():
    frame = answer_frame(answered({"id": "BIGINT", "n": "BIGINT"}, (2**53 + 1, 5)))
    assert frame["id"][0] == "9007199254740993"
    assert frame["n"][0] == 5


def test_lists_instants_truth_and_formulas_are_shown_as_what_they_are():
    kinds = {"list": "BIGINT[]", "at": "TIMESTAMP", "yes": "BOOLEAN", "name": "VARCHAR", "none": "VARCHAR"}
    frame = answer_frame(answered(kinds, ([1, 2], "2024-05-06 07:08:09.5", True, "=1+1", None)))
    assert frame["list"][0] == "[1, 2]"
    assert frame["at"][0].isoformat() == "2024-05-06T07:08:09.500000"
    assert bool(frame["yes"][0]) is True
    assert frame["name"][0] == "'=1+1"
    assert frame["none"].isna().all()
    assert not number_columns(frame)


NESTED = {
    "list of dates": "[DATE '2024-05-06', NULL]",
    "list of instants": "[TIMESTAMP '2024-05-06 07:08:09']",
    "list of instants with zone": "[TIMESTAMPTZ '2024-05-06 07:08:09+00']",
    "list of lists": "[[DATE '2024-05-06']]",
    "array of dates": "array_value(DATE '2024-05-06', DATE '2024-05-07')",
    "structure": "{'at': DATE '2024-05-06'}",
    "map": "MAP {DATE '2024-05-06': TIMESTAMP '2024-05-06 07:08:09'}",
    "union": "union_value(at := DATE '2024-05-06')",
}


@pytest.mark.slow
@pytest.mark.parametrize("expression", NESTED.values(), ids=NESTED)
def test_instants_within_something_are_text(expression, tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())

    frame = answer_frame(store.query(f"SELECT {expression} AS nested, DATE '2024-05-06' AS day"))

    assert "2024-05-06" in frame["nested"][0]
    assert frame["day"][0].isoformat() == "2024-05-06T00:00:00"


def test_an_answer_without_rows_has_its_columns():
    assert list(answer_frame(answered({"a": "INTEGER"})).columns) == ["a"]
    assert default_axes(answer_frame(answered({"a": "INTEGER"}))) is None


def test_a_first_chart_takes_texts_along_and_numbers_up():
    assert default_axes(answer_frame(SPEEDS)) == Axes(ChartKind.BARS, "model", "ms", "engine")
    pairs = answered({"batch": "INTEGER", "ms": "DOUBLE"}, (1, 2.0), (4, 5.0))
    assert default_axes(answer_frame(pairs)) == Axes(ChartKind.POINTS, "batch", "ms")
    assert default_axes(answer_frame(answered({"name": "VARCHAR"}, ("a",)))) is None


def test_numbers_that_rows_are_grouped_by_make_colours_and_are_not_drawn_up():
    columns = {"engine": "VARCHAR", "cores": "INTEGER", "ms": "DOUBLE"}
    frame = answer_frame(answered(columns, ("a", 1, 2.5), ("a", 2, 1.5), ("b", 1, 3.5)))
    assert default_axes(frame) == Axes(ChartKind.BARS, "engine", "ms", "cores")


def test_a_series_is_drawn_for_each_colour_and_rows_without_a_number_are_told():
    axes = Axes(ChartKind.BARS, "model", "ms", "engine")
    frame = answer_frame(SPEEDS)
    figure = answer_figure(frame, axes, EngineLooks())
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in figure.data] == [
        ("openvino", ["a"], [1.5]),
        ("torch", ["a"], [3.0]),
    ]
    assert len({trace.marker.color for trace in figure.data}) == 2
    assert remarks(frame, axes) == ("1 rows without a value on an axis are not drawn.",)


def test_texts_lie_along_in_the_order_of_the_rows_whatever_their_colours():
    ordered = answer_frame(answered(COLUMNS, ("a", "torch", 1.0), ("b", "openvino", 2.0), ("c", "torch", 3.0)))
    figure = answer_figure(ordered, Axes(ChartKind.BARS, "model", "ms", "engine"), EngineLooks())
    assert [list(trace.x) for trace in figure.data] == [["a", "c"], ["b"]], "Plotly would place them a, c, b"
    assert list(figure.layout.xaxis.categoryarray) == ["a", "b", "c"]


def test_names_that_differ_are_places_that_do_however_alike_they_begin():
    attention = "/bert/encoder/layer.0/attention/output/"
    names = [f"{attention}{end}" for end in ("dense/MatMul", "dense/Add", "LayerNorm/Add")]
    names += [f"{'x' * 30}{middle}{'y' * 30}" for middle in ("left", "right")]
    frame = answer_frame(answered({"layer": "VARCHAR", "ms": "INTEGER"}, *((name, 1) for name in names)))
    (bars,) = answer_figure(frame, Axes(ChartKind.BARS, "layer", "ms"), EngineLooks()).data
    assert len(set(bars.x)) == len(names)
    assert bars.x[0].endswith("dense/MatMul")


def test_bars_over_each_other_are_told():
    frame = answer_frame(answered({"x": "VARCHAR", "y": "INTEGER"}, ("a", 1), ("a", 2)))
    assert "lie over each other" in remarks(frame, Axes(ChartKind.BARS, "x", "y"))[0]
    assert not remarks(frame, Axes(ChartKind.POINTS, "x", "y"))


def test_the_rarest_of_too_many_colours_share_one():
    rows = [(f"engine {number}", number) for number in range(MOST_COLOURS + 5)]
    frame = answer_frame(answered({"engine": "VARCHAR", "y": "INTEGER"}, *rows))
    axes = Axes(ChartKind.POINTS, "y", "y", "engine")
    names = [trace.name for trace in answer_figure(frame, axes, EngineLooks()).data]
    assert len(names) == MOST_COLOURS
    assert OTHERS in names
    assert any(OTHERS in sentence for sentence in remarks(frame, axes))


def test_no_more_points_than_a_browser_can_draw():
    frame = answer_frame(answered({"x": "INTEGER"}, *((number,) for number in range(MOST_POINTS + 1))))
    axes = Axes(ChartKind.LINES, "x", "x")
    assert len(answer_figure(frame, axes, EngineLooks()).data[0].x) == MOST_POINTS
    assert remarks(frame, axes) == ("The first 5,000 rows are drawn.",)


@pytest.mark.parametrize("name", ["<b>bold</b>", "x" * 1000])
def test_values_and_names_are_only_text_and_no_longer_than_fits(name):
    frame = answer_frame(answered({name: "VARCHAR", "y": "INTEGER"}, (name, 1)))
    figure = answer_figure(frame, Axes(ChartKind.BARS, name, "y", name), EngineLooks())
    shown = [figure.data[0].name, figure.data[0].x[0], figure.layout.xaxis.title.text]
    assert all("<" not in text and len(text) <= 60 for text in shown)


def test_instants_lie_on_an_axis_of_time():
    frame = answer_frame(answered({"at": "TIMESTAMP_NS", "y": "INTEGER"}, ("2024-05-06 07:08:09", 1)))
    assert answer_figure(frame, Axes(ChartKind.POINTS, "at", "y"), EngineLooks()).layout.xaxis.type == "date"
