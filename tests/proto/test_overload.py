"""A queue that is there by chance is told from one that grows: by loads made up of gaps and times of service."""

import random

import pytest

from enginebench_proto.agreed.overload import is_overload

LOADS = 200


def share_called_overloaded(utilization: float, arrivals: int, *, even: bool) -> float:
    """Of loads on one server, in which the mean gap is 1 and Poisson's; service is `even` or as uneven as the gaps."""
    draw = random.Random(arrivals)

    def is_called() -> bool:
        now, free_at, scheduled, unsent = draw.expovariate(1), 0.0, 0, 0
        while now < arrivals:
            begin = max(now, free_at)
            free_at = begin + utilization * (1 if even else draw.expovariate(1))
            scheduled += 1
            unsent += begin >= arrivals
            now += draw.expovariate(1)
        return is_overload(unsent, scheduled)

    return sum(is_called() for _ in range(LOADS)) / LOADS


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("arrivals", [100, 500])
def test_a_load_that_is_kept_up_with_is_no_overload(arrivals: int, even: bool) -> None:
    assert share_called_overloaded(0.8, arrivals, even=even) < 0.05


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(("utilization", "arrivals"), [(1.1, 1000), (1.3, 300), (2, 100)])
def test_a_queue_that_grows_is_an_overload(utilization: float, arrivals: int, even: bool) -> None:
    assert share_called_overloaded(utilization, arrivals, even=even) > 0.8


def test_nothing_left_is_no_overload() -> None:
    assert not is_overload(0, 0)
