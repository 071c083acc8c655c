"""Sweeps are found among listed profiles, and savings are led back to the layers of another profile."""

from dataclasses import replace

import pytest
from passes import conv, layer, one_pass, relu, sweep, three_layers

from enginebench_controller.records import EngineRef, ProfileEntry, Status
from enginebench_controller.verdicts.pruning.estimate import estimate, uniform
from enginebench_controller.verdicts.pruning.prospects import prospects_of, savings_by_layer, sweep_for, sweeps

STEPS = ((0.0, (10, 2, 20)), (0.9, (4, 2, 5)))
ENGINE = EngineRef("invented", "default", "1.0")


def entry(identity, order=None, sparsity=None, **fields):
    known = {"target": "local", "engine": ENGINE, "model_digest": "ab", "model_name": "m", "device": "CPU"}
    known |= {"batch": 1, "cores": 2, "precision": "f32", "status": Status.OK, "created_at_unix_ns": 1}
    return ProfileEntry(identity, identity, order_id=order, imposed_sparsity=sparsity, **known | fields)


OLD = (entry("o9", "old", 0.9), entry("o0", "old", 0.0))
NEW = (entry("n9", "new", 0.9), entry("n0", "new", 0.0))
BASELINE = entry("baseline", "plain")


def test_a_sweep_has_its_passes_in_the_order_they_ran_and_plain_orders_are_none():
    assert [[one.id for one in passes] for passes in sweeps((*NEW, BASELINE, *OLD))] == [["n0", "n9"], ["o0", "o9"]]
    assert sweeps((BASELINE, entry("alone", None, 0.9))) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"cores": 1},
        {"batch": 4},
        {"target": "nuc"},
        {"device": "GPU.0"},
        {"precision": "bf16"},
        {"engine": EngineRef("other", "default", "1.0")},
        {"engine": EngineRef("invented", "legacy", "1.0")},
        {"model_digest": "cd"},
    ],
)
def test_one_command_in_several_configurations_is_several_sweeps(other):
    others = [replace(one, id=f"other {one.id}", **other) for one in NEW]
    mixed = (NEW[0], others[0], NEW[1], others[1])

    assert [[one.id for one in passes] for passes in sweeps(mixed)] == [["n0", "n9"], ["other n0", "other n9"]]
    assert [one.id for one in sweep_for(mixed, others[1])] == ["other n0", "other n9"]
    assert [one.id for one in sweep_for(mixed, NEW[1])] == ["n0", "n9"]


def test_pruned_copies_are_of_the_sweep_although_they_are_other_versions():
    copy = entry("copy", "new", model_digest="cd")
    assert [[one.id for one in passes] for passes in sweeps((copy, *NEW))] == [["n0", "n9", "copy"]]


def test_the_newest_sweep_tells_of_a_baseline():
    assert [one.id for one in sweep_for((*NEW, BASELINE, *OLD), BASELINE)] == ["n0", "n9"]


def test_a_pass_belongs_to_its_own_sweep():
    assert [one.id for one in sweep_for((*NEW, *OLD), OLD[0])] == ["o0", "o9"]


def test_a_sweep_at_the_same_batch_and_cores_goes_before_a_newer_one():
    other = tuple(replace(one, batch=8) for one in NEW)
    assert [one.id for one in sweep_for((*other, *OLD), BASELINE)] == ["o0", "o9"]
    assert [one.id for one in sweep_for(other, BASELINE)] == ["n0", "n9"]


@pytest.mark.parametrize("other", [{"model_digest": "cd"}, {"target": "nuc"}, {"engine": EngineRef("x", "default")}])
def test_sweeps_over_something_else_tell_nothing(other):
    assert sweep_for(NEW, replace(BASELINE, **other)) == ()


def saved(profile, sparsity=0.9):
    series = prospects_of(sweep(*STEPS)).series
    return savings_by_layer(profile, series, estimate(series, uniform(series.dense.nodes, sparsity)))


def test_each_layer_saves_what_its_nodes_save_in_the_sweep():
    found = saved(one_pass((conv(0), relu(1), conv(2)), three_layers((30, 6, 60))))

    assert {at: one.saved_ns for at, one in found.items()} == {0: 6e6, 1: 0.0, 2: 15e6}
    assert found[0].share == pytest.approx(0.6)
    assert (found[0] + found[2]).share == pytest.approx(21 / 30)


def test_a_layer_that_runs_several_parts_saves_all_of_them():
    fused = (conv(0, group=0), replace(relu(1), group=0), conv(2, group=0))
    found = saved(one_pass(fused, [layer("all", 20, 0), layer("made", 5, None, category="engine_made")]))

    assert {at: one.saved_ns for at, one in found.items()} == {0: 21e6}


def test_a_part_that_several_layers_run_counts_once_for_the_slowest():
    nodes = (conv(0), relu(1), conv(2))
    together = (conv(0, group=0), replace(relu(1), group=0), conv(2))
    fused = [
        one_pass(together, [layer("a", ms, 0), layer("b", 1, 2)], sparsity=sparsity)
        for sparsity, ms in ((0.0, 10), (0.9, 4))
    ]
    series = prospects_of(fused).series
    profile = one_pass(nodes, three_layers((3, 8, 1)))
    found = savings_by_layer(profile, series, estimate(series, uniform(series.dense.nodes, 0.9)))

    assert {at: one.saved_ns for at, one in found.items()} == {1: 6e6, 2: 0.0}


def test_another_graph_saves_nothing_that_is_known():
    assert saved(one_pass((conv(0), conv(1)), [layer("a", 1, 0)])) == {}


def test_what_was_never_timed_counts_as_no_saving_and_says_so():
    nodes = (conv(0), relu(1), conv(2))
    broken = one_pass(nodes, three_layers((None, 2, 5)), sparsity=0.9)
    series = prospects_of([one_pass(nodes, three_layers((10, 2, 20)), sparsity=0.0), broken]).series
    found = savings_by_layer(series.dense, series, estimate(series, uniform(nodes, 0.9)))

    assert (found[0].saved_ns, found[0].is_known) == (0.0, False)
    assert not (found[0] + found[2]).is_known
