"""The graph that ONNX Runtime made of the model, as the session that runs it saves it, and where its nodes come from.

A node that was fused or rewritten keeps the name of a node, or of the tensor it makes, at the beginning of its own:
"r8_bn_nchwc" is a batch normalization that makes r8 and runs on blocked channels, "stem.conv_token_1" is made of
stem.conv. Blocked tensors are called "reorder_token_7" and the like; all others keep their names in the model.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginebench_plugins.toolkit.onnx_model import SourceNames

REORDERS = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
"""Operators that no model has: the runtime puts them between a blocked and a plain tensor, or between devices."""

MOVERS = frozenset({
    "Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that models have, too, but that the runtime also puts in front of, or behind, somebody else's tensor."""

PRODUCTS = frozenset({
    "Attention", "Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "GRU", "Gemm", "LSTM", "MatMul",
    "MultiHeadAttention", "RNN",
})  # fmt: skip
"""Operators that the time goes into, in floats unless what they read first is in integers."""

UNIQUE = "_token_"
"""What the runtime adds, with a number, to a name that is taken."""

BLOCKED = "_nchwc"
"""The end of a name that is made of the name of a tensor."""

WIDENED = "InsertedPrecisionFreeCast_"
"""The beginning of a tensor's name that is computed in f32, as the processor has no kernels for the model's f16."""

INLINED = re.compile(r"(_(?:if_(?:then|else)_branch|inlfunc_\w+?)(?:_token_\d+)?)_(.+)")
"""A name within a branch that is always taken, or within a function, whose nodes the runtime takes into the graph."""

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
        executed = [(self._saved_name(*key), key[1]) for key in executed]
        alike = Counter(executed)
        unused = {key: iter(self._places[key]) for key, count in alike.items() if len(self._places[key]) == count}
        return [next(unused[key]) if key in unused else self._unsaved(*key) for key in executed]

    def _saved_name(self, name: str, operator: str) -> str:
        """A node without a name, as functions of the model's own have them, is executed as "Exp_3"."""
        is_numbered = name.rpartition("_")[0] == operator and name.rpartition("_")[2].isdigit()
        return "" if is_numbered and self._places[name, operator] == [] != self._places["", operator] else name

    def _unsaved(self, name: str, operator: str) -> OptimizedNode:
        known = (name,) if name else ()
        sources = known if self._names is None else source_nodes(name, operator, (), self._names)
        return OptimizedNode(name, operator, source_nodes=sources)


def read_optimized_graph(path: Path, names: SourceNames) -> OptimizedGraph:
    """A saved graph, whose nodes lie in the order of their execution. Raises what `onnx.load` raises."""
    import onnx

    nodes = onnx.load(str(path), load_external_data=False).graph.node
    taken = {node.name for node in nodes}
    calls = _calls(nodes, names)
    read = (
        OptimizedNode(
            name=node.name,
            type=node.op_type,
            inputs=tuple(filter(None, node.input)),
            outputs=tuple(filter(None, node.output)),
            source_nodes=_inlined(node, names, calls)
            or source_nodes(node.name, node.op_type, node.output, names, taken),
            parameters=dict(_parameters(node)),
        )
        for node in nodes
    )
    return OptimizedGraph(read, names)


def _calls(nodes: Iterable[Any], names: SourceNames) -> dict[str, str]:
    """The label of the node whose branch or function each prefix stands for, told by whoever makes its output."""
    found: dict[str, str] = {}
    for node in nodes:
        told = [label for output in node.output if (label := names.makers.get(output.removeprefix(WIDENED)))]
        # Only what comes out of a function has no name; whatever reads from a branch may be outside of it.
        for name in (node.name, *node.output) if node.name else node.input:
            if told and (match := INLINED.match(name.removeprefix(WIDENED))):
                found.setdefault(match[1], told[0])
    return found


def _inlined(node: Any, names: SourceNames, calls: Mapping[str, str]) -> tuple[str, ...]:
    """The node of the model that a node was taken out of; none for a node that is the model's own."""
    found: dict[str, None] = {}
    for name in (node.name, *node.output):
        match = INLINED.match(name.removeprefix(WIDENED))
        if match is None:
            continue
        label = _within(match[2], names) or calls.get(match[1])
        found |= {label: None} if label else {}
    return tuple(found)


def _within(name: str, names: SourceNames) -> str | None:
    while name not in names.within and (match := INLINED.match(name)):
        name = match[2]
    return names.within.get(name)


def source_nodes(
    name: str, operator: str, outputs: Sequence[str], names: SourceNames, taken: Collection[str] = ()
) -> tuple[str, ...]:
    """The labels that a node's name and its outputs tell; `taken` are the names of all nodes beside it.

    A tensor of the model that somebody computes now in another node is still what that node's origin made. A mover is
    believed only when the model has it at this place: the runtime also converts tensors for nodes of other types.
    """
    if operator in REORDERS:
        return ()
    made = (names.makers.get(output.removeprefix(WIDENED)) for output in outputs)
    told = [_named(name.removeprefix(WIDENED), names, taken), *made]
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
