"""Operators that take elements from places, put them at places, or tell the places: gathering, scattering, unique."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from enginebench_plugins.engines.torch.dtypes import to_array
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, MadeModule, Node, device_of, operator


@operator("Gather")
def _gather(node: Node) -> Any:
    axis, indices = node.get("axis", 0), node.constant(1)
    if indices is not None and indices.ndim == 0:
        place = int(indices)

        def take(x: Any) -> Any:
            return np.take(x, place, axis) if isinstance(x, np.ndarray) else x.select(axis, place)

        return MadeModule(take, (0,))

    def gather(x: Any, places: Any) -> Any:
        if isinstance(x, np.ndarray):
            return np.take(x, places.numpy(), axis)
        return x[(*(slice(None),) * (axis % x.ndim), places if places.dtype == torch.int64 else places.long())]

    return gather


@operator("GatherElements")
def _gather_elements(node: Node) -> Any:
    axis = node.get("axis", 0)
    return lambda x, indices: torch.gather(x, axis, _positive(indices, x.shape[axis]))


def _positive(indices: Any, size: int) -> Any:
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


@operator("GatherND", domain=MICROSOFT)
@operator("GatherND")
def _gather_nd(node: Node) -> Any:
    batch = node.get("batch_dims", 0)

    def gather(x: Any, indices: Any) -> Any:
        lead = tuple(x.shape[:batch])
        rows = int(np.prod(lead, dtype=np.int64))
        flat, places = x.reshape(rows, *x.shape[batch:]), indices.reshape(rows, -1, indices.shape[-1]).long()
        row = torch.arange(rows, device=x.device).reshape(-1, 1).expand(places.shape[:2])
        taken = flat[(row, *places.unbind(-1))]
        return taken.reshape(*lead, *indices.shape[batch:-1], *taken.shape[2:])

    return gather


REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def _scatter_elements(node: Node) -> Any:
    axis, reduction = node.get("axis", 0), node.get("reduction", "none")

    def scatter(x: Any, indices: Any, updates: Any) -> Any:
        places = _positive(indices, x.shape[axis])
        if reduction == "none":
            return x.scatter(axis, places, updates)
        return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction])

    return scatter


@operator("ScatterND")
def _scatter_nd(node: Node) -> Any:
    reduction = node.get("reduction", "none")

    def scatter(x: Any, indices: Any, updates: Any) -> Any:
        depth = indices.shape[-1]
        places = indices.reshape(-1, depth).long()
        rows = torch.zeros(len(places), dtype=torch.int64, device=x.device)
        for axis in range(depth):
            rows = rows * x.shape[axis] + _positive(places[:, axis], x.shape[axis])
        tail = x.shape[depth:]
        width = int(np.prod(tail, dtype=np.int64))  # -1 means nothing where there are no elements
        flat = x.reshape(int(np.prod(x.shape[:depth], dtype=np.int64)), width)
        news = updates.reshape(len(rows), width)
        if reduction == "none":
            flat = flat.index_copy(0, rows, news)
        elif reduction == "add":
            flat = flat.index_add(0, rows, news)
        else:
            flat = flat.index_reduce(0, rows, news, REDUCTIONS[reduction])
        return flat.reshape(*x.shape[:depth], *tail)

    return scatter


@operator("TensorScatter")
def _tensor_scatter(node: Node) -> Any:
    axis, circular = node.get("axis", -2), node.get("mode", "linear") == "circular"

    def scatter(past: Any, update: Any, starts: Any = None) -> Any:
        result, length = past.clone(), update.shape[axis]
        for row in range(past.shape[0]):
            start = 0 if starts is None else int(starts[row])
            places = torch.arange(start, start + length, device=past.device)
            places = places % past.shape[axis] if circular else places
            result[row].index_copy_((axis % past.ndim) - 1, places, update[row])
        return result

    return scatter


@operator("NonZero")
def _non_zero(_node: Node) -> Any:
    # A single value is taken for a vector of one, as ONNX Runtime has it.
    return lambda x: torch.nonzero(x if x.ndim else x.reshape(1)).t()


@operator("Compress")
def _compress(node: Node) -> Any:
    axis = node.get("axis")

    def compress(x: Any, condition: Any) -> Any:
        flat, along = (x.reshape(-1), 0) if axis is None else (x, axis)
        return flat.index_select(along, condition[: flat.shape[along]].nonzero().reshape(-1))

    return compress


@operator("Unique", domain=MICROSOFT)
def _unique_as_they_come(node: Node) -> Any:
    whole = _unique(replace(node, attributes={"sorted": 0}, outputs=("", "", "", "")))

    def unique(x: Any) -> Any:
        values, _, inverse, counts = whole(x)
        return (values, inverse, counts)[: len(node.outputs)] if len(node.outputs) > 1 else values

    return unique


@operator("Unique")
def _unique(node: Node) -> Any:
    axis, in_order = node.get("axis"), node.get("sorted", 1)

    def unique(x: Any) -> Any:
        array = to_array(x)
        values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
        inverse = inverse.reshape(-1)
        if not in_order:
            order = np.argsort(first)
            values = np.take(values, order, 0 if axis is None else axis)
            first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
        device = device_of(x)
        kept = torch.from_numpy(values).to(device, x.dtype) if isinstance(x, torch.Tensor) else values
        rest = (torch.from_numpy(np.ascontiguousarray(each)).long().to(device) for each in (first, inverse, counts))
        results = (kept, *rest)
        return results[: len(node.outputs)] if len(node.outputs) > 1 else kept

    return unique
