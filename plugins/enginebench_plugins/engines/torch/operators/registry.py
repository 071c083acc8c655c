"""The table of operators: what makes a callable or a module of a node, and which of its inputs are plain numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Values = Mapping[str, Any]
"""Tensors by name, as far as they are known before the network runs."""

MICROSOFT = "com.microsoft"
LEARNED = "ai.onnx.ml"


def no_subgraph(name: str) -> "Body":
    """What a node has that stands in no graph."""
    raise ValueError(f"there is no graph to take {name} from")


@dataclass(frozen=True)
class Node:
    """One node of a graph, its attributes as Python values (a tensor as a `torch.Tensor`, a graph as it is).

    `constants` holds what is known of its inputs ahead; `subgraph` makes a module of a graph among its attributes.
    """

    type: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Values = field(default_factory=dict)
    subgraph: Callable[[str], "Body"] = no_subgraph
    types: Mapping[str, int] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def constant(self, index: int) -> Any:
        """The value of an input where it is known ahead, else None."""
        return self.constants.get(self.inputs[index]) if self.has(index) else None

    def kind(self, index: int) -> int:
        """ONNX's number for the element type of an input, 0 where it is not known: four bits lie in eight."""
        return self.types.get(self.inputs[index], 0) if self.has(index) else 0

    def has(self, index: int) -> bool:
        """Whether this input is given."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def makes(self, index: int) -> bool:
        """Whether anybody may ask for this output."""
        return index < len(self.outputs) and bool(self.outputs[index])


@dataclass(frozen=True)
class Body:
    """A subgraph as a module: it takes its own inputs, then what it captures of the graph around it."""

    module: Any
    captured: tuple[str, ...]
    inputs: int


@dataclass(frozen=True)
class MadeModule:
    """A module or callable that takes only some of its node's inputs, and after them `captured` values.

    `remark` is what a person should know of how it was made.
    """

    call: Any
    reads: tuple[int, ...]
    captured: tuple[str, ...] = ()
    remark: str = ""


Maker = Callable[[Node], Any]


@dataclass(frozen=True)
class Entry:
    """How an operator is made. `host` names inputs that arrive as Python numbers or lists.

    Where an older version of the operator had an attribute for such an input, it has the name given here.
    """

    make: Maker
    host: Mapping[int, str]


_ENTRIES: dict[tuple[str, str], Entry] = {}


def operator(*types: str, domain: str = "", host: Mapping[int, str] | None = None) -> Callable[[Maker], Maker]:
    """Enter a maker of nodes of these types."""

    def enter(make: Maker) -> Maker:
        for each in types:
            _ENTRIES[domain, each] = Entry(make, host or {})
        return make

    return enter


def functions(table: Mapping[str, Callable[..., Any]], domain: str = "") -> None:
    """Enter operators that need nothing but their inputs."""

    def maker(function: Callable[..., Any]) -> Maker:
        return lambda _node: function

    for name, function in table.items():
        _ENTRIES[domain, name] = Entry(maker(function), {})


def entry(domain: str, operator_type: str) -> Entry | None:
    """What is known of an operator."""
    return _ENTRIES.get((domain, operator_type))


def known() -> frozenset[tuple[str, str]]:
    """Domains and types of all operators entered."""
    return frozenset(_ENTRIES)


class Call(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A function as a module: what a node of the graph becomes unless PyTorch has a module for it."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        super().__init__()
        self._kind = kind
        self.forward = function  # called directly: a method of our own around it would cost a little every time

    def _get_name(self) -> str:
        return self._kind


class OnDevice(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A function of a device and plain numbers as a module: what it makes lies where the module lies."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        super().__init__()
        self._kind, self._function = kind, function
        self.register_buffer("place", torch.empty(0))

    def _get_name(self) -> str:
        return self._kind

    def forward(self, *numbers: Any) -> Any:
        """The tensor."""
        return self._function(self.place.device, *numbers)


def on_host(value: Any) -> Any:
    """A tensor as a Python number or a list of them."""
    return value.tolist() if hasattr(value, "tolist") else value


def single(value: Any) -> Any:
    """The number itself: files hold single values in lists of one."""
    while isinstance(value, list):
        value = value[0]
    return value


def device_of(value: Any) -> Any:
    """Where a tensor lies; text lies with the processor."""
    return value.device if isinstance(value, torch.Tensor) else "cpu"


UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})


SAME_BITS = frozenset({
    "Add", "BitwiseNot", "Compress", "CumProd", "CumSum", "Einsum", "GatherElements", "Mul", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Scatter", "Sub", "Sum",
})  # fmt: skip
"""Operators whose results have the same bits whether or not the highest of 64 is a sign."""

OF_PLACES = frozenset({"ArgMax", "ArgMin", "NonZero"})
"""Operators whose results are places, which are int64 whatever they are places of."""


def widened(function: Callable[..., Any], operator: str) -> Callable[..., Any]:
    """The function for unsigned integers too, for which PyTorch has few kernels: where it has none, in int64.

    That raises `NotImplementedError` for values of 2^63 and above, except where their bits come out the same.
    """

    def called(*tensors: Any) -> Any:
        kinds = {tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)} & UNSIGNED
        if not kinds:
            return function(*tensors)
        try:
            return function(*tensors)
        except (NotImplementedError, RuntimeError):
            if operator not in SAME_BITS and any(map(_is_beyond_int64, tensors)):
                raise NotImplementedError(
                    f"PyTorch has no {operator} of uint64: values of 2^63 and above would be taken for negative ones"
                ) from None
            kind = torch.int64 if operator in OF_PLACES else next(iter(kinds))
            return _narrowed(function(*(_wide(tensor) for tensor in tensors)), kind)

    return called


def _is_beyond_int64(value: Any) -> bool:
    is_uint64 = isinstance(value, torch.Tensor) and value.dtype == torch.uint64
    return is_uint64 and bool((_wide(value) < 0).any())


def _wide(value: Any) -> Any:
    return value.to(torch.int64) if isinstance(value, torch.Tensor) and value.dtype in UNSIGNED else value


def _narrowed(value: Any, kind: Any) -> Any:
    if isinstance(value, tuple):
        return (_narrowed(value[0], kind), *value[1:])
    return value.to(kind) if isinstance(value, torch.Tensor) and value.dtype == torch.int64 else value
