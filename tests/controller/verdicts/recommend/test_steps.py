"""What stored steps tell: a search is charged for what it measured, and not for the time in which it stood still."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Phase, Process
from enginebench_controller.verdicts.recommend.steps import seconds_of

BENCHMARK = invented.benchmark()


def after(*spans_s):
    """A measurement whose processes began so many seconds after the benchmark, each with how long it took."""
    processes = tuple(
        Process(
            number,
            started_at_unix_ns=BENCHMARK.created_at_unix_ns + round(begin * 1e9),
            phases=(Phase("steady_state", round(took * 1e9)),),
        )
        for number, (begin, took) in enumerate(spans_s)
    )
    return replace(invented.measured("m0000001"), processes=processes)


def ended(seconds):
    return BENCHMARK.created_at_unix_ns + round(seconds * 1e9)


def test_a_step_takes_from_its_beginning_to_its_end_with_engines_that_start():
    assert seconds_of(BENCHMARK, [after((5, 10), (20, 10)), after((6, 20))], None) == pytest.approx(30)
    assert seconds_of(BENCHMARK, [after((5, 10))], ended(18)) == pytest.approx(18)
    assert seconds_of(BENCHMARK, [], None) == 0


def test_the_time_until_a_killed_step_went_on_is_not_charged():
    night_s = 8 * 3600
    one = after((5, 10), (night_s, 10))
    assert seconds_of(BENCHMARK, [one], None) == pytest.approx(5 + 10 + 60 + 10)
    assert seconds_of(BENCHMARK, [after((5, 10))], ended(night_s)) == pytest.approx(5 + 10 + 60)
