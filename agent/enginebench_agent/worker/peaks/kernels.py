"""The products and convolutions that an engine's peak is looked for in: files to run, and what must come out.

Field numbers are those of onnx.proto, which may never change; the wire format is protobuf's.
Sources: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

IR_VERSION = 8
OPSET = 13
"""Old enough for every engine here, and the first whose Q/DQ operators do what quantized models do."""

_ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3}
_ATTRIBUTE_INTS = 7
_VARINT, _LENGTH_DELIMITED = 0, 2


@dataclass(frozen=True)
class KernelNode:
    """One operator. Attributes are lists of integers only."""

    op_type: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelTensor:
    """An input or output: element type in NumPy's words, and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def onnx_bytes(
    nodes: Sequence[KernelNode], tensor_in: KernelTensor, tensor_out: KernelTensor, weights: Mapping[str, NDArray[Any]]
) -> bytes:
    """A model with one input and one output. Weights are float32, uint8 or int8."""
    graph = b"".join(_message(1, _node(node)) for node in nodes) + _text(2, "peak")
    graph += b"".join(_message(5, _weight(name, values)) for name, values in weights.items())
    graph += _message(11, _value(tensor_in)) + _message(12, _value(tensor_out))
    return _number(1, IR_VERSION) + _message(7, graph) + _message(8, _text(1, "") + _number(2, OPSET))


def _node(node: KernelNode) -> bytes:
    names = b"".join(_text(1, name) for name in node.inputs) + _text(2, node.output)
    attributes = b"".join(_message(5, _attribute(name, values)) for name, values in node.attributes.items())
    return names + _text(3, f"{node.output}_node") + _text(4, node.op_type) + attributes


def _attribute(name: str, values: Sequence[int]) -> bytes:
    return _text(1, name) + b"".join(_number(8, value) for value in values) + _number(20, _ATTRIBUTE_INTS)


def _weight(name: str, values: NDArray[Any]) -> bytes:
    dims = b"".join(_number(1, size) for size in values.shape)
    little_endian = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return dims + _number(2, _ELEMENT_TYPES[values.dtype.name]) + _text(8, name) + _message(9, little_endian.tobytes())


def _value(tensor: KernelTensor) -> bytes:
    shape = b"".join(_message(1, _number(1, size)) for size in tensor.shape)
    kind = _number(1, _ELEMENT_TYPES[tensor.dtype]) + _message(2, shape)
    return _text(1, tensor.name) + _message(2, _message(1, kind))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have their top bit set."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


INPUT, OUTPUT = "x", "y"
_SEED = 20_260_101

Array = NDArray[Any]


class Arithmetic(Enum):
    """What a kernel's file computes in. Other floating precisions are asked of the engine for the same file of F32."""

    F32 = "f32"
    INT8 = "int8"


@dataclass(frozen=True)
class Kernel:
    """One operator of one shape.

    `operations` of an inference count a multiplication and an addition as two. `pair` takes the input and the output
    an engine returned for it, and gives some of these outputs and what they must be. `may_be_winograd`: engines may
    compute it with fewer multiplications than these (Lavin and Gray, "Fast Algorithms for Convolutional Neural
    Networks", 2015), so that its rate is no bound for others.
    """

    arithmetic: Arithmetic
    what: str
    operations: int
    content: bytes
    dtype: str
    shape: tuple[int, ...]
    pair: Callable[[Array, Array], tuple[Array, Array]]
    may_be_winograd: bool = False


@dataclass(frozen=True)
class _Quantization:
    """Scales and zero points by which a quantized kernel stands for real numbers; weights have the zero point 0."""

    in_scale: float
    weight_scale: float
    out_scale: float
    zero_point: int = 128


def kernels(arithmetic: Arithmetic) -> Iterator[Callable[[], Kernel]]:
    """What to try, each made when it is its turn: a small and a large product, and three convolutions.

    Engines' convolutions are other code than their products, often faster. The dilated one is there because no engine
    computes it by Winograd's trick, which all may use for the plain one of the same size.
    """
    for size in (384, 1024):
        yield partial(_product, arithmetic, size)
    yield partial(_convolution, arithmetic, channels=256, pixels=28, kernel=1)
    yield partial(_convolution, arithmetic, channels=128, pixels=28, kernel=3, dilation=2)
    yield partial(_convolution, arithmetic, channels=128, pixels=28, kernel=3)


def _product(arithmetic: Arithmetic, size: int) -> Kernel:
    weight = _draw(arithmetic, (size, size))
    tensors = (size, size), (size, size)
    return Kernel(
        arithmetic=arithmetic,
        what=f"MatMul {size}×{size}×{size}",
        operations=2 * size**3,
        content=_content(arithmetic, "MatMul", {}, weight, *tensors, depth=size),
        dtype=_input_type(arithmetic),
        shape=(size, size),
        pair=partial(_product_pair, arithmetic, weight),
    )


def _convolution(arithmetic: Arithmetic, *, channels: int, pixels: int, kernel: int, dilation: int = 1) -> Kernel:
    weight = _draw(arithmetic, (channels, channels, kernel, kernel))
    pad = dilation * (kernel // 2)
    attributes = {"kernel_shape": [kernel] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
    shape = (1, channels, pixels, pixels)
    stretched = f", dilation {dilation}" if dilation > 1 else ""
    return Kernel(
        arithmetic=arithmetic,
        what=f"Conv {kernel}×{kernel}{stretched}, {channels}→{channels}, {pixels}×{pixels}",
        operations=2 * pixels**2 * channels**2 * kernel**2,
        content=_content(arithmetic, "Conv", attributes, weight, shape, shape, depth=channels * kernel**2),
        dtype=_input_type(arithmetic),
        shape=shape,
        pair=partial(_convolution_pair, arithmetic, weight, dilation),
        may_be_winograd=kernel == 3 and dilation == 1,
    )


def _content(
    arithmetic: Arithmetic,
    operator: str,
    attributes: dict[str, list[int]],
    weight: Array,
    shape_in: tuple[int, ...],
    shape_out: tuple[int, ...],
    depth: int,
) -> bytes:
    dtype = _input_type(arithmetic)
    tensor_in, tensor_out = KernelTensor(INPUT, dtype, shape_in), KernelTensor(OUTPUT, dtype, shape_out)
    if arithmetic is Arithmetic.F32:
        return onnx_bytes(
            [KernelNode(operator, (INPUT, "w"), OUTPUT, attributes)], tensor_in, tensor_out, {"w": weight}
        )
    chosen = _quantization(depth)
    # The form that quantizers write and engines recognize: Q/DQ around the operator, u8 activations and s8 weights.
    nodes = [
        KernelNode("DequantizeLinear", (INPUT, "in_scale", "zero_point"), "x_real"),
        KernelNode("DequantizeLinear", ("w", "weight_scale", "weight_zero_point"), "w_real"),
        KernelNode(operator, ("x_real", "w_real"), "y_real", attributes),
        KernelNode("QuantizeLinear", ("y_real", "out_scale", "zero_point"), OUTPUT),
    ]
    constants = {
        "w": weight,
        "in_scale": np.array(chosen.in_scale, np.float32),
        "weight_scale": np.array(chosen.weight_scale, np.float32),
        "out_scale": np.array(chosen.out_scale, np.float32),
        "zero_point": np.array(chosen.zero_point, np.uint8),
        "weight_zero_point": np.array(0, np.int8),
    }
    return onnx_bytes(nodes, tensor_in, tensor_out, constants)


def _quantization(depth: int) -> _Quantization:
    """Scales by which outputs, sums of `depth` products of uniform numbers, fill the range of u8."""
    # Uniform over n values has the variance (n² − 1) ÷ 12; outputs within ±3 standard deviations use the range.
    deviation = (depth * (256**2 - 1) / 12 * (128**2 - 1) / 12) ** 0.5
    in_scale, weight_scale = 1 / 128, 1 / 64
    return _Quantization(in_scale, weight_scale, deviation * in_scale * weight_scale * 3 / 128)


def _draw(arithmetic: Arithmetic, shape: tuple[int, ...]) -> Array:
    generator = np.random.default_rng(_SEED)
    if arithmetic is Arithmetic.F32:
        return generator.standard_normal(shape, dtype=np.float32)
    # Seven bits: without VNNI, x86 adds two products of u8 and s8 in 16 bits, where eight bits would be cut off.
    return generator.integers(-64, 64, shape, dtype=np.int8)


def _input_type(arithmetic: Arithmetic) -> str:
    return "float32" if arithmetic is Arithmetic.F32 else "uint8"


def _product_pair(arithmetic: Arithmetic, weight: Array, given: Array, returned: Array) -> tuple[Array, Array]:
    """The last row of the product."""
    return returned[-1], _stored(arithmetic, _real(arithmetic, given[-1]) @ weight.astype(np.float32), len(weight))


def _convolution_pair(
    arithmetic: Arithmetic, weight: Array, dilation: int, given: Array, returned: Array
) -> tuple[Array, Array]:
    """All channels of the pixel in the middle, which no padding reaches."""
    kernel, middle = weight.shape[-1], given.shape[-1] // 2
    reach = dilation * (kernel // 2)
    window = slice(middle - reach, middle + reach + 1, dilation)
    patch = _real(arithmetic, given[0, :, window, window]).ravel()
    sums = weight.reshape(len(weight), -1).astype(np.float32) @ patch
    return returned[0, :, middle, middle], _stored(arithmetic, sums, patch.size)


def _real(arithmetic: Arithmetic, given: Array) -> Array:
    """Activations without their zero point."""
    real: Array = given if arithmetic is Arithmetic.F32 else given.astype(np.float32) - np.float32(128)
    return real


def _stored(arithmetic: Arithmetic, sums: Array, depth: int) -> Array:
    """Sums of products as the output holds them."""
    if arithmetic is Arithmetic.F32:
        return sums
    chosen = _quantization(depth)
    steps = np.rint(sums * np.float32(chosen.in_scale * chosen.weight_scale / chosen.out_scale))
    stored: Array = np.clip(steps + chosen.zero_point, 0, 255)
    return stored
