"""The harness knows what it costs, and makes blocks long enough for its clock."""

import gc

import pytest

from enginebench_agent.worker.overhead import block_length_ns, collector_paused, cost_of_measuring
from enginebench_proto.v1.configuration_pb2 import StopRule

SECOND = 1_000_000_000


def test_an_inference_costs_the_harness_less_than_two_microseconds() -> None:
    calibration = cost_of_measuring(StopRule())
    assert 0 < calibration.timer_ns < calibration.empty_loop_ns < 2000


@pytest.mark.parametrize(
    ("stop", "expected_ns"),
    [
        (StopRule(min_duration_ns=2 * SECOND), SECOND // 10),
        (StopRule(min_duration_ns=100 * SECOND), SECOND),
        (StopRule(), 20_000_000),
        (StopRule(min_duration_ns=100 * SECOND, block_ns=5_000_000), 5_000_000),
        (StopRule(block_ns=1), 500_000),
    ],
)
def test_a_block_is_a_share_of_the_minimum_within_bounds_or_as_asked_and_never_shorter_than_the_clock_allows(
    stop: StopRule, expected_ns: int
) -> None:
    assert block_length_ns(stop, timer_ns=50) == expected_ns


@pytest.mark.slow
def test_the_collector_rests_only_while_measuring_and_then_takes_in_everything_again() -> None:
    with collector_paused():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
