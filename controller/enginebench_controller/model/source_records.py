"""The records of a source graph (see `source_graph`, which reads them)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from enginebench_controller.model.tensors import Tensor
from enginebench_controller.model.weights import Weight

Attribute = int | float | str | tuple[int | float | str, ...]


@dataclass(frozen=True)
class SourceNode:
    """A node of the graph as given. Every node has a label (`name`) of its own, whatever the file says.

    `weights` are the initializers that it reads, also through nodes that depend on no input, such as the
    DequantizeLinear of an INT8 weight. `folded`: the node itself depends on no input, so that engines compute it once
    and ahead of time. `bodies` are the graphs of If, Loop and Scan by attribute, and "function" for a function's own.
    """

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...] = ()
    output_shapes: tuple[tuple[int, ...] | None, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    folded: bool = False
    bodies: Mapping[str, "SourceGraph"] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceGraph:
    """Nodes in the order of the file; the graph's inputs (without weights) and outputs by tensor name.

    `tensors` holds what is known of every tensor, weights included; `weights` where each weight's content lies;
    also of those that nodes make which depend on no input; `stored_as` names the weight behind a tensor that is one in
    another form, such as dequantized. `constants` are the values of small integer tensors, such as the sizes a Reshape
    is given. `opsets` are the versions by domain ("" for ai.onnx). `batch` is the number of items the shapes are for.
    """

    nodes: tuple[SourceNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, Weight] = field(default_factory=dict)
    stored_as: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    batch: int = 1
    assumptions: tuple[str, ...] = ()

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """The sizes of a tensor; None where they are unknown."""
        found = self.tensors.get(tensor)
        return None if found is None else found.shape

    def weight(self, tensor: str) -> Weight | None:
        """The weight that `tensor` is, or is another form of; None for a tensor that depends on an input."""
        return self.weights.get(self.stored_as.get(tensor, tensor))
