"""The graph that ONNX Runtime made of the model, as the session that runs it saves it, and where its nodes come from.

A node that was fused or rewritten keeps the name of a node, or of the tensor it makes, at the beginning of its own:
"r8_bn_nchwc" is a batch normalization that makes r8 and runs on blocked channels, "stem.conv_token_1" is made of
stem.conv. Blocked tensors are called "reorder_token_7" and the like; all others keep their names in the model.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginebench_plugins.source_names import SourceNames

REORDERS = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
"""Operators that no model has: the runtime puts them between a blocked and a plain tensor, or between devices."""

MOVERS = frozenset({
    "Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that models have, too, but that the runtime also puts in front of, or behind, somebody else's tensor."""

UNIQUE = "_token_"
"""What the runtime adds, with a number, to a name that is taken."""

BLOCKED = "_nchwc"
"""The end of a name that is made of the name of a tensor."""

LONGEST_VALUE = 80
"""Attributes with more characters are left out: tables, and kernels' code."""


@dataclass(frozen=True)
class OptimizedNode:
    """One node of the optimized graph. `source_nodes` are labels of nodes of the model as given."""

    name: str
    type: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    source_nodes: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)


class OptimizedGraph:
    """The nodes a session runs, as far as they are known, and the names of the model it was made of."""

    def __init__(self, nodes: Iterable[OptimizedNode] = (), names: SourceNames | None = None) -> None:
        self._names = names
        self._places: defaultdict[tuple[str, str], list[OptimizedNode]] = defaultdict(list)
        for node in nodes:
            self._places[node.name, node.type].append(node)

    def find(self, executed: Sequence[tuple[str, str]]) -> list[OptimizedNode]:
        """The node for each name and type in the order of execution, in which the graph has them, too.

        Where it has another number of one name and type, or was not saved, the name alone tells the origin.
        """
        alike = Counter(executed)
        unused = {key: iter(self._places[key]) for key, count in alike.items() if len(self._places[key]) == count}
        return [next(unused[key]) if key in unused else self._unsaved(*key) for key in executed]

    def _unsaved(self, name: str, operator: str) -> OptimizedNode:
        known = (name,) if name else ()
        sources = known if self._names is None else source_nodes(name, operator, (), self._names)
        return OptimizedNode(name, operator, source_nodes=sources)


def read_optimized_graph(path: Path, names: SourceNames) -> OptimizedGraph:
    """A saved graph, whose nodes lie in the order of their execution. Raises what `onnx.load` raises."""
    import onnx

    nodes = onnx.load(str(path), load_external_data=False).graph.node
    taken = {node.name for node in nodes}
    read = (
        OptimizedNode(
            name=node.name,
            type=node.op_type,
            inputs=tuple(filter(None, node.input)),
            outputs=tuple(filter(None, node.output)),
            source_nodes=source_nodes(node.name, node.op_type, node.output, names, taken),
            parameters=dict(_parameters(node)),
        )
        for node in nodes
    )
    return OptimizedGraph(read, names)


def source_nodes(
    name: str, operator: str, outputs: Sequence[str], names: SourceNames, taken: Collection[str] = ()
) -> tuple[str, ...]:
    """The labels that a node's name and its outputs tell; `taken` are the names of all nodes beside it.

    A tensor of the model that somebody computes now in another node is still what that node's origin made. A mover is
    believed only when the model has it at this place: the runtime also converts tensors for nodes of other types.
    """
    if operator in REORDERS:
        return ()
    told = [_named(name, names, taken), *(names.makers.get(output) for output in outputs)]
    found = dict.fromkeys(label for label in told if label is not None)
    return tuple(label for label in found if operator not in MOVERS or names.types[label] == operator)


def _named(name: str, names: SourceNames, taken: Collection[str]) -> str | None:
    if name.endswith(BLOCKED):
        return names.maker_in(name)
    base, unique, number = name.rpartition(UNIQUE)
    # "Transpose_token_5" has nothing to do with the node "Transpose" where that one is there, too.
    if unique and number.isdigit() and base in taken:
        return None
    return names.node_in(name)


def _parameters(node: Any) -> Iterator[tuple[str, str]]:
    """The attributes that are numbers or words, and the domain of an operator that is not ONNX's own."""
    if node.domain not in ("", "ai.onnx"):
        yield "domain", node.domain
    import onnx

    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        values = value if isinstance(value, list) else [value]
        if values and all(isinstance(each, int | float | bytes) for each in values):
            text = ",".join(_text(each) for each in values)
            if len(text) <= LONGEST_VALUE:
                yield attribute.name, text


def _text(value: float | bytes) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return f"{value:g}" if isinstance(value, float) else str(value)
