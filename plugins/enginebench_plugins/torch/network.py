"""From a model file to a PyTorch module with named inputs and outputs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.onnx_model import node_labels, output_names, read_onnx, run_inputs
from enginebench_plugins.torch.importing import import_onnx2torch

NameOutputs = Callable[[Any], dict[str, Any]]
"""Turns what a module returns into tensors by output name."""

ONE_RESULT = frozenset({"BatchNormalization", "Dropout", "LayerNormalization", "MaxPool"})
"""Operators with optional further outputs, which onnx2torch's modules leave out."""

_LACKING = re.compile(r"OperationDescription\(domain='(.*?)', operation_type='(.*?)', version=(\d+)\)")


@dataclass(frozen=True)
class Origin:
    """The node a submodule was made from, with the tensors it reads and writes."""

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """A module that takes its inputs in the order of `inputs`.

    `sources` maps the submodules it calls, one a node, to the nodes of the file; a saved program has none. The module
    of an exported one is a graph of operators (`is_graph`), that of a script runs as a whole.
    """

    module: Any
    inputs: tuple[spec.TensorSpec, ...]
    name_outputs: NameOutputs
    sources: Mapping[str, Origin] = field(default_factory=dict)
    is_graph: bool = False


def read_network(torch: Any, source: spec.ModelSource) -> Any:
    """An ONNX `ModelProto`, a script module, or the module of an exported program.

    The two latter can run code of their own; whether they may is the agent's decision, made before this.
    """
    if source.format is spec.ModelFormat.ONNX:
        return read_onnx(source.path)
    if source.format is spec.ModelFormat.TORCHSCRIPT:
        return torch.jit.load(str(source.path), map_location="cpu")
    return torch.export.load(str(source.path)).module()


def convert_network(model: Any, source: spec.ModelSource) -> Network:
    """The module to compile. Raises what onnx2torch raises for an operator it does not know."""
    if source.format is spec.ModelFormat.ONNX:
        return _from_onnx(model, run_inputs(model, source))
    if not source.inputs:
        raise spec.UnsupportedSettingsError(
            f"a {source.format} file does not tell its inputs: give each with --shape NAME=1x3x224x224, in order"
        )
    return Network(model, source.inputs, _by_place, is_graph=source.format is spec.ModelFormat.TORCH_EXPORT)


def _from_onnx(model: Any, inputs: tuple[spec.TensorSpec, ...]) -> Network:
    _drop_unused_outputs(model)
    module = _converted(model)
    # It calls one module a node, in the graph's order, and names it otherwise where the node has dots or no name.
    called = [node.target for node in module.graph.nodes if node.op == "call_module"]
    return Network(module, inputs, _by_onnx_names(model), dict(zip(called, _origins(model), strict=True)))


def _converted(model: Any) -> Any:
    try:
        return import_onnx2torch().convert(model)
    except KeyError as error:
        # It looks weights up among the initializers only.
        made = {name: node.op_type for node in model.graph.node for name in node.output}
        if error.args[0] not in made:
            raise
        raise ValueError(
            f"onnx2torch takes weights from the file only, and {error.args[0]} is made by a {made[error.args[0]]}"
        ) from error
    except NotImplementedError as error:
        raise NotImplementedError(_what_it_lacks(str(error))) from error


def _what_it_lacks(words: str) -> str:
    """onnx2torch names an operator that it has no converter for by the representation of an object of its own."""
    lacking = _LACKING.search(words)
    if lacking is None:
        return f"onnx2torch cannot convert this model: {words}"
    domain, operator, version = lacking.groups()
    return f"onnx2torch has no converter for {domain and f'{domain}.'}{operator} as of opset {version}"


def _origins(model: Any) -> Iterator[Origin]:
    for label, node in zip(node_labels(model), model.graph.node, strict=True):
        yield Origin(label, tuple(filter(None, node.input)), tuple(filter(None, node.output)))


def _drop_unused_outputs(model: Any) -> None:
    """Leave only first outputs where onnx2torch computes no others: it would take the first row for the first output.

    Raises `ValueError` when the graph uses another output.
    """
    used = {name for node in model.graph.node for name in node.input} | set(output_names(model))
    for node in model.graph.node:
        if node.op_type in ONE_RESULT:
            if lost := sorted(used & set(node.output[1:])):
                raise ValueError(f"onnx2torch does not compute {lost[0]}, a further output of a {node.op_type}")
            del node.output[1:]


def _by_onnx_names(model: Any) -> NameOutputs:
    """onnx2torch returns one value a producing node, and a tuple where that node has several outputs."""
    names = output_names(model)
    producers = {name: node for node in model.graph.node for name in node.output}
    nodes = list({id(producers[name]): producers[name] for name in names if name in producers}.values())

    def name_outputs(returned: Any) -> dict[str, Any]:
        values = list(returned) if len(nodes) > 1 else [returned]
        tensors: dict[str, Any] = {}
        for node, value in zip(nodes, values, strict=True):
            produced: Sequence[Any] = value if len(node.output) > 1 else [value]
            tensors |= dict(zip(node.output, produced, strict=False))
        return {name: tensors[name] for name in names}

    return name_outputs


def _by_place(returned: Any) -> dict[str, Any]:
    """The tensors a program returns, by where they lie in it: output_0, output_1_0, and the keys of dicts as they are.

    What else it returns, such as None and numbers, is left out. Raises `UnsupportedSettingsError` where there is no
    tensor at all.
    """
    tensors = dict(_places("", returned))
    if not tensors:
        raise spec.UnsupportedSettingsError("the program returns no tensor: let it return what it computes")
    return tensors


def _places(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(f"{name}_{key}" if name else str(key), inner)
    elif isinstance(value, tuple | list):
        for index, inner in enumerate(value):
            yield from _places(f"{name or 'output'}_{index}", inner)
    elif hasattr(value, "detach"):
        yield name or "output_0", value
