"""Source graphs and profiles in a line or two each, for the tests of matching."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from enginebench_controller.graph.matching.layers_to_nodes import match_layers
from enginebench_controller.graph.matching.matched import MatchedProfile, Matching
from enginebench_controller.graph.source_graph import Attribute, SourceGraph, SourceNode, Tensor
from enginebench_controller.records import Layer, LayerState

Shapes = Mapping[str, tuple[int, ...]]


def graph(
    text: str, shapes: Shapes | None = None, attributes: Mapping[str, Mapping[str, Attribute]] | None = None
) -> SourceGraph:
    """One node a line, `label: Op(input, …) -> output, …`. The input is `x`, weights are names beginning with w_.

    Results that no node reads are the graph's outputs.
    """
    nodes: list[SourceNode] = []
    constant: set[str] = set()
    for index, line in enumerate(filter(None, (line.strip() for line in text.splitlines()))):
        head, _, results = line.partition(" -> ")
        label, _, call = head.partition(": ")
        op_type, _, rest = call.rstrip(")").partition("(")
        inputs, outputs = _split(rest), _split(results)
        weights = tuple(name for name in inputs if name.startswith("w_") or name in constant)
        folded = len(weights) == len(inputs)
        constant |= set(outputs) if folded else set()
        sizes = tuple((shapes or {}).get(name) for name in outputs)
        telling = (attributes or {}).get(label, {})
        nodes.append(SourceNode(index, label, op_type, "", inputs, outputs, weights, sizes, telling, folded))
    read = {name for node in nodes for name in node.inputs}
    results = tuple(name for node in nodes for name in node.outputs if name not in read)
    tensors = {name: Tensor("float32", sizes) for name, sizes in (shapes or {}).items()}
    return SourceGraph(tuple(nodes), ("x",), results, tensors)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def layer(
    name: str,
    kind: str,
    sources: str = "",
    *,
    reads: str = "",
    writes: str = "",
    time_ns: Sequence[int] = (1000,),
    state: LayerState = LayerState.EXECUTED,
    shapes: Sequence[tuple[int, ...]] = (),
) -> Layer:
    """A layer; names are separated by blanks. Its order is set by `profile`."""
    times = tuple(time_ns) if state is LayerState.EXECUTED else ()
    words = [tuple(text.split()) for text in (sources, reads, writes)]
    return Layer(name, kind, 0, state, times, 1, "", "f32", tuple(shapes), *words)


def idle(name: str, kind: str, sources: str = "", state: LayerState = LayerState.NOT_EXECUTED) -> Layer:
    return layer(name, kind, sources, state=state)


def profile(source: SourceGraph, *layers: Layer) -> MatchedProfile:
    """The layers in this order of execution, matched."""
    ordered = tuple(replace(one, order=order) for order, one in enumerate(layers))
    return MatchedProfile(source, ordered, match_layers(source, ordered))


def match(source: SourceGraph, *layers: Layer) -> Matching:
    return profile(source, *layers).matching


def named_groups(matched: MatchedProfile) -> dict[str, str]:
    """The groups as text: layer names to node labels, each joined by blanks."""
    return {
        " ".join(matched.layers[one].name for one in group.layers): " ".join(
            matched.graph.nodes[node].name for node in group.nodes
        )
        for group in matched.matching.groups
    }


def renamed(source: SourceGraph) -> SourceGraph:
    """The same graph with every name changed."""
    names: dict[str, str] = {}

    def new(name: str) -> str:
        return names.setdefault(name, f"renamed{len(names)}") if name else name

    def all_new(given: Iterable[str]) -> tuple[str, ...]:
        return tuple(new(name) for name in given)

    nodes = tuple(
        replace(
            node,
            name=f"other{node.index}",
            inputs=all_new(node.inputs),
            outputs=all_new(node.outputs),
            weights=all_new(node.weights),
        )
        for node in source.nodes
    )
    tensors = {new(name): tensor for name, tensor in source.tensors.items()}
    return replace(source, nodes=nodes, inputs=all_new(source.inputs), outputs=all_new(source.outputs), tensors=tensors)
