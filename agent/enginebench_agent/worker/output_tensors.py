"""What an engine's outputs look like, checked against the plugin contract."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_proto.v1.measurement_pb2 import OutputTensor

STRINGS = "OSU"
"""Kinds of NumPy arrays that hold strings, or else are refused: `object`, bytes and Unicode."""


def describe_outputs(outputs: Any) -> list[OutputTensor]:
    """Name, element type and shape of each output.

    Raises `BrokenOutputError` unless all are named arrays, of numbers or of strings.
    """
    if not isinstance(outputs, Mapping) or not outputs:
        raise BrokenOutputError(f"infer() returned {type(outputs).__name__} instead of a mapping of named arrays")
    for name, values in outputs.items():
        if not isinstance(values, np.ndarray):
            raise BrokenOutputError(f"infer() returned {type(values).__name__} instead of an array as '{name}'")
        if values.dtype.kind == "O" and (other := _no_string(values)) is not None:
            raise BrokenOutputError(
                f"infer() returned an array of Python objects as '{name}', one of them {other}; an output is an array "
                "of numbers or of strings"
            )
    return [OutputTensor(name=name, dtype=dtype_name(each), shape=each.shape) for name, each in outputs.items()]


def dtype_name(values: "np.ndarray[Any, Any]") -> str:
    """NumPy's name of the element type; "str" for strings of any kind."""
    return "str" if values.dtype.kind in STRINGS else values.dtype.name


def _no_string(values: "np.ndarray[Any, Any]") -> str | None:
    return next((type(each).__name__ for each in values.flat if not isinstance(each, str | bytes)), None)
