"""Operators that make tensors of a shape or of a few numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from enginebench_plugins.torch.operators.dtypes import dtype_of
from enginebench_plugins.torch.operators.registry import MICROSOFT, Node, on_host, operator, single


@operator("ConstantOfShape", host={0: ""})
def _constant_of_shape(node: Node) -> Any:
    value = node.get("value")
    value = torch.zeros(1) if value is None else value
    if isinstance(value, np.ndarray):
        return lambda shape: np.full(tuple(shape), value.ravel()[0], dtype=object)
    return _Filled(value)


class _Filled(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """As many copies of a value as a shape asks for, on the device that the module is on."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.register_buffer("value", value.reshape(()))

    def _get_name(self) -> str:
        return "ConstantOfShape"

    def forward(self, shape: Sequence[int]) -> Any:
        """A new tensor."""
        return self.value.expand(tuple(shape)).clone()


@operator("Range", domain=MICROSOFT)
@operator("Range")
def _range(node: Node) -> Any:
    def numbers(start: Any, limit: Any, delta: Any = 1) -> Any:
        first, last, step = on_host(start), on_host(limit), on_host(delta)
        first, last, step = map(single, (first, last, step))
        count = max(0, int(np.ceil((last - first) / step)))
        places = torch.arange(count, dtype=torch.float64 if start.is_floating_point() else torch.int64)
        return (first + places * step).to(device=start.device, dtype=start.dtype)

    return numbers


@operator("OneHot", host={1: ""})
def _one_hot(node: Node) -> Any:
    axis = node.get("axis", -1)

    def one_hot(indices: Any, depth: Any, values: Any) -> Any:
        size = int(depth[0] if isinstance(depth, list) else depth)
        places = indices.long()
        hot = torch.where(places < 0, places + size, places).unsqueeze(-1)
        chosen = hot == torch.arange(size, device=indices.device)
        return torch.where(chosen, values[1], values[0]).movedim(-1, axis)

    return one_hot


@operator("EyeLike")
def _eye_like(node: Node) -> Any:
    offset, target = node.get("k", 0), node.get("dtype")

    def eye(x: Any) -> Any:
        dtype = x.dtype if target is None else dtype_of(target)
        ones = torch.ones(x.shape, device=x.device)
        return (ones.tril(offset) * ones.triu(offset)).to(dtype)

    return eye
