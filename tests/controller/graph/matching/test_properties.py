"""What holds for any graph and any profile."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import renamed

from enginebench_controller.graph.matching.graph_to_graph import correspond
from enginebench_controller.graph.matching.layers_to_nodes import match_layers
from enginebench_controller.graph.matching.matched import MatchedProfile, NodeState
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode
from enginebench_controller.records import Layer, LayerState

pytestmark = pytest.mark.slow

OPERATORS = (
    "Conv",
    "Relu",
    "Add",
    "QuantizeLinear",
    "DequantizeLinear",
    "MaxPool",
    "Reshape",
    "Cast",
    "Constant",
    "Pad",
)
TYPES = ("Conv", "Reorder", "Convert", "Transpose", "Input", "ORT", "Relu", "Subgraph", "maxpool")


@st.composite
def graphs(draw: st.DrawFn) -> SourceGraph:
    """Up to a dozen nodes that read what earlier ones wrote."""
    nodes: list[SourceNode] = []
    for index in range(draw(st.integers(1, 12))):
        op_type = draw(st.sampled_from(OPERATORS))
        known = ["x", *(f"t{earlier}" for earlier in range(index))]
        inputs = () if op_type == "Constant" else tuple(draw(st.lists(st.sampled_from(known), min_size=1, max_size=2)))
        folded = all(name != "x" and nodes[int(name[1:])].folded for name in inputs)
        node = SourceNode(index, f"n{index}", op_type, "", inputs, (f"t{index}",), output_shapes=(None,), folded=folded)
        nodes.append(node)
    return SourceGraph(tuple(nodes), ("x",), (f"t{len(nodes) - 1}",))


NAMES = st.one_of(
    st.builds("n{}".format, st.integers(0, 13)),
    st.builds("t{}_nchwc".format, st.integers(0, 13)),
    st.builds("made_{}".format, st.integers(0, 3)),
)
TENSORS = st.one_of(
    st.just("x"), st.builds("t{}".format, st.integers(0, 13)), st.builds("e{}".format, st.integers(0, 4))
)


@st.composite
def layer_lists(draw: st.DrawFn) -> list[Layer]:
    """Layers that claim anything, connected in any way."""
    return [
        Layer(
            name=f"layer{order}",
            type=draw(st.sampled_from(TYPES)),
            order=order,
            state=(state := draw(st.sampled_from([LayerState.EXECUTED] * 3 + list(LayerState)[:3]))),
            time_ns=tuple(draw(st.lists(st.integers(0, 10**9), max_size=3))) if state is LayerState.EXECUTED else (),
            calls=1,
            kernel="",
            precision="",
            output_shapes=(),
            source_nodes=tuple(draw(st.lists(NAMES, max_size=3))),
            inputs=tuple(draw(st.lists(TENSORS, max_size=2))),
            outputs=tuple(draw(st.lists(TENSORS, max_size=2))),
        )
        for order in range(draw(st.integers(0, 8)))
    ]


@given(graphs(), layer_lists())
def test_groups_are_disjoint_and_every_node_and_layer_has_one_place(source: SourceGraph, layers: list[Layer]) -> None:
    found = match_layers(source, layers)
    held_layers = [layer for group in found.groups for layer in group.layers]
    held_nodes = [node for group in found.groups for node in group.nodes]
    assert len(held_layers) == len(set(held_layers))
    assert len(held_nodes) == len(set(held_nodes))
    assert all(group.layers and group.nodes for group in found.groups)
    grouped = {node for node, state in enumerate(found.nodes) if state in {NodeState.NAMED, NodeState.INFERRED}}
    assert grouped == set(held_nodes)
    assert {layer for layer, category in enumerate(found.categories) if category == "matched"} == set(held_layers)


@given(graphs(), layer_lists())
def test_times_are_conserved(source: SourceGraph, layers: list[Layer]) -> None:
    found = match_layers(source, layers)
    assert found.matched_ns + found.unmatched_ns == found.total_ns
    assert found.total_ns == sum(round(sum(one.time_ns) / len(one.time_ns)) for one in layers if one.time_ns)
    assert 0 <= found.largest_group_share <= 1


@given(graphs(), layer_lists(), st.randoms(use_true_random=False))
def test_the_order_in_which_layers_are_listed_changes_nothing(
    source: SourceGraph, layers: list[Layer], shuffling: random.Random
) -> None:
    shuffled = list(layers)
    shuffling.shuffle(shuffled)

    def named(listed: list[Layer]) -> set[tuple[frozenset[str], tuple[int, ...]]]:
        groups = match_layers(source, listed).groups
        return {(frozenset(listed[layer].name for layer in group.layers), group.nodes) for group in groups}

    assert named(layers) == named(shuffled)


@given(graphs(), layer_lists())
def test_what_was_found_is_found_again_when_layers_tell_it_themselves(source: SourceGraph, layers: list[Layer]) -> None:
    found = match_layers(source, layers)
    told = [
        replace(
            layers[position],
            type="Told",
            source_nodes=tuple(source.nodes[node].name for node in group.nodes),
            inputs=(),
            outputs=(),
        )
        for group in found.groups
        for position in group.layers
        if layers[position].state is LayerState.EXECUTED
    ]
    again = {
        frozenset(told[layer].name for layer in group.layers): group.nodes
        for group in match_layers(source, told).groups
    }
    for group in found.groups:
        names = frozenset(layers[one].name for one in group.layers if layers[one].state is LayerState.EXECUTED)
        assert not names or set(again[names]) >= set(group.nodes)


@given(graphs(), graphs())
def test_no_node_corresponds_twice(one: SourceGraph, other: SourceGraph) -> None:
    for there in (other, renamed(other)):
        found = correspond(one, there)
        assert len(set(found.values())) == len(found)
        assert set(found) <= set(range(len(one.nodes)))
        assert set(found.values()) <= set(range(len(there.nodes)))


@given(graphs())
def test_a_renamed_graph_corresponds_whole(source: SourceGraph) -> None:
    found = correspond(source, renamed(source))
    assert set(found) >= {node.index for node in source.nodes if not node.folded}
    assert all(source.nodes[here].op_type == source.nodes[there].op_type for here, there in found.items())


@settings(max_examples=40)  # each is three profiles
@given(graphs(), layer_lists(), layer_lists(), layer_lists(), st.sampled_from([None, "engine"]))
def test_a_join_holds_every_layer_once_and_all_of_the_time(
    source: SourceGraph, first: list[Layer], second: list[Layer], third: list[Layer], engine: str | None
) -> None:
    profiles = [
        MatchedProfile(graph, layers, match_layers(graph, layers), engine)
        for graph, layers in ((source, first), (source, second), (renamed(source), third))
    ]
    found = join(*profiles)
    for side, one in enumerate(profiles):
        held = sorted(layer for row in found.rows for layer in row.sides[side].layers)
        assert held == list(range(len(one.layers)))
        assert sum(row.sides[side].time_ns or 0 for row in found.rows) == found.total_ns[side] == one.matching.total_ns
        assert found.joined_ns[side] <= found.total_ns[side]
