"""From the names of OpenVINO's operations to those of the nodes they were read from.

The reader of ONNX files names an operation as its node, or as its last output where the node has no name, and gives
the operation's outputs the names of the node's. Of the several operations that one node may become only the last has
these; others are called like "n0/WithoutBiases", or "LSTMSequence_15", and come before it. A name that is taken gets a
number: "conv_1", and of an operation that is taken apart the part that makes its output 0 gets "LSTMSequence_15.0".
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.runtime_model import RuntimeLayer

NUMBERED = re.compile(r"(.+)_\d+")
OUTPUT = re.compile(r"(.+)\.\d+")
SEQUENCES = frozenset({"rnnseq", "tensoriterator"})
"""Layer types whose two directions are parts that no longer bear a name of the model."""

PART = "/"
RESULT = "sink_port_"
"""What OpenVINO calls an output of the model: "logits/sink_port_0" holds what logits makes, and makes nothing."""


@dataclass(frozen=True)
class OriginalNames:
    """The operations of a model as read, by name.

    `named` are those that stand for a node of the file, each with the names of its outputs. `parts` are the others that
    were made for a node, each with the names of that node's outputs.
    """

    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def original_names(model: Any, form: str) -> OriginalNames:
    """The operations of the model, with the outputs of the file's node that each was made for.

    An operation whose outputs have no name was made for the node of those that read from it. In OpenVINO's own form
    each operation stands for itself.
    """
    results = {port.node.get_friendly_name() for port in model.outputs}  # stand for no node
    named: dict[str, tuple[str, ...]] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for operation in reversed(model.get_ordered_ops()):
        name = operation.get_friendly_name()
        outputs = tuple(text for port in operation.outputs() for text in sorted(port.get_names()))
        if name in results:
            continue
        if outputs or form == spec.ModelFormat.OPENVINO_IR:
            named[name] = outputs
        elif operation.get_type_name() != "Constant":
            parts[name] = tuple(dict.fromkeys(_outputs_behind(operation, named, parts)))
    return OriginalNames(named, parts)


def _outputs_behind(operation: Any, *known: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The named outputs that are made of those of an operation."""
    for port in operation.outputs():
        for target in port.get_target_inputs():
            reader = target.get_node().get_friendly_name()
            yield from (name for names in known for name in names.get(reader, ()))


def origins(layers: Sequence[RuntimeLayer], known: OriginalNames) -> dict[str, tuple[str, ...]]:
    """The nodes, or their outputs, that each layer was made from; none for what OpenVINO made itself.

    A direction of a recurrent layer that was taken apart has those of the layers that read its output.
    """
    most = 1 + max((name.count(",") for name in (*known.named, *known.parts)), default=0)
    found = {
        layer.name: source_nodes(tuple(_whole(layer.original_names, known, most)) or (layer.name,), known)
        for layer in layers
    }
    readers: defaultdict[str, list[str]] = defaultdict(list)
    for layer in layers:
        for tensor in layer.inputs:
            readers[tensor].append(layer.name)
    written = {layer.name: layer.outputs for layer in layers}
    for layer in layers:
        if layer.type.lower() in SEQUENCES and not found[layer.name]:
            found[layer.name] = _first_behind(layer.name, found, readers, written)
    return found


def _whole(pieces: Sequence[str], known: OriginalNames, most: int) -> Iterator[str]:
    """The names that OpenVINO told in one line with commas between them: one with commas of its own is in pieces.

    `most` is how many a name can be in.
    """
    start = 0
    while start < len(pieces):
        tried = (",".join(pieces[start : start + count]) for count in range(most, 1, -1))
        name = next((name for name in tried if name in known.named or name in known.parts), pieces[start])
        yield name
        start += 1 + name.count(",")


def _first_behind(
    layer: str,
    found: Mapping[str, tuple[str, ...]],
    readers: Mapping[str, Sequence[str]],
    written: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """The origin of the first layers with one that the data comes to."""
    origin: dict[str, None] = {}
    seen, waiting = {layer}, [layer]
    while waiting:
        for tensor in written[waiting.pop()]:
            for reader in readers.get(tensor, ()):
                origin |= dict.fromkeys(found[reader])
                if reader not in seen and not found[reader]:
                    waiting.append(reader)
                seen.add(reader)
    return tuple(origin)


def source_nodes(stated: Iterable[str], known: OriginalNames) -> tuple[str, ...]:
    """The nodes, or their outputs, that operations were made from; none for what OpenVINO made itself."""
    found = dict.fromkeys(source for name in stated for source in _sources(name, known))
    return tuple(found)


def _sources(name: str, known: OriginalNames) -> tuple[str, ...]:
    part = OUTPUT.fullmatch(name)
    if name in known.parts or (part and part[1] in known.parts):
        return known.parts.get(name, ()) or known.parts.get(name.rpartition(".")[0], ())
    named = known.named
    if name not in named:
        name, _, end = name.rpartition(PART)
        if end.startswith(RESULT):
            return ()
    numbered = NUMBERED.fullmatch(name)
    if numbered and numbered[1] in named:
        return named.get(name) or (name,)  # the number may not be the node's own, the outputs are
    return (name,) if name in named else ()
