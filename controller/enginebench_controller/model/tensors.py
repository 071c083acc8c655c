"""What is known of a tensor without its content: element type and sizes."""

import math
import re
from dataclasses import dataclass
from functools import cache

import onnx
from onnx import TensorProto

_BITS = {
    "FLOAT": 32, "DOUBLE": 64, "FLOAT16": 16, "BFLOAT16": 16, "COMPLEX64": 64, "COMPLEX128": 128, "BOOL": 8,
    "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64,
    "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2, "FLOAT4E2M1": 4, "FLOAT8E4M3FN": 8, "FLOAT8E4M3FNUZ": 8,
    "FLOAT8E5M2": 8, "FLOAT8E5M2FNUZ": 8, "FLOAT8E8M0": 8,
}  # fmt: skip
_PLAIN_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


_NAMELESS = re.compile(r"[\W_]*|-?\d+|none|null|nan|any|unk|unknown|dyn|dynamic", re.IGNORECASE)
"""What exporters write as the name of a dimension that has none. Equal ones are no equal dimensions."""


def dimension_name(dim: onnx.TensorShapeProto.Dimension) -> str | None:
    """The symbol that an open dimension shares with others of its name; None for "?", "None" and their like."""
    name = str(dim.dim_param).strip()
    return None if _NAMELESS.fullmatch(name) else name


@cache
def dtype_name(element_type: int) -> str | None:
    """NumPy's name of an ONNX element type ("float32", "int4"); None for none."""
    if element_type == TensorProto.UNDEFINED:
        return None
    try:
        name = str(onnx.TensorProto.DataType.Name(element_type))
    except ValueError:  # a type from an onnx newer than this one
        return None
    return _PLAIN_NAMES.get(name, name.lower())


def element_type(dtype: str | None) -> int:
    """The reverse of `dtype_name`; UNDEFINED for None."""
    return _ELEMENT_TYPES.get(dtype or "", 0)


_ELEMENT_TYPES: dict[str, int] = {
    name: kind for kind in TensorProto.DataType.values() if (name := dtype_name(kind)) is not None
}
_BITS_BY_DTYPE = {_PLAIN_NAMES.get(name, name.lower()): bits for name, bits in _BITS.items()}


@dataclass(frozen=True)
class Tensor:
    """`dtype` and `shape` are None where unknown. Types below a byte are packed, as ONNX stores them."""

    dtype: str | None
    shape: tuple[int, ...] | None

    @property
    def elements(self) -> int | None:
        """How many numbers it holds."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def size_bytes(self) -> int | None:
        """Its size in memory; None for strings and for unknown shapes."""
        bits = _BITS_BY_DTYPE.get(self.dtype or "")
        return None if bits is None or self.elements is None else -(-self.elements * bits // 8)
