"""The products in a saved PyTorch program (TorchScript, .pt2), counted by PyTorch in a process of its own.

The process runs the program once: loading one can run any code, and nothing else of the controller needs PyTorch. One
JSON object on standard input says what to do: `format`, `path` and `inputs`, a list of [name, NumPy dtype, dims]. The
last line of standard output is the answer: the fields of `ProgramCost`, or `error`.
"""

import importlib.util
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginebench_controller.errors import ModelError
from enginebench_controller.models.derive.convert import SAVED_PROGRAMS
from enginebench_controller.records import InputTensor
from enginebench_proto.agreed.exported_programs import ProgramInputs
from enginebench_proto.agreed.words import ModelFormat

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
        "inputs": [[item.name, item.dtype, list(item.shape)] for item in inputs],
    }
    return ProgramCost(**_run(path, order))


def _run(path: Path, order: Mapping[str, object]) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "enginebench_controller.graph.flops.saved_programs"]
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


def main() -> int:
    """Carry out the order on standard input."""
    order = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    try:
        answer = _count(ModelFormat(order["format"]), order["path"], order["inputs"])
    except Exception as error:  # whatever PyTorch raises is told in its own words
        lines = str(error).strip().splitlines() or [type(error).__name__]
        answer = {"error": " ".join(line.strip() for line in lines[-3:])[:600]}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    return 0


def _count(kind: ModelFormat, path: str, inputs: list[tuple[str, str, list[int]]]) -> dict[str, Any]:
    import torch  # noqa: PLC0415  # an engine, imported only in this process
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    program = torch.jit.load(path, map_location="cpu").eval() if kind is ModelFormat.TORCHSCRIPT else _exported(path)
    tensors = {name: _input(torch, dtype, dims) for name, dtype, dims in inputs}
    by_place, by_keyword = _arguments(kind, program, tensors)
    with torch.no_grad():
        try:
            with FlopCounterMode(display=False) as counter, _recorder() as recorder:
                program(*by_place, **by_keyword)
        except RuntimeError:
            program(*by_place, **by_keyword)  # TorchScript loses the reason under a counter
            raise
    counted = {str(name): flops for name, flops in counter.get_flop_counts()["Global"].items()}
    weights = {id(one): one for one in (*program.parameters(), *program.buffers())}.values()
    return {
        "macs": counter.get_total_flops() // 2,
        "macs_by_operator": {name: flops // 2 for name, flops in counted.items()},
        "uncounted_operators": {name: calls for name, calls in recorder.calls.items() if name not in counted},
        "parameters": sum(one.numel() for one in weights),
        "nonzero_parameters": sum(int(torch.count_nonzero(one)) for one in weights),
        "weight_bytes": sum(one.numel() * one.element_size() for one in weights),
    }


def _exported(path: str) -> Any:
    import torch  # noqa: PLC0415

    return torch.export.load(path).module()


def _arguments(kind: ModelFormat, program: Any, tensors: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if kind is ModelFormat.TORCHSCRIPT:
        return list(tensors.values()), {}
    taken = ProgramInputs(program)
    return taken.arguments(taken.in_order(tensors))


def _input(torch: Any, dtype: str, dims: list[int]) -> Any:
    """Zeros for whole numbers, as they may be indices; random numbers otherwise."""
    kind = getattr(torch, dtype)
    return torch.rand(dims).to(kind) if kind.is_floating_point else torch.zeros(dims, dtype=kind)


def _recorder() -> Any:
    """A mode that counts the calls of every operator."""
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    class Recorder(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not there when types are checked
        def __init__(self) -> None:
            super().__init__()
            self.calls: Counter[str] = Counter()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls[str(func.overloadpacket)] += 1
            return func(*args, **(kwargs or {}))

    return Recorder()


if __name__ == "__main__":
    sys.exit(main())
