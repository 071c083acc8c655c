"""Builds the zoo's graphs: named nodes, named weights, the same bytes on every machine and every day.

Weights come from `RandomState`, whose stream NumPy has frozen, and every step from there to float32 is one exact or
correctly rounded operation (no sums of floats, whose order differs between machines).
"""

import math
from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8
"""The newest that every engine's importer reads, DeepSparse's onnx 1.14 among them."""

_STEPS = 1 << 16
"""Weights lie on a grid of this many steps, so that their mean is taken out in whole numbers."""

_HE_GAIN = 2.0
_CENTRED_GAIN = 2.63

Dims = Sequence[int | str]


class GraphBuilder:
    """Collects nodes and initializers; methods append one node (or weight) and return its output's name."""

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self._random = np.random.RandomState(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._constants: dict[tuple[object, ...], str] = {}

    def node(self, op_type: str, name: str, inputs: Sequence[str], **attributes: object) -> str:
        """Append a node with one output, which carries the node's name."""
        self._nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def initializer(self, name: str, values: NDArray[np.generic]) -> str:
        """Add a weight."""
        self._initializers.append(numpy_helper.from_array(values, name))
        return name

    def integers(self, *values: int) -> str:
        """An int64 vector; equal ones share one initializer."""
        return self._constant(("int64", *values), "x".join(map(str, values)), np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """A float32 scalar; equal ones share one initializer."""
        return self._constant(("float32", value), repr(value), np.array(value, np.float32))

    def weights(self, name: str, shape: Sequence[int], limit: float, *, centred: bool = False) -> str:
        """Uniform float32 weights in ±`limit`; `centred` takes half of its mean out of each filter (first axis).

        ReLU leaves a mean in its output, and filters that pass it on whole make every input give nearly the same
        logits (2 % apart in this ResNet-50); filters that see nothing of it blow up every rounding error (INT8 is
        70 % off). With half of it, inputs differ by 10 to 20 %, and INT8 stays within 5 %, as in trained networks.
        """
        steps = np.floor(self._random.random_sample(tuple(shape)) * _STEPS).astype(np.int64)
        offsets = steps - _STEPS // 2
        scale = 2 * limit / _STEPS
        if centred:
            size = math.prod(shape[1:])
            totals = offsets.reshape(shape[0], -1).sum(axis=1)
            # Twice the filter's size times the weight, so that half a mean is a whole number.
            offsets = 2 * size * offsets - totals.reshape(-1, *[1] * (len(shape) - 1))
            scale /= 2 * size
        return self.initializer(name, (offsets * scale).astype(np.float32))

    def around(self, name: str, size: int, centre: float, spread: float) -> str:
        """A float32 vector, uniform in `centre` ± `spread`."""
        steps = np.floor(self._random.random_sample(size) * _STEPS) - _STEPS // 2
        return self.initializer(name, (steps * (2 * spread / _STEPS) + centre).astype(np.float32))

    def conv(
        self,
        name: str,
        source: str,
        channels: tuple[int, int],
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        pad: int | None = None,
        bias: bool = False,
    ) -> str:
        """A convolution, (in, out) `channels`, "same" padding unless given, weights that keep the variance.

        A unit normal after ReLU has variance 0.341 and squared mean 0.159, of which a half-centred filter sees a
        quarter: its gain is 1 / (0.341 + 0.159 / 4), where He et al. (2015) have 2. Depthwise filters are too small
        to be centred.
        """
        inputs, outputs = channels
        fan_in = inputs // groups * kernel * kernel
        gain = _CENTRED_GAIN if groups == 1 else _HE_GAIN
        shape = (outputs, inputs // groups, kernel, kernel)
        weight = self.weights(f"{name}.weight", shape, math.sqrt(3 * gain / fan_in), centred=groups == 1)
        sources = [source, weight, *([self.around(f"{name}.bias", outputs, 0.0, 0.1)] if bias else [])]
        edge = kernel // 2 if pad is None else pad
        return self.node(
            "Conv", name, sources,
            dilations=[1, 1], group=groups, kernel_shape=[kernel] * 2, pads=[edge] * 4, strides=[stride] * 2,
        )  # fmt: skip

    def batch_norm(self, name: str, source: str, channels: int, scale: float = 1.0) -> str:
        """Batch normalization as trained networks have it: scale and variance near the ideal, small shifts."""
        return self.node(
            "BatchNormalization", name,
            [
                source,
                self.around(f"{name}.scale", channels, scale, 0.1 * scale),
                self.around(f"{name}.bias", channels, 0.0, 0.1 * scale),
                self.around(f"{name}.mean", channels, 0.0, 0.1),
                self.around(f"{name}.var", channels, 1.0, 0.1),
            ],
            epsilon=1e-5,
        )  # fmt: skip

    def linear(self, name: str, source: str, channels: tuple[int, int]) -> str:
        """A fully connected layer over 2-D input: Gemm with a transposed weight."""
        inputs, outputs = channels
        weight = self.weights(f"{name}.weight", (outputs, inputs), math.sqrt(3 * _CENTRED_GAIN / inputs), centred=True)
        bias = self.around(f"{name}.bias", outputs, 0.0, 0.1)
        return self.node("Gemm", name, [source, weight, bias], alpha=1.0, beta=1.0, transA=0, transB=1)

    def max_pool(self, name: str, source: str, pad: int = 0) -> str:
        """A 3 × 3 maximum over every second position."""
        return self.node("MaxPool", name, [source], kernel_shape=[3, 3], pads=[pad] * 4, strides=[2, 2])

    def model(self, inputs: Sequence[tuple[str, int, Dims]], outputs: Sequence[tuple[str, Dims]]) -> onnx.ModelProto:
        """The finished model: inputs as (name, element type, dims), float outputs as (name, dims)."""
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(name, kind, list(dims)) for name, kind, dims in inputs],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims)) for name, dims in outputs],
            self._initializers,
        )
        return helper.make_model(
            graph,
            producer_name="enginebench-zoo",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )

    def _constant(self, key: tuple[object, ...], label: str, values: NDArray[np.generic]) -> str:
        if key not in self._constants:
            self._constants[key] = self.initializer(f"{key[0]}_{label}", values)
        return self._constants[key]
