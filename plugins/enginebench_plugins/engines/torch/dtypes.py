"""ONNX's element types as PyTorch has them, and arrays as tensors."""

from typing import Any

import numpy as np
import torch
from onnx import TensorProto, numpy_helper

DTYPES = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.UINT8: torch.uint8,
    TensorProto.INT8: torch.int8,
    TensorProto.UINT16: torch.uint16,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.BOOL: torch.bool,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.UINT32: torch.uint32,
    TensorProto.UINT64: torch.uint64,
    TensorProto.COMPLEX64: torch.complex64,
    TensorProto.COMPLEX128: torch.complex128,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.FLOAT8E4M3FN: torch.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: torch.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
    # Four bits lie in eight.
    TensorProto.INT4: torch.int8,
    TensorProto.UINT4: torch.uint8,
}
_BY_NAME = {
    "bfloat16": (np.uint16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e4m3fnuz": (np.uint8, torch.float8_e4m3fnuz),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
    "float8_e5m2fnuz": (np.uint8, torch.float8_e5m2fnuz),
}
"""Types that NumPy knows only through a package: the type of the same size, and PyTorch's own."""
_FOUR_BITS = {"int4": np.int8, "uint4": np.uint8}


def dtype_of(number: int) -> Any:
    """The dtype of ONNX's number for it. Raises `NotImplementedError` where PyTorch has none."""
    if number not in DTYPES:
        raise NotImplementedError(f"PyTorch has no element type {TensorProto.DataType.Name(number)}")
    return DTYPES[number]


def from_array(array: Any) -> Any:
    """An array as a tensor that shares its memory where it can; text stays an array of objects."""
    array = np.asarray(array)
    if array.dtype.kind in "OUS":
        return array.astype(object)
    if array.dtype.name in _BY_NAME:
        bits, dtype = _BY_NAME[array.dtype.name]
        return torch.from_numpy(np.ascontiguousarray(array).view(bits)).view(dtype)
    if array.dtype.name in _FOUR_BITS:
        return torch.from_numpy(array.astype(_FOUR_BITS[array.dtype.name]))
    return torch.from_numpy(array)


def to_array(value: Any) -> Any:
    """What a network returns for one output as an array, or as a list of them. NumPy has no bfloat16."""
    if isinstance(value, list | tuple):
        return [to_array(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    small = value.dtype == torch.bfloat16 or "float8" in str(value.dtype)
    return (value.float() if small else value).numpy()


def from_proto(proto: Any) -> Any:
    """A weight of the file."""
    array = numpy_helper.to_array(proto)
    if array.dtype == object:  # text comes as bytes
        return np.array([_text(each) for each in array.ravel()], dtype=object).reshape(array.shape)
    return from_array(array if array.flags.writeable else array.copy())


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
