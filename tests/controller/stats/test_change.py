"""How a ratio is said."""

import pytest

from enginebench_controller.verdicts.words import change_words, factor_words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.0, "+0.0 %"),
        (1.123, "+12.3 %"),
        (0.96, "−4.0 %"),
        (2.766, "+176.6 %"),
        (10.0, "×10.0"),
        (0.05, "×0.05"),
        (29.46, "×29.5"),
        (296.246, "×296"),
        (12_345.6, "×12,346"),
        (0.0031, "×0.0031"),
    ],
)
def test_a_change_is_in_per_cent_near_1_and_a_factor_else(ratio, words):
    assert change_words(ratio) == words


def test_a_factor_is_one_even_near_1():
    assert factor_words(1.05) == "×1.05"
