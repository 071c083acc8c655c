"""ONNX files of a few nodes, written field by field: environments of engines that read ONNX need not have `onnx`.

Field numbers are those of onnx.proto, which may never change; the wire format is protobuf's.
Sources: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
class Node:
    """One operator. Attributes are lists of integers only."""

    op_type: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tensor:
    """An input or output: element type in NumPy's words, and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def onnx_bytes(
    nodes: Sequence[Node], tensor_in: Tensor, tensor_out: Tensor, weights: Mapping[str, NDArray[Any]]
) -> bytes:
    """A model with one input and one output. Weights are float32, uint8 or int8."""
    graph = b"".join(_message(1, _node(node)) for node in nodes) + _text(2, "peak")
    graph += b"".join(_message(5, _weight(name, values)) for name, values in weights.items())
    graph += _message(11, _value(tensor_in)) + _message(12, _value(tensor_out))
    return _number(1, IR_VERSION) + _message(7, graph) + _message(8, _text(1, "") + _number(2, OPSET))


def _node(node: Node) -> bytes:
    names = b"".join(_text(1, name) for name in node.inputs) + _text(2, node.output)
    attributes = b"".join(_message(5, _attribute(name, values)) for name, values in node.attributes.items())
    return names + _text(3, f"{node.output}_node") + _text(4, node.op_type) + attributes


def _attribute(name: str, values: Sequence[int]) -> bytes:
    return _text(1, name) + b"".join(_number(8, value) for value in values) + _number(20, _ATTRIBUTE_INTS)


def _weight(name: str, values: NDArray[Any]) -> bytes:
    dims = b"".join(_number(1, size) for size in values.shape)
    little_endian = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return dims + _number(2, _ELEMENT_TYPES[values.dtype.name]) + _text(8, name) + _message(9, little_endian.tobytes())


def _value(tensor: Tensor) -> bytes:
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
