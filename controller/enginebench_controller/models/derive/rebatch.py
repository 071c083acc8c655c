"""The one room where a model's fixed batch is rewritten, and where that is proven to change nothing but the batch."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, shape_inference

from enginebench_controller.errors import ModelError
from enginebench_controller.models.bounded import deriving
from enginebench_controller.models.derive.equivalence import DifferenceError, compare_item_by_item
from enginebench_controller.models.inputs.binding import Binding, GivenShapes, bind
from enginebench_controller.models.inputs.shapes import NO_BATCH
from enginebench_controller.models.library import ModelLibrary, add_child, load_whole
from enginebench_controller.records import Derivation, DerivationKind, InputValues, ModelVersion
from enginebench_controller.records.cause import cause

_SHAPE_INPUT = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0, "Resize": 3}
"""Which input of these operators is a shape; exporters freeze the batch into it."""

NewFirst = Callable[[int, int, int], int | None]
"""(size of a shape at the place of the batch, source batch, new batch) → its new size, or None to leave it."""

Axes = Mapping[str, int | None]
"""Which dimension of each input is the batch."""


@deriving
def rebatch(
    library: ModelLibrary,
    version: ModelVersion,
    batch: int,
    shapes: GivenShapes | None = None,
    said: Mapping[str, str] | None = None,
) -> ModelVersion:
    """A copy of `version` whose fixed batch is `batch`, derived once and then found again.

    The copy is kept only if ONNX Runtime computes the same outputs with it as with the source item by item. Raises
    `ModelError` with the reason where that cannot be shown; `shapes` closes further open dimensions for that check, in
    which inputs are filled as `said`, in the words of `--input`, as far as the items of a batch stay different.
    """
    bound = bind(library.describe(version), batch, shapes)
    if bound.fixed_batch is None:
        return version
    if known := library.derived(version, _derivation(batch, bound)):
        return known
    model = load_whole(library, version, f"rewritten for batch {batch}")
    try:
        return _rewrite(library, version, model, (bound.fixed_batch, batch), bound, bound.varied_values(said or {}))
    except DifferenceError as error:
        raise ModelError(
            f"{version.name} has a fixed batch of {bound.fixed_batch} and cannot be rewritten for batch {batch}: "
            f"{error}; export it with a dynamic batch, {_remedy(bound, bound.fixed_batch)}"
        ) from error


def _derivation(batch: int, bound: Binding) -> Derivation:
    """What is done, with the places of the batch where it is not in front."""
    axes = [f"{item.name}={item.batch_axis}" for item in bound.inputs if item.items is not None and item.batch_axis]
    axes += [f"{item.name}={NO_BATCH}" for item in bound.inputs if item.items is None and item.shape]
    return Derivation(DerivationKind.REBATCHED, batch=batch, said=", ".join(axes))


def _rewrite(
    library: ModelLibrary,
    version: ModelVersion,
    model: onnx.ModelProto,
    batches: tuple[int, int],
    bound: Binding,
    values: Sequence[InputValues],
) -> ModelVersion:
    """Try the ways a batch can be frozen into shapes, the plain one first. Raises the first way's error.

    The batch is taken to be at the same place within as it is in the inputs, or else in front.
    """
    first_error: DifferenceError | None = None
    axes = {item.name: item.batch_axis for item in bound.inputs}
    places = sorted({axis for axis in axes.values() if axis is not None} | {0}, reverse=True)
    for place, new_first in itertools.product(places, (_equal_to_batch, _multiple_of_batch)):
        try:
            derived = _with_batch(model, batches, axes, place, new_first)
            _prove(library, version, derived, batches, bound, values)
        except DifferenceError as error:
            first_error = first_error or error
        else:
            return add_child(library, version, derived, f"batch{batches[1]}", _derivation(batches[1], bound))
    raise first_error or DifferenceError("no way is known")


def _equal_to_batch(first: int, source_batch: int, batch: int) -> int | None:
    return batch if first == source_batch else None


def _multiple_of_batch(first: int, source_batch: int, batch: int) -> int | None:
    """Attention merges batch and heads into one dimension."""
    return first // source_batch * batch if first > 0 and first % source_batch == 0 else None


def _prove(
    library: ModelLibrary,
    version: ModelVersion,
    derived: onnx.ModelProto,
    batches: tuple[int, int],
    bound: Binding,
    values: Sequence[InputValues],
) -> None:
    source_path = library.main_path(version)
    inputs = [item.with_items(batches[1]) for item in bound.inputs]
    with library.scratch() as folder:
        path = folder / "model.onnx"
        path.write_bytes(derived.SerializeToString())
        compare_item_by_item(source_path, path, bound.inputs, inputs, values)


def _remedy(bound: Binding, fixed_batch: int) -> str:
    """What else may be done; a first size above 1 may as well be time steps, which are no items."""
    item = next(item for item in bound.inputs if item.items is not None)
    if fixed_batch == 1 or item.batch_axis:
        return f"or use --batch {fixed_batch}"
    return (
        f"use --batch {fixed_batch} if its {fixed_batch} are items, or say where the batch is if they are not, such as "
        f"time steps: --batch-axis {item.name}=1, or {item.name}={NO_BATCH}"
    )


def _with_batch(
    model: onnx.ModelProto, batches: tuple[int, int], axes: Axes, place: int, new_first: NewFirst
) -> onnx.ModelProto:
    """A copy with the new batch in its inputs, frozen shapes and outputs. Raises `DifferenceError`."""
    derived = onnx.ModelProto()
    derived.CopyFrom(model)
    # Before IR version 4 every initializer had to be an input as well; those added here are not.
    derived.ir_version = max(derived.ir_version, 4)
    for value in derived.graph.input:
        _set_batch(value, batches, axes.get(value.name))
    _Shapes(derived.graph, batches, place, new_first).rewrite()
    _forget_inferred(derived.graph)
    _infer_outputs(derived, batches, place)
    return derived


class _Shapes:
    """Rewrites the constants of one graph that hold the batch."""

    def __init__(self, graph: onnx.GraphProto, batches: tuple[int, int], place: int, new_first: NewFirst) -> None:
        self._graph = graph
        self._place = place
        self._source_batch, self._batch = batches
        self._new_first = new_first
        self._constants = dict(_constants(graph))
        self._per_item = _reached_from_inputs(graph, self._constants)

    def rewrite(self) -> None:
        for node in self._graph.node:
            if node.op_type in _SHAPE_INPUT:
                self._rewrite_shape(node, _SHAPE_INPUT[node.op_type])
            elif node.op_type == "Concat" and any(name in self._per_item for name in node.input):
                self._repeat_constants(node)

    def _rewrite_shape(self, node: onnx.NodeProto, place: int) -> None:
        name = node.input[place] if place < len(node.input) else ""
        if name not in self._constants or (node.op_type == "Reshape" and node.input[0] not in self._per_item):
            return
        sizes = numpy_helper.to_array(self._constants[name]).copy()
        if sizes.ndim != 1 or sizes.size <= self._place or (node.op_type != "Reshape" and sizes.size < 2):
            return
        first = self._new_first(int(sizes[self._place]), self._source_batch, self._batch)
        if first is not None:
            sizes[self._place] = first
            self._replace_input(node, place, sizes)

    def _repeat_constants(self, node: onnx.NodeProto) -> None:
        """A constant that is joined to every item, such as a class token, is needed once for every item."""
        axis = next(attribute.i for attribute in node.attribute if attribute.name == "axis")
        for place, name in enumerate(node.input):
            dims = list(self._constants[name].dims) if name in self._constants else []
            at = self._place
            if len(dims) < max(2, at + 1) or axis % len(dims) == at or dims[at] != self._source_batch:
                continue
            rows = numpy_helper.to_array(self._constants[name])
            one = np.take(rows, [0], at)
            if (rows == one).all():
                self._replace_input(node, place, np.repeat(one, self._batch, axis=at))

    def _replace_input(self, node: onnx.NodeProto, place: int, values: NDArray[Any]) -> None:
        """Give this node a constant of its own: others may read the old one with another meaning."""
        name = f"{node.input[place]}_batch{self._batch}_{node.output[0]}"
        self._graph.initializer.append(numpy_helper.from_array(values, name))
        node.input[place] = name


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                yield node.output[0], attribute.t
            elif attribute.name == "value_ints":
                yield node.output[0], numpy_helper.from_array(np.array(attribute.ints, np.int64))


def _reached_from_inputs(graph: onnx.GraphProto, constants: Iterable[str]) -> set[str]:
    """Values that depend on the content of an input, not only on its shape."""
    reached = {value.name for value in graph.input}.difference(constants)
    for node in graph.node:
        if node.op_type not in {"Shape", "Size"} and not reached.isdisjoint(node.input):
            reached.update(node.output)
    return reached


def _set_batch(value: onnx.ValueInfoProto, batches: tuple[int, int], axis: int | None) -> None:
    dims = value.type.tensor_type.shape.dim
    if axis is not None and axis < len(dims) and dims[axis].dim_value == batches[0]:
        dims[axis].dim_value = batches[1]


def _forget_inferred(graph: onnx.GraphProto) -> None:
    """Intermediate shapes still tell of the old batch."""
    graph.ClearField("value_info")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _forget_inferred(inner)


def _infer_outputs(model: onnx.ModelProto, batches: tuple[int, int], place: int) -> None:
    """Let strict inference say what the outputs are now; where it cannot, keep the old shape with the new batch."""
    stated = onnx.GraphProto()
    stated.output.extend(model.graph.output)
    for value in stated.output:
        _set_batch(value, batches, place)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise DifferenceError(f"its shapes no longer fit ({cause(str(error))})") from error
    for value, new, old in zip(model.graph.output, inferred.graph.output, stated.output, strict=True):
        known = new if new.type.tensor_type.HasField("shape") else old
        value.CopyFrom(known)
