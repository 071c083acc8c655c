"""A copy of the model without open dimensions, beside the original.

`deepsparse.engine.Engine(input_shapes=...)` closes them too, but by overwriting the given file: the agent's cache.
"""

import os
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from enginebench_plugins import onnx_model, spec


class ClosedModel:
    """A model file whose inputs have no open dimension; a file made for it goes away with this object."""

    def __init__(self, path: Path, inputs: tuple[spec.TensorSpec, ...], *, temporary: bool) -> None:
        self.path = path
        self.inputs = inputs
        if temporary:
            weakref.finalize(self, path.unlink, missing_ok=True)


def close_shapes(model: Any, source: spec.ModelSource) -> ClosedModel:
    """The model with the input shapes of this run. Raises `UnsupportedSettingsError` for a shape it cannot have."""
    declared, inputs = onnx_model.graph_inputs(model), onnx_model.run_inputs(model, source)
    if declared == inputs:
        return ClosedModel(source.path, inputs, temporary=False)
    _set_shapes(model, inputs)
    return ClosedModel(_save_beside(model, source.path), inputs, temporary=True)


def _set_shapes(model: Any, inputs: Sequence[spec.TensorSpec]) -> None:
    shapes = {tensor.name: tensor.shape for tensor in inputs}
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size


def _save_beside(model: Any, path: Path) -> Path:
    """In the same folder, because the graph refers to its external weights from there."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}-closed-", suffix=".onnx")
    os.close(descriptor)
    onnx.save(model, name)
    return Path(name)
