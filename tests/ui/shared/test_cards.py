"""A card a row for narrow screens: every fact that is known, as its column shows it, with names escaped."""

import streamlit as st

from enginebench_ui.shared.showing import RATE, cards_html

COLUMNS = {
    "Median (ms)": st.column_config.NumberColumn(format="%.3f"),
    "Best (items/s)": st.column_config.NumberColumn(format="%,.1f"),
    "Slow (items/s)": st.column_config.NumberColumn(format=RATE),
    "Fast (items/s)": st.column_config.NumberColumn(format=RATE),
    "Δ (ms)": st.column_config.NumberColumn(format="%+.2f"),
    "Speed-up": st.column_config.NumberColumn(format="%.2f×"),
}


def test_a_card_tells_all_that_is_known_as_its_columns_show_it():
    row = {
        "Engine": "<b>x</b>",
        "Batch": 4,
        "Nothing": None,
        "Not a number": float("nan"),
        "Median (ms)": 1.23456,
        "Best (items/s)": 12345.67,
        "Slow (items/s)": 0.04123456,
        "Fast (items/s)": 1234567.8,
        "Δ (ms)": 0.5,
        "Speed-up": 2.0,
        "Plain": 0.12345,
        "Drawn": True,
    }

    drawn = cards_html([row], COLUMNS)

    assert "<summary>&lt;b&gt;x&lt;/b&gt; · Batch 4 · Median (ms) 1.235</summary>" in drawn
    for shown in ("1.235", "12,345.7", "0.041235", "1,234,600", "+0.50", "2.00×", "0.1235", "yes"):
        assert f"<dd>{shown}</dd>" in drawn
    assert "Nothing" not in drawn and "nan" not in drawn


def test_cards_are_named_by_what_tells_them_apart():
    columns = {"Benchmark": st.column_config.LinkColumn(display_text=r"id=(.*)")}
    rows = [
        {"Draw": place == 0, "Side": "A", "Benchmark": f"benchmark?id={place}", "Batch": 1, "Cores": 2, "Median": place}
        for place in range(2)
    ]

    drawn = cards_html(rows, columns)

    assert "<summary>A · Batch 1 · Median 0</summary>" in drawn
    assert "<summary>A · Batch 1 · Median 1</summary>" in drawn
    assert '<dd><a href="benchmark?id=1" target="_self">open</a></dd>' in drawn


def test_cards_that_would_have_one_name_are_named_by_more():
    rows = [
        {"Batch": batch, "Cores": cores, "Load": load, "Items/s": 100 * place, "Median": place}
        for place, (batch, cores, load) in enumerate([(1, 2, "sync"), (1, 2, "async"), (4, 1, "sync"), (1, 2, "sync")])
    ]
    drawn = cards_html(rows, {})
    assert "<summary>Batch 1 · Cores 2 · sync · Items/s 0</summary>" in drawn
    assert "<summary>Batch 1 · Cores 2 · sync · Items/s 300</summary>" in drawn


def test_right_to_left_names_do_not_move_what_stands_beside_them_in_a_card():
    drawn = cards_html([{"Target": "عربي", "Id": "5bfd", "Batch": 1}, {"Target": "x", "Id": "6", "Batch": 1}], {})
    assert "<summary>\u2068عربي\u2069 · 5bfd · Batch 1</summary>" in drawn
    assert "<dd>\u2068عربي\u2069</dd>" in drawn
