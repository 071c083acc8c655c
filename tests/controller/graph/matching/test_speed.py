"""Three thousand nodes and layers take a fraction of a second, so that a profile never waits for its matching."""

import time
from collections.abc import Callable

import pytest
from small_graphs import graph, layer, profile, renamed

from enginebench_controller.graph.matching.graph_to_graph import correspond
from enginebench_controller.graph.matching.layers_to_nodes import match_layers
from enginebench_controller.graph.matching.matched import MatchedProfile
from enginebench_controller.graph.matching.profile_to_profile import join
from enginebench_controller.graph.source_graph import SourceGraph
from enginebench_controller.records import Layer

NODES = 3000
GENEROUS_S = 2.5
"""Five times what it takes on one slow core: a square of the size would take longer."""


@pytest.fixture(scope="module")
def deep() -> SourceGraph:
    lines = []
    shapes = {"t0": (1, 8, 8, 8)}
    for block in range(NODES // 3):
        start = "x" if block == 0 else f"t{3 * block}"
        first, second, last = (f"t{3 * block + step}" for step in (1, 2, 3))
        lines += [
            f"c{block}: Conv({start}, w_{block}) -> {first}",
            f"r{block}: Relu({first}) -> {second}",
            f"a{block}: Add({second}, {start}) -> {last}",
        ]
        shapes |= {first: (1, 8, 8, 8), second: (1, 8, 8, 8), last: (1, 8, 8, 8)}
    return graph("\n".join(lines), shapes)


def single_layers(source: SourceGraph) -> list[Layer]:
    return [
        layer(f"l{node.index}", node.op_type, node.name, reads=" ".join(node.inputs), writes=" ".join(node.outputs))
        for node in source.nodes
    ]


def elapsed_s(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


@pytest.mark.slow
def test_matching_a_layer_a_node(deep: SourceGraph) -> None:
    matched = profile(deep, *single_layers(deep))
    assert len(matched.matching.groups) == NODES
    assert elapsed_s(lambda: match_layers(deep, matched.layers)) < GENEROUS_S


@pytest.mark.parametrize("named", ["c{0}", "a{0}", "t{0}_nchwc", "made_{0}"])
def test_matching_with_sparse_names(deep: SourceGraph, named: str) -> None:
    layers = [layer(f"l{number}", "Conv", named.format(number)) for number in range(NODES)]
    assert elapsed_s(lambda: match_layers(deep, layers)) < GENEROUS_S


@pytest.mark.slow
def test_joining_with_a_renamed_graph(deep: SourceGraph) -> None:
    other = renamed(deep)
    assert elapsed_s(lambda: correspond(deep, other)) < GENEROUS_S
    assert len(correspond(deep, other)) == NODES
    pair: list[MatchedProfile] = [profile(source, *single_layers(source)) for source in (deep, other)]
    assert elapsed_s(lambda: join(*pair)) < 2 * GENEROUS_S
