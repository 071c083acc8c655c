"""Branches and loops, whose bodies are modules of their own, and the sequences and optional values they pass on."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from enginebench_plugins.engines.torch.operators.registry import (
    Body,
    MadeModule,
    Node,
    OnDevice,
    functions,
    on_host,
    operator,
)


def _bodies(node: Node, *names: str) -> tuple[list[Body], tuple[str, ...]]:
    """Subgraphs, and all that they capture of the graph around them."""
    bodies = [node.subgraph(name) for name in names]
    return bodies, tuple(dict.fromkeys(name for body in bodies for name in body.captured))


def _single(values: Sequence[Any]) -> Any:
    return values if len(values) > 1 else values[0]


class _If(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """One of two bodies."""

    def __init__(self, bodies: Sequence[Body], captured: Sequence[str]) -> None:
        super().__init__()
        self.branches = torch.nn.ModuleList(body.module for body in bodies)
        self._places = [[captured.index(name) for name in body.captured] for body in bodies]

    def _get_name(self) -> str:
        return "If"

    def forward(self, condition: Any, *captured: Any) -> Any:
        chosen = 0 if bool(condition) else 1
        return _single(self.branches[chosen](*(captured[place] for place in self._places[chosen])))


class _Branch(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """The branch of an If whose condition is known ahead."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body.module

    def _get_name(self) -> str:
        return "If"

    def forward(self, *captured: Any) -> Any:
        return _single(self.body(*captured))


@operator("If")
def _if(node: Node) -> Any:
    condition = node.constant(0)
    if condition is not None:
        (body,), captured = _bodies(node, "then_branch" if bool(condition) else "else_branch")
        return MadeModule(_Branch(body), (), captured)
    bodies, captured = _bodies(node, "then_branch", "else_branch")
    return MadeModule(_If(bodies, captured), (0,), captured)


class _Loop(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A body, again and again."""

    def __init__(self, body: Body, node: Node) -> None:
        super().__init__()
        self.body = body.module
        self.register_buffer("place", torch.empty(0))  # what is counted lies where the module lies
        self._carried = body.inputs - 2
        self._has_count, self._has_condition = node.has(0), node.has(1)

    def _get_name(self) -> str:
        return "Loop"

    def forward(self, *given: Any) -> Any:
        values = iter(given)
        count = int(next(values)) if self._has_count else None
        condition = bool(next(values)) if self._has_condition else True
        rest = list(values)
        carried, captured = rest[: self._carried], rest[self._carried :]
        collected: list[tuple[Any, ...]] = []
        number = 0
        while condition and (count is None or number < count):
            told = (torch.tensor(value, device=self.place.device) for value in (number, condition))
            going, *results = self.body(*told, *carried, *captured)
            condition = bool(going)
            carried = results[: self._carried]
            collected.append(tuple(results[self._carried :]))
            number += 1
        scanned = [torch.stack(each) for each in zip(*collected, strict=True)]
        return self._whole(carried, scanned)

    def _whole(self, carried: list[Any], scanned: list[Any]) -> Any:
        return _single([*carried, *scanned])


@operator("Loop")
def _loop(node: Node) -> Any:
    (body,), captured = _bodies(node, "body")
    reads = tuple(index for index in range(len(node.inputs)) if node.has(index))
    loop = _Loop(body, node)
    scans = len(node.outputs) - (body.inputs - 2)
    if scans > 0:
        kinds = _scanned_kinds(node.get("body"), scans)
        loop._whole = lambda carried, scanned: _single(  # type: ignore[method-assign]
            [*carried, *(scanned or [loop.place.new_zeros(shape, dtype=dtype) for shape, dtype in kinds])]
        )
    return MadeModule(loop, reads, captured)


def _scanned_kinds(graph: Any, count: int) -> list[tuple[tuple[int, ...], Any]]:
    """What a loop that never runs collects: nothing, of the type and the shape that the body declares."""
    from enginebench_plugins.engines.torch.dtypes import DTYPES

    kinds = []
    for value in graph.output[-count:]:
        tensor = value.type.tensor_type
        kinds.append(((0, *(dim.dim_value for dim in tensor.shape.dim)), DTYPES.get(tensor.elem_type, torch.float32)))
    return kinds


class _Scan(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A body for each slice of some inputs."""

    def __init__(self, body: Body, node: Node) -> None:
        super().__init__()
        self.body = body.module
        self._scanned = node.get("num_scan_inputs")
        self._states = body.inputs - self._scanned
        scan_outputs = len(node.outputs) - self._states
        self._axes = node.get("scan_input_axes") or [0] * self._scanned
        self._backward = node.get("scan_input_directions") or node.get("directions") or [0] * self._scanned
        self._out_axes = node.get("scan_output_axes") or [0] * scan_outputs
        self._out_backward = node.get("scan_output_directions") or [0] * scan_outputs

    def _get_name(self) -> str:
        return "Scan"

    def forward(self, *given: Any) -> Any:
        states, scanned = list(given[: self._states]), given[self._states : self._states + self._scanned]
        captured = given[self._states + self._scanned :]
        parts = [
            tuple(reversed(x.unbind(axis))) if backward else x.unbind(axis)
            for x, axis, backward in zip(scanned, self._axes, self._backward, strict=True)
        ]
        collected = []
        for slices in zip(*parts, strict=True):
            results = self.body(*states, *slices, *captured)
            states = list(results[: self._states])
            collected.append(results[self._states :])
        stacked = [
            torch.stack(tuple(reversed(each)) if backward else each, axis)
            for each, axis, backward in zip(
                zip(*collected, strict=True), self._out_axes, self._out_backward, strict=True
            )
        ]
        return _single([*states, *stacked])


class _BatchedScan(_Scan):
    """As opset 8 had it: each item of a batch for itself, with lengths before all other inputs."""

    def forward(self, *given: Any) -> Any:
        count = self._states + self._scanned
        lengths, values, captured = given[0], given[1 : 1 + count], given[1 + count :]
        items = []
        for row in range(values[0].shape[0]):
            own = [value[row] for value in values]
            if lengths is not None:
                own[self._states :] = [x[: int(lengths[row])] for x in own[self._states :]]
            result = super().forward(*own, *captured)
            items.append(result if isinstance(result, list | tuple) else [result])
        return _single([torch.stack(each) for each in zip(*items, strict=True)])


@operator("Scan")
def _scan(node: Node) -> Any:
    (body,), captured = _bodies(node, "body")
    kind = _BatchedScan if node.opset < 9 else _Scan
    return MadeModule(kind(body, node), tuple(range(len(node.inputs))), captured)


class _SequenceMap(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A body for each element of a sequence."""

    def __init__(self, body: Body, node: Node) -> None:
        super().__init__()
        self.body, self._count = body.module, len(node.inputs)

    def _get_name(self) -> str:
        return "SequenceMap"

    def forward(self, *given: Any) -> Any:
        mapped, captured = given[: self._count], given[self._count :]
        results = [
            self.body(*(each[place] if isinstance(each, list) else each for each in mapped), *captured)
            for place in range(len(mapped[0]))
        ]
        return _single([list(each) for each in zip(*results, strict=True)])


@operator("SequenceMap")
def _sequence_map(node: Node) -> Any:
    (body,), captured = _bodies(node, "body")
    return MadeModule(_SequenceMap(body, node), tuple(range(len(node.inputs))), captured)


def _inserted(values: list[Any], value: Any, place: Any = None) -> list[Any]:
    at = len(values) if place is None else int(place)
    at = at + len(values) if at < 0 else at
    return [*values[:at], value, *values[at:]]


def _erased(values: list[Any], place: Any = None) -> list[Any]:
    at = range(len(values))[-1 if place is None else int(place)]
    return [*values[:at], *values[at + 1 :]]


functions(
    {
        "SequenceConstruct": lambda *values: list(values),
        "SequenceEmpty": list,
        "SequenceAt": lambda values, place: values[int(place)],
        "SequenceInsert": _inserted,
        "SequenceErase": _erased,
        "Optional": lambda value=None: value,
        "OptionalGetElement": lambda value: value,
    }
)


_TOLD: dict[str, Callable[..., Any]] = {
    "SequenceLength": len,
    "OptionalHasElement": lambda value=None: value is not None,
}


@operator(*_TOLD)
def _told(node: Node) -> Any:
    tell = _TOLD[node.type]
    return OnDevice(node.type, lambda device, *values: torch.tensor(tell(*values), device=device))


@operator("ConcatFromSequence")
def _concat_from_sequence(node: Node) -> Any:
    axis = node.get("axis")
    join = torch.stack if node.get("new_axis", 0) else torch.cat
    return lambda values: join(values, axis)


@operator("SplitToSequence")
def _split_to_sequence(node: Node) -> Any:
    axis, keep = node.get("axis", 0), node.get("keepdims", 1)

    def split(x: Any, sizes: Any = None) -> Any:
        if sizes is None:
            parts = x.split(1, axis)
            return list(parts) if keep else [part.squeeze(axis) for part in parts]
        return list(x.split(on_host(sizes), axis))

    return split
