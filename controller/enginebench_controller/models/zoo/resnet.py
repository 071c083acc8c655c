"""ResNet-50 v1.5 (He et al., 2015; the stride sits in the 3 × 3 convolution): 53 convolutions, 25.6 M parameters."""

import onnx
from onnx import TensorProto

from enginebench_controller.models.zoo.builder import GraphBuilder

_STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
"""(blocks, width, stride of the first block); a block gives four times its width."""

_BRANCH_SCALE = 0.25
"""Scale of a residual branch before it is added: with 1 the variance would double in every block."""


def resnet50() -> onnx.ModelProto:
    """Input `input` float32 (batch, 3, 224, 224), output `logits` float32 (batch, 1000)."""
    graph = GraphBuilder("resnet50", seed=50)
    top = _conv_bn_relu(graph, "stem", "input", (3, 64), kernel=7, stride=2)
    top = graph.max_pool("stem.pool", top, pad=1)
    channels = 64
    for stage, (blocks, width, stride) in enumerate(_STAGES, 1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            top = _bottleneck(graph, name, top, (channels, width), stride if block == 0 else 1)
            channels = 4 * width
    pooled = graph.node("GlobalAveragePool", "pool", [top])
    graph.linear("logits", graph.node("Flatten", "flatten", [pooled], axis=1), (channels, 1000))
    return graph.model([("input", TensorProto.FLOAT, ("batch", 3, 224, 224))], [("logits", ("batch", 1000))])


def _bottleneck(graph: GraphBuilder, name: str, source: str, channels: tuple[int, int], stride: int) -> str:
    inputs, width = channels
    branch = _conv_bn_relu(graph, f"{name}.1", source, (inputs, width))
    branch = _conv_bn_relu(graph, f"{name}.2", branch, (width, width), kernel=3, stride=stride)
    branch = graph.conv(f"{name}.3.conv", branch, (width, 4 * width))
    branch = graph.batch_norm(f"{name}.3.bn", branch, 4 * width, scale=_BRANCH_SCALE)
    shortcut = source
    if inputs != 4 * width:
        shortcut = graph.conv(f"{name}.shortcut.conv", source, (inputs, 4 * width), stride=stride)
        shortcut = graph.batch_norm(f"{name}.shortcut.bn", shortcut, 4 * width)
    return graph.node("Relu", f"{name}.relu", [graph.node("Add", f"{name}.add", [branch, shortcut])])


def _conv_bn_relu(
    graph: GraphBuilder, name: str, source: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1
) -> str:
    conv = graph.conv(f"{name}.conv", source, channels, kernel=kernel, stride=stride)
    return graph.node("Relu", f"{name}.relu", [graph.batch_norm(f"{name}.bn", conv, channels[1])])
