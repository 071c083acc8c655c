"""What a gate's words promise."""

import pytest

from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.verdicts.gate.words import able_words, amount, whole_seconds


@pytest.mark.parametrize(
    ("share", "words"), [(0.021, "can tell 2.1%"), (1.0, "cannot tell even 100%"), (344.995, "cannot tell even 100%")]
)
def test_a_difference_of_more_than_double_is_no_promise(share, words):
    assert able_words(share) == words


@pytest.mark.parametrize(("seconds", "words"), [(36.5, "37s"), (119.2, "120s"), (150.0, "3m")])
def test_a_budget_that_would_do_is_said_as_the_option_takes_it(seconds, words):
    assert whole_seconds(seconds) == words


def test_what_a_slow_model_does_in_a_second_is_no_zero():
    assert amount(GateMetric.THROUGHPUT, 0.041234) == "0.04123 items/s"
    assert amount(GateMetric.THROUGHPUT, 1234.56) == "1,234.6 items/s"
    assert amount(GateMetric.MEMORY, 1_234_560_000) == "1,234.6 MB"
