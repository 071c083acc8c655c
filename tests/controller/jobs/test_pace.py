"""What is left of a job is judged by what its cells took so far."""

from dataclasses import replace

import pytest

from enginebench_controller.jobs.reporting import Pace, Uploads
from enginebench_controller.plan.expand import Case, expected_range_ns
from enginebench_controller.records import Configuration, EngineRef, ModelVersion, StopRule

MODEL = ModelVersion("d" * 64, "m", "onnx", (), 0)
RULE = StopRule(min_duration_ns=7_000_000_000, max_duration_ns=27_000_000_000, warmup_ns=1_000_000_000, processes=1)
"""One measurement is expected to take 7 + 1 + 2 = 10 s, at least."""


def cell(batch=1, target="a", resource="cpu"):
    return Case(target, EngineRef("e", "default", "1"), MODEL, Configuration("CPU", batch, 1, stop=RULE), (resource,))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_before_the_first_cell_is_done_the_stop_rules_tell(clock):
    pace = Pace(clock)
    first, second = cell(1), cell(2)
    pace.add([first, second])
    assert pace.seconds_left() == 20
    pace.begun(first)
    clock.now = 4
    assert pace.seconds_left() == 16
    clock.now = 40  # far longer than expected: the second is still to come
    assert pace.seconds_left() == 10


def test_a_cell_that_took_longer_makes_the_others_longer_too(clock):
    pace = Pace(clock)
    cells = [cell(1), cell(2), cell(4)]
    pace.add(cells)
    clock.now = 30
    pace.finished(cells[0], worked=True)
    assert pace.seconds_left() == 60


def test_a_cell_that_failed_at_once_says_nothing_about_the_others(clock):
    pace = Pace(clock)
    cells = [cell(1), cell(2)]
    pace.add(cells)
    clock.now = 0.1
    pace.finished(cells[0], worked=False)
    assert pace.seconds_left() == pytest.approx(10)


@pytest.mark.parametrize("place", range(3))
def test_a_member_that_failed_leaves_the_time_to_those_that_took_turns_with_it(clock, place):
    pace = Pace(clock)
    cells = [cell(batch) for batch in (1, 2, 4, 8)]
    pace.add(cells)
    for one in cells[:3]:
        pace.begun(one)
    clock.now = 40  # the two that worked were to take 20
    for number, one in enumerate(cells[:3]):
        pace.finished(one, worked=number != place)
    assert pace.seconds_left() == 20


def test_on_a_cluster_another_machine_of_the_kind_takes_off_what_was_planned_for_the_first(clock):
    pace = Pace(clock)
    cells = [cell(batch) for batch in (1, 2, 4)]
    pace.add(cells)
    clock.now = 10
    pace.finished(cells[0], worked=True)
    pace.finished(replace(cells[1], target="its twin"), worked=True)
    assert pace.seconds_left() == 5, "two at a time"


def test_targets_work_side_by_side_and_each_at_one_thing_after_the_other(clock):
    cells = [cell(1, "a"), cell(2, "a"), cell(1, "b"), cell(1, "a", "gpu:0")]
    pace = Pace(clock)
    pace.add(cells)
    assert pace.seconds_left() == 30
    assert expected_range_ns(cells) == (30_000_000_000, 90_000_000_000)
    assert expected_range_ns([]) == (0, 0)


def test_a_job_of_equal_steps_is_judged_by_its_share(clock):
    pace = Pace(clock)
    assert pace.seconds_left_at(0) is None
    clock.now = 30
    assert pace.seconds_left_at(0.25) == 90


def test_an_upload_tells_how_long_its_rest_takes_at_the_pace_of_this_file(clock):
    uploads, one = Uploads(clock), cell()
    assert uploads.words(one, 1_000_000, 5_000_000) == "uploading 1 of 5 MB"  # one report has no pace
    clock.now += 10
    assert uploads.words(one, 3_000_000, 5_000_000) == "uploading 3 of 5 MB, 10 s left"
    clock.now += 600
    assert uploads.words(one, 3_000_000, 5_000_000) == "uploading 3 of 5 MB"  # it stalls
    clock.now += 1
    assert uploads.words(one, 4_000_000, 5_000_000) == "uploading 4 of 5 MB, 1 s left"  # at the pace since then
    assert uploads.words(one, 5_000_000, 5_000_000) == "uploading 5 of 5 MB"
    assert uploads.words(one, 8_000_000, 9_000_000) == "uploading 8 of 9 MB"  # its next file, most of which is there
    clock.now += 2
    assert uploads.words(one, 8_500_000, 9_000_000) == "uploading 8 of 9 MB, 2 s left"
    assert uploads.words(one, 100_000, 900_000) == "uploading 100 of 900 kB"
