"""The products in a saved PyTorch program (TorchScript, .pt2), counted by PyTorch's own FlopCounterMode.

It runs the program once, in a process of its own (`torch_counting`), because loading one can run any code.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginebench_controller.errors import ModelError
from enginebench_controller.model.ir_conversion import SAVED_PROGRAMS
from enginebench_controller.records import InputTensor

TIME_LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class ProgramCost:
    """`macs` are the multiply-adds of products, also by PyTorch operator; its counter knows no other operations.

    `uncounted_operators` are the operators that ran and that it does not count, with their calls.
    """

    macs: int
    macs_by_operator: Mapping[str, int]
    uncounted_operators: Mapping[str, int]
    parameters: int
    nonzero_parameters: int
    weight_bytes: int


def count_program(path: Path, kind: str, inputs: Sequence[InputTensor], *, trusted: bool) -> ProgramCost:
    """Run the program at `path` once under the counter. Raises `ModelError` with the reason where that cannot be."""
    if kind not in SAVED_PROGRAMS:
        raise ModelError(f"{path} is no saved program of PyTorch, but {kind}")
    if not trusted:
        raise ModelError(
            f"{path} is a saved program ({kind}), which can run any code when it is loaded; give --trust if you know "
            "where it comes from"
        )
    if importlib.util.find_spec("torch") is None:
        raise ModelError(
            f"The work in {path} is counted by PyTorch, which is not installed beside this command; "
            'pip install "enginebench[torch]", or export the model to ONNX and give that'
        )
    order = {
        "format": kind,
        "path": str(path),
        "inputs": [[item.dtype, list(item.shape)] for item in inputs],
    }
    return ProgramCost(**_run(path, order))


def _run(path: Path, order: Mapping[str, object]) -> dict[str, Any]:
    command = [sys.executable, "-m", "enginebench_controller.model.flops.torch_counting"]
    try:
        done = subprocess.run(
            command, input=json.dumps(order), capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=False
        )
        # The program may print; our line is the last one.
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise ModelError(f"{path} did not finish one inference within {TIME_LIMIT_SECONDS:.0f} s") from None
    except (ValueError, IndexError):
        raise ModelError(f"{path} cannot be counted: its process ended with code {done.returncode}") from None
    if "error" in answer:
        raise ModelError(f"{path} cannot be counted: {answer['error']}")
    counted: dict[str, Any] = answer
    return counted
