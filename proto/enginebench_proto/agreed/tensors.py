"""What elements of a tensor take and hold, by the NumPy name of their type."""

import math
import re
from collections.abc import Iterable

LARGEST_BFLOAT16 = (2 - 2.0**-7) * 2.0**127
"""Of a type that NumPy has from the package ml_dtypes only, and so may not know."""


def tensor_bytes(dtype: str, shape: Iterable[int]) -> int:
    """Bytes of its elements; 0 for elements that have no size of their own, such as strings."""
    bits = re.search(r"\d+$", dtype)
    element_bytes = 1 if dtype == "bool" else int(bits[0]) // 8 if bits else 0
    return element_bytes * math.prod(shape)
