"""A model file from elsewhere can contradict itself in any way: nodes without outputs, names that are no text, tensors
cut short. Whoever reads one says so in a sentence.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx import checker, shape_inference

from enginebench_controller.errors import ModelError

_OF_PYTHON = (ArithmeticError, LookupError, RuntimeError, StopIteration, TypeError, ValueError)
_OF_ONNX = (checker.ValidationError, shape_inference.InferenceError)


@contextmanager
def told_as_invalid(path: Path) -> Iterator[None]:
    """Turn what Python and the onnx package raise over the graph of the ONNX file `path` into a `ModelError`."""
    try:
        yield
    except (*_OF_PYTHON, *_OF_ONNX) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{path} is no valid ONNX graph ({reason}); check it with onnx.checker") from error
