"""Imports of PyTorch and onnx2torch, with a sentence and a remedy where one is absent."""

import importlib.util
import sys
import types
import warnings
from typing import Any

from enginebench_plugins import spec

TORCHVISION = "torchvision"


def import_torch() -> Any:
    """The `torch` module. Raises `EngineUnavailableError` with the remedy."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise spec.EngineUnavailableError(
            'PyTorch is not installed here: pip install "enginebench[torch]", or '
            "enginebench-agent environment add NAME --engine torch",
            installed=False,
        ) from error
    except (ImportError, OSError) as error:
        raise spec.EngineUnavailableError(
            f"PyTorch is installed but does not load ({error}): reinstall it in this environment"
        ) from error
    # Inputs are handed over without a copy and are never written to, which is what this warns of.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    return torch


def import_onnx2torch() -> Any:
    """The `onnx2torch` module. Raises `RuntimeError` with the remedy where it is absent."""
    _stand_in_for_torchvision()
    try:
        import onnx2torch
    except ModuleNotFoundError as error:
        if error.name != "onnx2torch":
            raise
        raise RuntimeError(
            "onnx2torch, which brings ONNX models to PyTorch, is not installed: pip install --no-deps onnx2torch"
        ) from error
    return onnx2torch


class _Absent(types.ModuleType):
    """Stands for a package that is not installed until something of it is really used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"the model needs {self.__name__}.{name}, and torchvision is not installed")

        return refuse


def _stand_in_for_torchvision() -> None:
    """onnx2torch imports torchvision for NonMaxSuppression and RoiAlign only, and not every platform has it."""
    if TORCHVISION in sys.modules or importlib.util.find_spec(TORCHVISION) is not None:
        return
    package, operators = _Absent(TORCHVISION), _Absent(f"{TORCHVISION}.ops")
    package.ops = operators  # type: ignore[attr-defined]  # a module takes any attribute
    sys.modules |= {TORCHVISION: package, operators.__name__: operators}
