"""Durations in words, and ranges that are estimates."""

import pytest

from enginebench_proto.agreed.durations import duration_words
from enginebench_ui.shared.text import left_words, range_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (5400, "1 h 30 min"), (7200, "2 h"), (90_000, "25 h")],
)
def test_a_duration_is_as_exact_as_it_need_be(seconds, words):
    assert duration_words(seconds) == words


@pytest.mark.parametrize(
    ("shortest", "longest", "words"),
    [
        (120, 540, "2 to 9 min"),
        (60, 540, "60 s to 9 min"),
        (100, 110, "2 min"),
        (600, 700, "12 min"),
        (6000, 30_000, "1 h 40 min to 8 h 20 min"),
        (3600, 7200, "60 min to 2 h"),
    ],
)
def test_a_range_names_its_unit_once_and_like_ends_once(shortest, longest, words):
    assert range_words(shortest * 10**9, longest * 10**9) == words


def test_what_is_left_is_about_right_or_unknown():
    assert left_words(130.0) == "about 2 min left (estimated)"
    assert left_words(0.0) == "nearly done, or longer than estimated"
    assert left_words(None) == ""
