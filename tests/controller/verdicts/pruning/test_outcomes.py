"""Outcomes: imposed, estimated and measured stand side by side, and the estimate's error is of equal settings."""

from dataclasses import replace

import pytest
from passes import conv, layer, one_pass, relu, sweep, three_layers

from enginebench_controller.files.prospects import prospects_csv, pruning_document
from enginebench_controller.records import Failure, FailureKind, ModelWork, Status
from enginebench_controller.verdicts.pruning.prospects import prospects_of

STEPS = ((0.0, (10, 2, 20)), (0.5, (8, 2, 12)), (0.9, (4, 2, 5)))
PRUNED = (conv(0, nonzero=10), relu(1), conv(2, nonzero=10))


def copy(nodes=PRUNED, ms=(5, 2, 3), **fields):
    return one_pass(nodes, three_layers(ms), model_name="pruned", model_digest="cd" * 32, **fields)


def test_a_copy_stands_beside_the_estimate_and_the_pass_with_its_sparsity():
    *steps, pruned = prospects_of([copy(), *sweep(*STEPS)]).outcomes
    assert [step.sparsity for step in steps] == [0.0, pytest.approx(0.5), pytest.approx(0.9)]
    assert [step.imposed_speedup for step in steps] == [1.0, pytest.approx(32 / 22), pytest.approx(32 / 11)]
    assert [step.measured_ns for step in steps] == [None] * 3
    assert (pruned.is_copy, pruned.measured_ns, pruned.imposed_ns) == (True, 10e6, 11e6)
    assert pruned.estimate.time_ns == pytest.approx(11e6)
    assert pruned.error == pytest.approx(0.1)
    assert pruned.measured_speedup == pytest.approx(3.2)


def test_a_copy_with_a_sparsity_for_each_layer_is_estimated_by_them():
    uneven = (conv(0), relu(1), conv(2, nonzero=10))
    *_, pruned = prospects_of([*sweep(*STEPS), copy(uneven)]).outcomes
    assert pruned.imposed_ns is None
    assert pruned.estimate.time_ns == pytest.approx(17e6)
    assert pruned.sparsity == pytest.approx(0.45)


def test_operations_and_parameters_go_down_as_the_weights_do():
    dense, half, _ = prospects_of(sweep(*STEPS)).outcomes
    assert (dense.flops, dense.parameters) == (4010, 200)
    assert (half.flops, half.parameters) == (2010, 100)


def test_a_weight_that_several_nodes_read_is_pruned_once():
    """As the heads of a detector do, one for each size of its feature maps."""

    def pass_over(nonzero, **fields):
        heads = [conv(place, inputs=(f"x{place}", "w"), weights=("w",), nonzero=nonzero) for place in range(5)]
        work = ModelWork(0, 12_000, 200, nonzero + 100, 0, 0, 1.0)  # one weight of the heads', one of another's
        return one_pass((*heads, conv(5)), [layer("all", 10, 0)], work=work, **fields)

    found = prospects_of([pass_over(100, sparsity=0.0), pass_over(100, sparsity=0.9), pass_over(10)]).outcomes
    assert [one.parameters for one in found] == [200, 20, 110]
    assert [one.flops for one in found] == [12_000, 1200, 3000]
    assert found[-1].sparsity == pytest.approx(0.45)


def test_unknown_work_stays_unknown():
    passes = [replace(one, work=None) for one in sweep(*STEPS)]
    assert {(one.flops, one.parameters) for one in prospects_of(passes).outcomes} == {(None, None)}


def test_a_pass_that_failed_is_told_and_the_others_stand():
    failure = Failure(FailureKind.CRASHED, "it crashed")
    failed = replace(sweep((0.7, (1, 1, 1)))[0], layers=(), status=Status.FAILED, failure=failure)
    found = prospects_of([*sweep(*STEPS), failed])
    assert [len(found.outcomes), found.failed] == [3, (failed,)]
    assert pruning_document(found)["failed"] == [
        {"profile_id": failed.id, "imposed_sparsity": 0.7, "message": "it crashed"}
    ]


def test_passes_in_several_configurations_are_not_compared():
    passes = sweep(*STEPS)
    slow = [replace(one, configuration=replace(one.configuration, cores=1)) for one in passes]
    with pytest.raises(ValueError, match="different configurations"):
        prospects_of([passes[0], *slow[1:]])


def test_the_document_says_of_every_time_what_it_is():
    document = pruning_document(prospects_of([*sweep(*STEPS), copy()]))
    assert document["optimization_level"] == 0
    last = document["outcomes"][-1]
    assert last["estimated"] == {
        "latency_ns": pytest.approx(11e6),
        "speedup": pytest.approx(32 / 11),
        "unknown_share": 0,
    }
    assert last["measured"] == {"latency_ns": 10e6, "speedup": pytest.approx(3.2)}
    first = document["parts"][0]
    assert [(step["sparsity"], step["time_ns"]) for step in first["imposed"]] == [(0, 10e6), (0.5, 8e6), (0.9, 4e6)]
    assert first["copies"] == [{
        "profile_id": "pcopy", "sparsity": pytest.approx(0.9),
        "estimated_ns": pytest.approx(4e6), "measured_ns": pytest.approx(5e6),
    }]  # fmt: skip
    assert document["parts"][1]["prunable"] is False


def test_the_csv_leaves_unknown_cells_empty_and_disarms_names():
    named = tuple(replace(node, name=f"={node.name}") for node in (conv(0), relu(1), conv(2)))
    passes = sweep((0.0, (10, None, 20)), (0.9, (4, 2, 5)), nodes=named)
    lines = prospects_csv(prospects_of(passes)).splitlines()
    assert lines[0] == "nodes,types,handed_over,prunable,parameters,flops,imposed_0_ns,imposed_0.9_ns"
    assert lines[2].endswith(",0,10,,2000000.0")
    assert not any(line.startswith("=") for line in lines)


def test_without_a_graph_nobody_knows_which_layers_are_sparse_and_nothing_is_estimated():
    def ran(*ms, **fields):
        return one_pass((), [layer(f"layer{place}", one, None) for place, one in enumerate(ms)], **fields)

    found = prospects_of([ran(10, 20, sparsity=0.0), ran(4, 5, sparsity=0.9), ran(5, 3, model_name="pruned")])
    dense, most, pruned = found.outcomes
    assert [one.sparsity for one in found.outcomes] == [0.0, 0.9, None]
    assert [one.estimate for one in found.outcomes] == [None, None, None]
    assert (dense.imposed_ns, most.imposed_ns) == (30e6, 9e6)
    assert (pruned.imposed_ns, pruned.measured_ns) == (None, 8e6), "a copy of which nothing is known is like no pass"
