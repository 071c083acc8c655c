"""Operators that the standard had in its first versions and dropped, which old files hold and ONNX Runtime runs."""

from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.torch.operators.registry import Node, operator


@operator("Affine", "ScaledTanh", "ParametricSoftplus")
def _scaled(node: Node) -> Any:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 0.0 if node.type == "Affine" else 1.0)
    return {
        "Affine": lambda x: alpha * x + beta,
        "ScaledTanh": lambda x: alpha * torch.tanh(beta * x),
        "ParametricSoftplus": lambda x: alpha * functional.softplus(beta * x),
    }[node.type]


@operator("Scale")
def _scale(node: Node) -> Any:
    factor = node.get("scale", 1.0)
    return lambda x: x * factor


class _ImageScaler(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """One factor for an image, one shift a channel."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._factor = node.get("scale", 1.0)
        self.register_buffer("bias", torch.tensor(node.get("bias") or [0.0]).reshape(-1, 1, 1))

    def _get_name(self) -> str:
        return "ImageScaler"

    def forward(self, x: Any) -> Any:
        return x * self._factor + self.bias


operator("ImageScaler")(_ImageScaler)
