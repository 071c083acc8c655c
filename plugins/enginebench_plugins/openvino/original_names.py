"""From the names of OpenVINO's operations to those of the nodes they were read from.

The reader of ONNX files names an operation as its node, or as its last output where the node has no name, and gives
the operation's outputs the names of the node's. Of the several operations that one node may become only the last has
these; others are called like "n0/WithoutBiases", or "Reshape_15". A name that is taken gets a number: "conv_1".
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from enginebench_plugins import spec

NUMBERED = re.compile(r"(.+)_\d+")
PART = "/"
RESULT = "sink_port_"
"""What OpenVINO calls an output of the model: "logits/sink_port_0" holds what logits makes, and makes nothing."""

OriginalNames = Mapping[str, tuple[str, ...]]
"""The operations of a model as read, by name, each with the names of its outputs."""


def original_names(model: Any, form: spec.ModelFormat) -> OriginalNames:
    """The operations that stand for a node of the file: in OpenVINO's own form each of them."""
    results = {port.node.get_friendly_name() for port in model.outputs}  # stand for no node
    outputs = {
        operation.get_friendly_name(): tuple(name for port in operation.outputs() for name in sorted(port.get_names()))
        for operation in model.get_ordered_ops()
        if operation.get_friendly_name() not in results
    }
    return {name: names for name, names in outputs.items() if names or form is spec.ModelFormat.OPENVINO_IR}


def source_nodes(stated: Iterable[str], known: OriginalNames) -> tuple[str, ...]:
    """The nodes, or their outputs, that operations were made from; none for what OpenVINO made itself."""
    found = dict.fromkeys(source for name in stated for source in _sources(name, known))
    return tuple(found)


def _sources(name: str, known: OriginalNames) -> tuple[str, ...]:
    if name not in known:
        name, _, part = name.rpartition(PART)
        if part.startswith(RESULT):
            return ()
    numbered = NUMBERED.fullmatch(name)
    if numbered and numbered[1] in known:
        return known.get(name) or (name,)  # the number may not be the node's own, the outputs are
    return (name,) if name in known else ()
