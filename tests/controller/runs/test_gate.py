"""When a gate has enough: not while nothing can be told yet, as long as its budget allows that at all."""

import pytest

from controller.verdicts.pairs import arms
from enginebench_controller.plan.plan import ROLES, GateTerms
from enginebench_controller.runs import gate
from enginebench_controller.runs.gate import GRACE_S, GRACE_SHARE, Unwatched
from enginebench_controller.runs.groups import SoFar
from offered import CASE

BUDGET_S = 30


class Clock:
    """What `_Pairs` takes for the time, in seconds."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def pairs_until_it_is_enough(monkeypatch: pytest.MonkeyPatch, seconds_each: float) -> int:
    """Of things too much alike to be told apart in the budget, as many as a gate measures."""
    clock = Clock()
    monkeypatch.setattr(gate, "time", clock)
    pairs = gate._Pairs(GateTerms(budget=f"{BUDGET_S}s"), dict(zip(ROLES, ROLES, strict=True)), Unwatched())
    for count in range(BUDGET_S):
        clock.now = count * seconds_each
        if pairs(measured(count)):
            return count
    raise AssertionError("the budget has an end")


def measured(pairs: int) -> list[SoFar]:
    """Too much of luck in each of them to tell anything."""
    known = arms(1.0, pairs=pairs, scatter=0.5)
    return [SoFar(CASE, role, one.processes, one.blocks, one.medians) for role, one in known.items()]


@pytest.mark.parametrize(("seconds_each", "pairs"), [(8.0, 3), (16.0, 2), (20.0, 2)])
def test_a_gate_that_has_one_pair_takes_the_second_one_although_that_ends_after_the_budget(
    monkeypatch: pytest.MonkeyPatch, seconds_each: float, pairs: int
) -> None:
    assert pairs_until_it_is_enough(monkeypatch, seconds_each) == pairs


def test_a_pair_that_would_be_broken_off_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    longest_s = (BUDGET_S * (1 + GRACE_SHARE) + GRACE_S) / 2
    assert pairs_until_it_is_enough(monkeypatch, longest_s + 0.1) == 1
    assert pairs_until_it_is_enough(monkeypatch, longest_s - 0.1) == 2
