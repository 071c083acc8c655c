"""Run as a process of its own: counts the products in a saved PyTorch program. See `program`.

It alone imports PyTorch here. One JSON object on standard input says what to do: `format`, `path` and `inputs`, a list
of [NumPy dtype, dims]. The last line of standard output is the answer: the fields of `ProgramCost`, or `error`.
"""

import json
import sys
import warnings
from collections import Counter
from typing import Any

from enginebench_proto.agreed.words import ModelFormat


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


def _count(kind: ModelFormat, path: str, inputs: list[tuple[str, list[int]]]) -> dict[str, Any]:
    import torch  # noqa: PLC0415  # an engine, imported only in this process
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    program = torch.jit.load(path, map_location="cpu").eval() if kind is ModelFormat.TORCHSCRIPT else _exported(path)
    tensors = [_input(torch, dtype, dims) for dtype, dims in inputs]
    with torch.no_grad():
        try:
            with FlopCounterMode(display=False) as counter, _recorder() as recorder:
                program(*tensors)
        except RuntimeError:
            program(*tensors)  # TorchScript loses the reason under a counter
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
