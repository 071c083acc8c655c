"""MobileNetV2 1.0 (Sandler et al., 2018): inverted residuals with depthwise convolutions, 3.5 M parameters."""

import onnx
from onnx import TensorProto

from enginebench_controller.models.zoo.builder import GraphBuilder

_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""(expansion, channels, blocks, stride of the first block), table 2 of the paper."""

_BRANCH_SCALE = 0.5
"""Scale of a residual branch before it is added, so that the variance stays near 1."""


def mobilenet_v2() -> onnx.ModelProto:
    """Input `input` float32 (batch, 3, 224, 224), output `logits` float32 (batch, 1000)."""
    graph = GraphBuilder("mobilenet_v2", seed=2)
    top = _conv_bn_relu6(graph, "stem", "input", (3, 32), kernel=3, stride=2)
    channels, number = 32, 0
    for expansion, outputs, blocks, stride in _STAGES:
        for block in range(blocks):
            number += 1
            step = stride if block == 0 else 1
            top = _inverted_residual(graph, f"block{number}", top, (channels, outputs), expansion, step)
            channels = outputs
    top = _conv_bn_relu6(graph, "head", top, (channels, 1280))
    pooled = graph.node("GlobalAveragePool", "pool", [top])
    graph.linear("logits", graph.node("Flatten", "flatten", [pooled], axis=1), (1280, 1000))
    return graph.model([("input", TensorProto.FLOAT, ("batch", 3, 224, 224))], [("logits", ("batch", 1000))])


def _inverted_residual(
    graph: GraphBuilder, name: str, source: str, channels: tuple[int, int], expansion: int, stride: int
) -> str:
    inputs, outputs = channels
    wide = inputs * expansion
    residual = stride == 1 and inputs == outputs
    top = _conv_bn_relu6(graph, f"{name}.expand", source, (inputs, wide)) if expansion > 1 else source
    top = _conv_bn_relu6(graph, f"{name}.depthwise", top, (wide, wide), kernel=3, stride=stride, groups=wide)
    top = graph.conv(f"{name}.project.conv", top, (wide, outputs))
    top = graph.batch_norm(f"{name}.project.bn", top, outputs, scale=_BRANCH_SCALE if residual else 1.0)
    return graph.node("Add", f"{name}.add", [source, top]) if residual else top


def _conv_bn_relu6(
    graph: GraphBuilder,
    name: str,
    source: str,
    channels: tuple[int, int],
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
) -> str:
    conv = graph.conv(f"{name}.conv", source, channels, kernel=kernel, stride=stride, groups=groups)
    norm = graph.batch_norm(f"{name}.bn", conv, channels[1])
    return graph.node("Clip", f"{name}.relu6", [norm, graph.scalar(0.0), graph.scalar(6.0)])
