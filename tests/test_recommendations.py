"""`benchmarks.recommendations`: searches over recorded processes are charged for their time, and mostly right."""

import sys
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.recommend_replay import CASES, Drawing, Known, Wanted, at_random, replay, replay_table, searched
from benchmarks.recommend_tables import FOLDER, MODELS, Table, TableGroup, TablePoint, TableProcess, _add, read, tables

from enginebench_controller.plan.recommend import Goal
from enginebench_controller.verdicts.recommend.candidates import Step, StepPurpose
from enginebench_controller.verdicts.recommend.search import SearchOutcome

THROUGHPUT = Wanted("throughput", Goal.THROUGHPUT)


def point(name, batch):
    axes = {"engine": name, "batch": batch, "cores": 2.0}
    return TablePoint(f"net · {name} · batch {batch:g}", {"batch": [int(batch)]}, axes, is_default=batch == 1)


def process(place, latency_us, *, inferences=20):
    """Three blocks of equal inferences, one after the other."""
    return TableProcess(place, 10**8, tuple((latency_us * inferences, (latency_us,) * inferences) for _ in range(3)))


def table(*latencies_us, refused=()):
    """Points of one engine with batches 1, 2, 4 …, each with the same latency in all visits."""
    points = tuple(point("one", float(2**number)) for number in range(len(latencies_us)))
    measured = [place for place in range(len(points)) if place not in refused]
    groups = tuple(
        TableGroup(
            visit,
            visit,
            10.0,
            tuple(process(place, latencies_us[place]) for place in measured),
            {str(place): "it crashed" for place in refused},
        )
        for visit in range(3)
    )
    return Table("net", "a machine", points, groups)


def test_costs_are_those_of_items_and_limits_those_of_requests():
    known = Known(table(1000.0, 1800.0), Wanted("", Goal.THROUGHPUT, "best", 1.02))
    cost, p95 = known.truth
    assert cost == pytest.approx([-log(1000), -log(2 / 1.8e-3)])
    assert p95 == pytest.approx([log(1000), log(1800)])
    assert known.limit_us == pytest.approx(log(1800 * 1.02))
    assert known.able == [0, 1]


def test_what_only_the_best_breaks_leaves_the_others():
    known = Known(table(1000.0, 1800.0), Wanted("", Goal.THROUGHPUT, "best", 0.98))
    assert known.able == [0]


def test_a_point_that_came_to_nothing_once_is_none():
    known = Known(table(1000.0, 1500.0, 2000.0, refused=(1,)), THROUGHPUT)
    assert [known.table.points[place].axes["batch"] for place in known.places] == [1.0, 4.0]


def test_a_process_is_charged_its_start_and_what_is_timed_and_slow_ones_take_longer():
    found = table(1000.0, 100_000.0)  # 60 ms and 6 s are timed, of 10 s for both
    known = Known(found, THROUGHPUT)
    assert known.starts_s == pytest.approx((10 - 6.06) / 2)
    assert known.seconds(0, 0.5) == pytest.approx(known.starts_s + 0.5)
    assert known.seconds(1, 0.5) == pytest.approx(known.starts_s + 6.0)
    assert known.exhaustive_s() == pytest.approx(5 * (2 * known.starts_s + 1.0 + 6.0))


def test_a_replayed_round_has_one_mood_of_the_machine_and_counts_on_the_clock():
    calm = table(1000.0, 1500.0)
    slow = replace(calm.groups[1], processes=tuple(process(place, 2 * us) for place, us in ((0, 1000.0), (1, 1500.0))))
    known = Known(replace(calm, groups=(calm.groups[0], slow)), THROUGHPUT)
    machine = Drawing(known, np.random.default_rng(2))
    taken = machine.take(Step(StepPurpose.LOOK, (0, 1), 20, 0.5))
    seen = {tuple(round(float(np.exp(one[place].cost)) * 1e6) for place in (0, 1)) for one in taken.rounds}
    assert seen == {(1000, 750), (2000, 1500)}  # never one in a slow mood and the other in none
    assert taken.seconds == pytest.approx(machine.now_s)
    assert taken.seconds >= 20 * (known.seconds(0, 0.5) + known.seconds(1, 0.5))


def test_what_groups_have_in_common_is_not_taken_for_what_points_do():
    """Of two points that were measured in groups of different moods, too, the third visit tells which is quicker."""
    one, other = process(0, 1000.0), process(1, 1100.0)
    groups = (
        TableGroup(0, 0, 10.0, (one,), {}),
        TableGroup(0, 1, 10.0, (process(1, 550.0),), {}),  # twice as fast a machine
        TableGroup(1, 2, 10.0, (one, other), {}),
        TableGroup(2, 3, 10.0, (one, other), {}),
    )
    cost, _ = Known(replace(table(1000.0, 1100.0), groups=groups), Wanted("", Goal.LATENCY)).truth
    assert cost[1] - cost[0] == pytest.approx(log(1.1))


def test_what_is_measured_is_kept_group_by_group_and_the_rest_is_lacking(tmp_path):
    whole = table(1000.0, 1500.0)
    head = {"model": "net", "machine": "a machine", "points": [vars(one) for one in whole.points]}
    _add(tmp_path, "net", head)
    assert read(tmp_path, "net") == replace(whole, groups=())
    first = replace(whole.groups[0], processes=whole.groups[0].processes[:1])
    _add(tmp_path, "net", {**vars(first), "processes": [vars(one) for one in first.processes]})
    found = read(tmp_path, "net")
    assert found is not None
    assert found.groups == (first,)
    assert not found.is_whole
    assert found.lacking(0) == [1]
    assert found.lacking(1) == [0, 1]


def test_the_tables_in_the_tree_are_whole_and_of_eight_models():
    found = list(tables())
    assert {one.model for one in found} == {one.name for one in MODELS}
    assert all(30 <= len(one.points) - len(one.refused) <= 64 for one in found)


@pytest.mark.parametrize("wanted", [CASES[0], CASES[1], CASES[5]], ids=lambda one: one.name)
def test_searches_over_recorded_processes_are_right_more_often_than_chance_in_a_fifth_of_the_time(wanted):
    """How often they are stands in docs/evidence/recommend.md; here it is few draws that tell a broken search."""
    found = [replay(one, wanted, 3) for one in tables(FOLDER)]
    assert np.mean([one.right for one in found]) > 0.1 + np.mean([one.random_right for one in found])
    assert np.mean([one.worse + one.breaks for one in found]) <= 0.6
    assert np.mean([one.time for one in found]) <= 0.22
    assert wanted.name in replay_table(found)


def test_a_search_says_so_where_no_point_holds_the_limit():
    known = Known(table(1000.0, 1500.0, 2000.0, 3000.0), Wanted("", Goal.THROUGHPUT, "fastest", 0.5))
    assert known.able == []
    outcome, _, _ = searched(known, 1)
    assert outcome is SearchOutcome.NOTHING
    assert at_random(known, 1) is None
