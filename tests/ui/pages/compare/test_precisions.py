"""Precisions: each layer is charged to its own."""

import pytest

from controller.verdicts.chains import chain, layer
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_ui.pages.compare.shapes.summary import (
    follower_rows,
    followers,
    precision_figure,
    precision_shares,
    share_rows,
    transition_rows,
)

LOOKS = dict(zip("AB", EngineLooks().of_sides("onnxruntime", "openvino"), strict=True))

SEQUENCE = [
    layer(0, 1_000_000, precision="FP32"),
    layer(1, 2_000_000, precision="u8"),
    layer(2, 4_000_000, precision="U8"),
    layer(3, 8_000_000, precision="I8"),
    layer(4, 16_000_000, precision="bf16"),
    layer(5, 32_000_000, precision=""),
    layer(6, None, precision="f16"),
]


def test_a_layer_counts_for_its_own_precision_also_right_after_a_transition():
    found = {one.precision: one for one in precision_shares(SEQUENCE)}
    assert {name: one.time_ns / 1e6 for name, one in found.items()} == {
        "f32": 1.0,
        "u8": 6.0,
        "i8": 8.0,
        "bf16": 16.0,
        "unknown": 32.0,
    }
    assert found["u8"].share == pytest.approx(6 / 63)
    assert sum(one.share for one in found.values()) == pytest.approx(1.0)
    assert found["u8"].layers == 2
    assert "f16" not in found, "it did not run"


def test_transitions_of_a_known_sequence():
    assert followers(reversed(SEQUENCE)) == {
        ("f32", "u8"): 1,
        ("u8", "u8"): 1,
        ("u8", "i8"): 1,
        ("i8", "bf16"): 1,
        ("bf16", "unknown"): 1,
    }
    rows = {row["From"]: row for row in follower_rows(SEQUENCE)}
    assert rows["u8"]["to i8"] == rows["u8"]["to u8"] == 1
    assert rows["u8"]["to f32"] == 0
    assert follower_rows(SEQUENCE[:1]) == ()


def test_both_sides_stand_in_one_table_and_one_chart():
    sides = {"A": precision_shares(SEQUENCE[:1]), "B": precision_shares(SEQUENCE[1:3])}
    assert share_rows(sides) == (
        {
            "Precision": "f32",
            "A (ms)": 1.0,
            "A (%)": 100.0,
            "A layers": 1,
            "B (ms)": None,
            "B (%)": None,
            "B layers": None,
        },
        {
            "Precision": "u8",
            "A (ms)": None,
            "A (%)": None,
            "A layers": None,
            "B (ms)": 6.0,
            "B (%)": 100.0,
            "B layers": 2,
        },
    )
    figure = precision_figure(sides, LOOKS)
    assert list(figure.data[0].x) == [1.0, None]
    assert precision_figure({"A": (), "B": ()}, LOOKS) is None


def test_what_became_of_precisions_from_a_to_b():
    first = chain("a", [layer(0, 4_000_000), layer(1, 4_000_000), layer(2, 1_000_000)])
    second = chain("b", [layer(0, 1_000_000, precision="u8"), layer(1, 2_000_000, precision="u8"), layer(2, 1_000_000)])
    to_u8, same = transition_rows(compare_profiles([first, second]).pairs[0].transitions)
    assert (to_u8["In A"], to_u8["In B"], to_u8["Rows"], to_u8["Operators"]) == ("f32", "u8", 2, "Conv")
    assert (to_u8["Time A (ms)"], to_u8["Time B (ms)"], to_u8["Ratio"]) == (8.0, 3.0, 0.375)
    assert (same["In A"], same["In B"], same["Ratio"]) == ("f32", "f32", 1.0)


def test_a_precision_from_elsewhere_is_no_markup():
    (bars,) = precision_figure({"A": precision_shares([layer(0, 1_000_000, precision="<b>f32</b>")])}, LOOKS).data
    assert (list(bars.y), list(bars.x)) == (["&lt;b&gt;f32&lt;/b&gt;"], [1.0])
