"""Networks that classify images: input `input` float32 (batch, 3, 224, 224), output `logits` float32 (batch, 1000)."""

import onnx
from onnx import TensorProto

from enginebench_controller.models.zoo.builder import GraphBuilder

_RESNET_STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
"""(blocks, width, stride of the first block); a block gives four times its width."""

_RESNET_BRANCH_SCALE = 0.25
"""Scale of a residual branch before it is added: with 1 the variance would double in every block."""


def resnet50() -> onnx.ModelProto:
    """ResNet-50 v1.5 (He et al., 2015; stride sits in the 3 × 3 convolution): 53 convolutions, 25.6 M parameters."""
    graph = GraphBuilder("resnet50", seed=50)
    top = _conv_bn_relu(graph, "stem", "input", (3, 64), kernel=7, stride=2)
    top = graph.max_pool("stem.pool", top, pad=1)
    channels = 64
    for stage, (blocks, width, stride) in enumerate(_RESNET_STAGES, 1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            top = _bottleneck(graph, name, top, (channels, width), stride if block == 0 else 1)
            channels = 4 * width
    pooled = graph.node("GlobalAveragePool", "pool", [top])
    graph.linear("logits", graph.node("Flatten", "flatten", [pooled], axis=1), (channels, 1000))
    return _classifier(graph)


def _bottleneck(graph: GraphBuilder, name: str, source: str, channels: tuple[int, int], stride: int) -> str:
    inputs, width = channels
    branch = _conv_bn_relu(graph, f"{name}.1", source, (inputs, width))
    branch = _conv_bn_relu(graph, f"{name}.2", branch, (width, width), kernel=3, stride=stride)
    branch = graph.conv(f"{name}.3.conv", branch, (width, 4 * width))
    branch = graph.batch_norm(f"{name}.3.bn", branch, 4 * width, scale=_RESNET_BRANCH_SCALE)
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


_FIRES = ((64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128),
          (256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256))  # fmt: skip
"""(input channels, squeezed channels, channels of each of the two expansions), numbered from 2 as in the paper."""

_POOL_BEFORE = (4, 6)


def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al., 2016): 26 convolutions without batch normalization, 1.2 M parameters."""
    graph = GraphBuilder("squeezenet", seed=11)
    top = _conv_relu(graph, "conv1", "input", (3, 64), kernel=3, stride=2, pad=0)
    top = graph.max_pool("pool1", top)
    for number, channels in enumerate(_FIRES, 2):
        if number in _POOL_BEFORE:
            top = graph.max_pool(f"pool{number}", top)
        top = _fire(graph, f"fire{number}", top, channels)
    # The original ends with ReLU and pooling; the ReLU stays out, so that the logits keep their sign.
    top = graph.node("GlobalAveragePool", "pool10", [graph.conv("conv10", top, (512, 1000), bias=True)])
    graph.node("Flatten", "logits", [top], axis=1)
    return _classifier(graph)


def _fire(graph: GraphBuilder, name: str, source: str, channels: tuple[int, int, int]) -> str:
    inputs, squeezed, expanded = channels
    squeeze = _conv_relu(graph, f"{name}.squeeze", source, (inputs, squeezed))
    narrow = _conv_relu(graph, f"{name}.expand1x1", squeeze, (squeezed, expanded))
    wide = _conv_relu(graph, f"{name}.expand3x3", squeeze, (squeezed, expanded), kernel=3)
    return graph.node("Concat", f"{name}.concat", [narrow, wide], axis=1)


def _conv_relu(
    graph: GraphBuilder,
    name: str,
    source: str,
    channels: tuple[int, int],
    kernel: int = 1,
    stride: int = 1,
    pad: int | None = None,
) -> str:
    conv = graph.conv(f"{name}.conv", source, channels, kernel=kernel, stride=stride, pad=pad, bias=True)
    return graph.node("Relu", f"{name}.relu", [conv])


_MOBILENET_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
"""(expansion, channels, blocks, stride of the first block), table 2 of the paper."""

_MOBILENET_BRANCH_SCALE = 0.5
"""Scale of a residual branch before it is added, so that the variance stays near 1."""


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 1.0 (Sandler et al., 2018): inverted residuals with depthwise convolutions, 3.5 M parameters."""
    graph = GraphBuilder("mobilenet_v2", seed=2)
    top = _conv_bn_relu6(graph, "stem", "input", (3, 32), kernel=3, stride=2)
    channels, number = 32, 0
    for expansion, outputs, blocks, stride in _MOBILENET_STAGES:
        for block in range(blocks):
            number += 1
            step = stride if block == 0 else 1
            top = _inverted_residual(graph, f"block{number}", top, (channels, outputs), expansion, step)
            channels = outputs
    top = _conv_bn_relu6(graph, "head", top, (channels, 1280))
    pooled = graph.node("GlobalAveragePool", "pool", [top])
    graph.linear("logits", graph.node("Flatten", "flatten", [pooled], axis=1), (1280, 1000))
    return _classifier(graph)


def _inverted_residual(
    graph: GraphBuilder, name: str, source: str, channels: tuple[int, int], expansion: int, stride: int
) -> str:
    inputs, outputs = channels
    wide = inputs * expansion
    residual = stride == 1 and inputs == outputs
    top = _conv_bn_relu6(graph, f"{name}.expand", source, (inputs, wide)) if expansion > 1 else source
    top = _conv_bn_relu6(graph, f"{name}.depthwise", top, (wide, wide), kernel=3, stride=stride, groups=wide)
    top = graph.conv(f"{name}.project.conv", top, (wide, outputs))
    top = graph.batch_norm(f"{name}.project.bn", top, outputs, scale=_MOBILENET_BRANCH_SCALE if residual else 1.0)
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


def _classifier(graph: GraphBuilder) -> onnx.ModelProto:
    return graph.model([("input", TensorProto.FLOAT, ("batch", 3, 224, 224))], [("logits", ("batch", 1000))])
