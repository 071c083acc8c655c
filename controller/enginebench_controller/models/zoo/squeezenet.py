"""SqueezeNet 1.1 (Iandola et al., 2016): 26 convolutions without batch normalization, 1.2 M parameters."""

import onnx
from onnx import TensorProto

from enginebench_controller.models.zoo.builder import GraphBuilder

_FIRES = ((64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128),
          (256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256))  # fmt: skip
"""(input channels, squeezed channels, channels of each of the two expansions), numbered from 2 as in the paper."""

_POOL_BEFORE = (4, 6)


def squeezenet() -> onnx.ModelProto:
    """Input `input` float32 (batch, 3, 224, 224), output `logits` float32 (batch, 1000)."""
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
    return graph.model([("input", TensorProto.FLOAT, ("batch", 3, 224, 224))], [("logits", ("batch", 1000))])


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
