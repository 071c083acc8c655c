"""How much memory a tensor takes, by the NumPy name of its elements' type."""

import math
import re
from collections.abc import Iterable


def tensor_bytes(dtype: str, shape: Iterable[int]) -> int:
    """Bytes of its elements; 0 for elements that have no size of their own, such as strings."""
    bits = re.search(r"\d+$", dtype)
    element_bytes = 1 if dtype == "bool" else int(bits[0]) // 8 if bits else 0
    return element_bytes * math.prod(shape)
