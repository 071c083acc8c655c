"""Parts: the finest sets of source nodes that no pass cuts through."""

from dataclasses import replace

import pytest
from passes import conv, layer, one_pass, relu

from enginebench_controller.verdicts.pruning.estimate import parts_of


def regrouped(groups):
    """The three nodes, in these groups."""
    nodes = (conv(0), relu(1), conv(2))
    return [replace(node, group=group) for node, group in zip(nodes, groups, strict=True)]


def test_a_part_joins_what_either_pass_fused_and_adds_the_times_of_the_other():
    fused = one_pass(regrouped((0, 0, 1)), [layer("a+b", 5, 0), layer("c", 3, 1)])
    split = one_pass(regrouped((0, 1, 2)), [layer("a", 2, 0), layer("b", 1, 1), layer("c", 4, 2)])
    first, second = parts_of([fused, split])
    assert (first.nodes, first.times_ns) == ((0, 1), (5e6, 3e6))
    assert (second.nodes, second.times_ns) == ((2,), (3e6, 4e6))


def test_fusions_that_overlap_make_one_part():
    left = one_pass(regrouped((0, 0, 1)), [layer("ab", 5, 0), layer("c", 3, 1)])
    right = one_pass(regrouped((0, 1, 1)), [layer("a", 2, 0), layer("bc", 4, 1)])
    (whole,) = parts_of([left, right])
    assert (whole.nodes, whole.times_ns) == ((0, 1, 2), (8e6, 6e6))


def test_a_pass_that_did_not_time_a_part_has_none_and_not_zero():
    ran = one_pass(regrouped((0, 1, 2)), [layer("a", 2, 0), layer("b", 1, 1), layer("c", 4, 2)])
    silent = one_pass(regrouped((0, 1, 2)), [layer("a", 2, 0), layer("b", None, 1), layer("c", 4, 2)])
    assert [part.times_ns for part in parts_of([ran, silent])] == [(2e6, 2e6), (1e6, None), (4e6, 4e6)]


def test_what_is_handed_to_onnx_runtime_is_known():
    handed = one_pass(regrouped((0, 1, 2)), [layer("a", 2, 0, type_="ORT"), layer("b", 1, 1), layer("c", 4, 2)])
    assert [part.handed_over for part in parts_of([handed])] == [True, False, False]


def test_another_graph_has_no_parts_in_common():
    with pytest.raises(ValueError, match="different graphs"):
        parts_of([one_pass([conv(0)], []), one_pass([relu(0)], [])])
