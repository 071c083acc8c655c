"""Counts read short, unknown is told, and long names keep both ends."""

import pytest

from enginebench_ui.shared.text import (
    cells,
    choice_labels,
    inert,
    isolated,
    magnitude,
    milliseconds_text,
    number,
    percent_text,
    shortened,
    times_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (703_864_808, "704 MFLOP"),
        (12_300, "12.3 kFLOP"),
        (7_500_000_000_000, "7.50 TFLOP"),
        (32, "32 FLOP"),
        (0, "0 FLOP"),
    ],
)
def test_counts_have_three_digits_and_small_ones_are_whole(value, text):
    assert magnitude(value, "FLOP") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.81234, "0.8123"), (12.3456, "12.35"), (1234.5, "1,234"), (23_456.7, "23,457"), (1_234_567.8, "1,234,568"),
        (0.00012345, "0.000123"), (0, "0"), (None, "–"),
    ],
)  # fmt: skip
def test_figures_have_four_digits_and_more_where_they_are_large(value, text):
    assert number(value) == text


def test_unknown_is_said_and_never_0():
    assert {magnitude(None, "FLOP"), milliseconds_text(None), percent_text(None), times_text(None)} == {"unknown"}


def test_times_keep_three_digits_however_short():
    assert [milliseconds_text(ns) for ns in (106_269_000, 44_919_000, 6_670_000, 72_000, 0)] == [
        "106 ms", "44.9 ms", "6.67 ms", "0.072 ms", "0.00 ms",
    ]  # fmt: skip


def test_a_long_name_loses_its_middle_only():
    short = shortened("head " + "x" * 1000 + " tail", 40)

    assert len(short) == 40
    assert short.startswith("head x") and short.endswith("x tail")
    assert shortened("two\nlines") == "two lines"


def test_a_cell_has_no_formula_behind_a_semicolon_either():
    assert cells({"Name": "x;=1+1", "Layers": 3}) == {"Name": "x;'=1+1", "Layers": 3}


ARABIC, HEBREW = "عربي", "שלום"


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        (f"on {ARABIC} · 5bfd9d394914", f"on ⟨{ARABIC}⟩ · 5bfd9d394914"),
        (f"{ARABIC} 5 · 5bfd", f"⟨{ARABIC} 5⟩ · 5bfd"),
        (f"{ARABIC} {HEBREW}, 5 ms", f"⟨{ARABIC} {HEBREW}⟩, 5 ms"),
        (f"x ({ARABIC}) 5 ({HEBREW})", f"x (⟨{ARABIC}⟩) 5 (⟨{HEBREW}⟩)"),
        (f"{ARABIC}\u064b 2", f"⟨{ARABIC}\u064b 2⟩"),
        (f"a {ARABIC}\u064b 2", f"a ⟨{ARABIC}\u064b⟩ 2"),
        ("größer · 模型 · 5", "größer · 模型 · 5"),
        ("a\u202eb · 5", "ab · 5"),
        (f"{ARABIC}\u2069\u202e · 5", f"⟨{ARABIC}⟩ · 5"),
    ],
)
def test_right_to_left_letters_move_nothing_beside_them(text, apart):
    assert isolated(text) == isolated(isolated(text)) == apart.replace("⟨", "\u2068").replace("⟩", "\u2069")


def test_what_markdown_shows_is_isolated_and_code_is_as_it_was_but_for_what_stands_around_it():
    assert inert(f"{ARABIC} · 5bfd") == f"\u2068{ARABIC}\u2069 · 5bfd"
    assert inert(f"run `rm {ARABIC}` 5 times") == f"run \u2068`rm {ARABIC}`\u2069 5 times"
    assert "\u202e" not in inert("a\u202eb")


def test_what_can_be_chosen_is_never_labelled_alike():
    labels = {"a" * 32: "x\u202e", "b" * 32: "x", "c" * 32: f"{ARABIC} · 5"}
    assert list(choice_labels(labels).values()) == ["x · aaaaaaaaaaaa", "x · bbbbbbbbbbbb", f"\u2068{ARABIC}\u2069 · 5"]
    assert choice_labels({"a" * 13: "x", "a" * 12 + "b": "x"}) == {
        "a" * 13: f"x · {'a' * 13}",
        "a" * 12 + "b": f"x · {'a' * 12}b",
    }
