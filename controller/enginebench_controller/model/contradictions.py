"""A model file from elsewhere can contradict itself in any way: nodes without outputs, names that are no text, tensors
cut short. Whoever reads one says so in a sentence.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enginebench_controller.errors import ModelError


@contextmanager
def told_as_invalid(path: Path) -> Iterator[None]:
    """Turn what Python and the onnx package raise over the graph of the ONNX file `path` into a `ModelError`."""
    try:
        yield
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, StopIteration, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{path} is no valid ONNX graph ({reason}); check it with onnx.checker") from error
