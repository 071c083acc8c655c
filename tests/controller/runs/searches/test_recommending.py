"""How long a step of a search may take, and what it is charged for."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.plan.points import samples_of_limit
from enginebench_controller.runs.searches import recommending
from enginebench_controller.runs.searches.recommend_ground import about
from enginebench_controller.runs.searches.recommending import StepTime
from enginebench_controller.verdicts.recommend.answering import recommendation
from enginebench_controller.verdicts.recommend.candidates import Step, StepTaken
from enginebench_controller.verdicts.recommend.search import SearchAnswer, SearchOutcome
from enginebench_controller.verdicts.recommend.steps import StoredStep
from invented_recommendations import TARGET, order, points, search


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands at `seconds`."""
    clock = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(recommending, "time", SimpleNamespace(monotonic=lambda: clock.seconds))
    return clock


def begun(budget_s, left_s):
    one = StepTime(budget_s, left_s)
    one(())
    return one


@pytest.mark.parametrize(("budget_s", "late_s"), [(30, 5), (60, 6), (120, 12), (300, 20), (3600, 20)])
def test_a_step_that_has_begun_may_end_a_tenth_of_the_budget_late(clock, budget_s, late_s):
    one = begun(budget_s, left_s=10)
    clock.seconds += 10
    assert one.seconds_left() == pytest.approx(late_s)
    clock.seconds += late_s
    assert one.seconds_left() == 0


@pytest.mark.parametrize(("lasted_s", "charged_s"), [(105, 62), (106, 106), (400, 400)])
def test_one_that_was_broken_off_is_charged_for_all_its_time_so_that_none_follows(clock, lasted_s, charged_s):
    one = begun(60, left_s=100)
    clock.seconds += lasted_s
    taken = StepTaken(Step(StepPurpose.CONFIRM, (0,), 5, 1.0), (), {}, seconds=62)
    assert one.charged(StoredStep("b0000001", taken, {})).taken.seconds == charged_s


def test_its_time_begins_when_the_target_has_the_model(clock):
    one = StepTime(60, left_s=100)
    clock.seconds += 1000
    one(())
    clock.seconds += 1
    assert one.seconds_left() == pytest.approx(105)


def test_a_step_is_not_charged_for_what_passed_before_the_target_had_the_model(clock):
    taken = StepTaken(Step(StepPurpose.LOOK, (0,), 1, 1.0), (), {}, seconds=55)
    one = StepTime(60, left_s=60)
    clock.seconds += 50
    assert one.charged(StoredStep("b0000001", taken, {})).taken.seconds == 55, "its files never came there"
    one(())
    clock.seconds += 5
    assert one.charged(StoredStep("b0000001", taken, {})).taken.seconds == pytest.approx(5)


def test_a_step_is_not_charged_for_the_time_that_others_have_the_store(clock):
    taken = StepTaken(Step(StepPurpose.LOOK, (0,), 1, 1.0), (), {}, seconds=260)
    one = begun(120, left_s=120)
    clock.seconds += 20
    one.ended()
    clock.seconds += 240
    assert one.charged(StoredStep("b0000001", taken, {})).taken.seconds == pytest.approx(20)


@pytest.mark.parametrize(
    ("purpose", "decides"),
    [(StepPurpose.LOOK, False), (StepPurpose.RACE, False), (StepPurpose.CONFIRM, True), (StepPurpose.FOR_ALL, True)],
)
def test_what_decides_whether_a_limit_is_held_has_the_samples_that_its_percentile_takes(purpose, decides):
    asked = order(max_latency="p99<20ms")
    ground = SimpleNamespace(order=asked, space=points(asked))
    step = Step(purpose, (0, 1), 2, 3.0)
    plan = recommending._plan(ground, search(asked), step, 0)
    assert (plan.iterations >= samples_of_limit(asked.latency_limit)) is decides


def test_what_was_assumed_of_the_model_is_told_before_anything_is_measured_and_with_the_answer():
    assumed = "net: dimension 'height' is open and was set to 224"
    asked = order()
    space = replace(points(asked), notes=(assumed,))
    assert f"note: {assumed}" in about(SimpleNamespace(order=asked, space=space, target=TARGET))
    told = SearchAnswer(SearchOutcome.NOTHING, None, None, (), 0, frozenset(), 0.0)
    assert recommendation(asked, TARGET, space, (), told).remarks[0] == assumed


def test_an_option_of_an_engine_that_takes_no_part_is_told_before_anything_is_measured():
    asked = order(engines=("torch",), fields={"options": {"openvino.pin": "true"}})
    ground = SimpleNamespace(order=asked, space=points(asked), target=TARGET)
    assert "note: option 'openvino.pin' is of openvino, which takes no part: it changes nothing" in about(ground)
