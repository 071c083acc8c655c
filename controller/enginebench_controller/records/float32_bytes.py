"""Captured output values as bytes: little-endian float32, the one form of the wire, the store and the exports."""

import numpy as np
from numpy.typing import NDArray


def to_float32_bytes(values: NDArray[np.float32]) -> bytes:
    """Pack values of shape (elements,)."""
    return values.astype("<f4").tobytes()


def from_float32_bytes(content: bytes) -> NDArray[np.float32]:
    """Unpack values, of shape (elements,). Raises ValueError where the bytes end within an element."""
    return np.frombuffer(content, dtype="<f4").astype(np.float32)
