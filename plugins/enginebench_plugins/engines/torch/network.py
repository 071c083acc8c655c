"""From a model file to a PyTorch module with named inputs and outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.onnx_model import output_names, read_onnx, run_inputs
from enginebench_proto.agreed.exported_programs import ProgramInputs, places

if TYPE_CHECKING:
    from enginebench_plugins.engines.torch.graph import Origin

NameOutputs = Callable[[Any], dict[str, Any]]
"""Turns what a module returns into tensors by output name."""

Arrange = Callable[[Sequence[Any]], tuple[Sequence[Any], Mapping[str, Any]]]
"""Turns tensors into the arguments of a module, by place and by keyword."""


def _all_by_place(tensors: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    return tensors, {}


@dataclass(frozen=True)
class TorchNetwork:
    """A module that takes its inputs in the order of `inputs`, as `arrange` makes arguments of them.

    `sources` maps the submodules it calls, one a node, to the nodes of the file; a saved program has none. `away` are
    the nodes that conversion needed no submodule for, `prepared` says what else it did. The module of an exported
    program is a graph of operators (`is_graph`), that of a script runs as a whole.
    """

    module: Any
    inputs: tuple[spec.TensorSpec, ...]
    name_outputs: NameOutputs
    sources: "Mapping[str, Origin]" = field(default_factory=dict)
    away: "tuple[Origin, ...]" = ()
    prepared: tuple[str, ...] = ()
    arrange: Arrange = _all_by_place
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


def convert_network(model: Any, source: spec.ModelSource) -> TorchNetwork:
    """The module to compile.

    Raises `NotImplementedError` for an operator that is not known, and `UnsupportedSettingsError` where a saved program
    takes other inputs than are given.
    """
    if source.format is spec.ModelFormat.ONNX:
        return _from_onnx(model, run_inputs(model, source))
    if not source.inputs:
        raise spec.UnsupportedSettingsError(
            f"a {source.format} file does not tell its inputs: give each with --shape NAME=1x3x224x224, in order"
        )
    if source.format is spec.ModelFormat.TORCHSCRIPT:
        return TorchNetwork(model, source.inputs, _by_place)
    return _from_exported(model, source.inputs)


def _from_exported(model: Any, inputs: tuple[spec.TensorSpec, ...]) -> TorchNetwork:
    taken = ProgramInputs(model)
    try:
        ordered = taken.in_order({tensor.name: tensor for tensor in inputs})
    except ValueError as error:
        raise spec.UnsupportedSettingsError(
            f"{error}: give each with --shape, by its own name or all in order"
        ) from None
    return TorchNetwork(model, tuple(ordered), _by_place, arrange=taken.arguments, is_graph=True)


def _from_onnx(model: Any, inputs: tuple[spec.TensorSpec, ...]) -> TorchNetwork:
    from enginebench_plugins.engines.torch.graph import convert_graph

    converted, names = convert_graph(model, inputs), output_names(model)
    return TorchNetwork(
        converted.module,
        inputs,
        lambda returned: dict(zip(names, returned, strict=True)),
        converted.sources,
        converted.away,
        converted.prepared,
    )


def _by_place(returned: Any) -> dict[str, Any]:
    """The tensors a program returns, by where they lie in it.

    Raises `UnsupportedSettingsError` where there is no tensor at all.
    """
    tensors = dict(places(returned))
    if not tensors:
        raise spec.UnsupportedSettingsError("the program returns no tensor: let it return what it computes")
    return tensors
