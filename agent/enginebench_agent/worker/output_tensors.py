"""What an engine's outputs look like, checked against the plugin contract."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_proto.v1.measurement_pb2 import OutputTensor


def describe_outputs(outputs: Any) -> list[OutputTensor]:
    """Name, element type and shape of each output. Raises `BrokenOutputError` unless all are named arrays."""
    if not isinstance(outputs, Mapping) or not outputs:
        raise BrokenOutputError(f"infer() returned {type(outputs).__name__} instead of a mapping of named arrays")
    for name, values in outputs.items():
        if not isinstance(values, np.ndarray):
            raise BrokenOutputError(f"infer() returned {type(values).__name__} instead of an array as '{name}'")
    return [OutputTensor(name=name, dtype=each.dtype.name, shape=each.shape) for name, each in outputs.items()]
