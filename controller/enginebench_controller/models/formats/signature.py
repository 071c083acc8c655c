"""A model seen from the outside: its format, inputs and outputs, and how far the integers of an input may go."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_proto.agreed.words import ModelFormat

SAME_VALUES = frozenset({
    "Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Slice", "Flatten", "Transpose", "Expand", "Tile",
    "Split", "Concat",
    "Convert", "StridedSlice", "Broadcast", "VariadicSplit",
})  # fmt: skip
"""Operators (ONNX's, then OpenVINO's) that only move or retype the numbers of their first input (Concat: of all)."""


@dataclass(frozen=True)
class Operation:
    """One operation, reduced to what bounds depend on. Values are named by anything hashable."""

    type: str
    inputs: Sequence[Hashable]
    outputs: Sequence[Hashable]
    gathers_rows: bool = False
    """True for a Gather along axis 0: its inputs are (table, row numbers)."""


def integer_bounds(
    inputs: Iterable[str], operations: Sequence[Operation], table_rows: Mapping[Hashable, int]
) -> dict[str, int]:
    """For each input that selects rows of tables, the rows of the smallest one.

    `table_rows` gives the first dimension of each constant. Inputs are followed through operations that keep values.
    """
    rows = _with_converted_tables(operations, table_rows)
    readers: defaultdict[Hashable, list[Operation]] = defaultdict(list)
    for operation in operations:
        for value in operation.inputs:
            readers[value].append(operation)
    bounds = {name: _smallest_table(name, readers, rows) for name in inputs}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _with_converted_tables(operations: Sequence[Operation], table_rows: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """Tables also reach a Gather through a conversion: half precision in IR, integers in quantized models."""
    rows = dict(table_rows)
    for operation in operations:
        if operation.type in {"Cast", "Convert", "Identity", "DequantizeLinear"} and operation.inputs[0] in rows:
            rows.update(dict.fromkeys(operation.outputs, rows[operation.inputs[0]]))
    return rows


def _smallest_table(
    start: Hashable, readers: Mapping[Hashable, Sequence[Operation]], rows: Mapping[Hashable, int]
) -> int | None:
    seen, waiting, found = {start}, [start], []
    while waiting:
        value = waiting.pop()
        for operation in readers.get(value, ()):
            if operation.gathers_rows and operation.inputs[1] == value and operation.inputs[0] in rows:
                found.append(rows[operation.inputs[0]])
            elif operation.type in SAME_VALUES and (operation.type == "Concat" or operation.inputs[0] == value):
                waiting += [output for output in operation.outputs if output not in seen]
                seen.update(operation.outputs)
    return min(found, default=None)


Dims = tuple[int | str | None, ...]
"""Sizes; a name where the model names an open dimension, None where it leaves it open without one."""


@dataclass(frozen=True)
class InputDescription:
    """One input. `dims` is None where not even the rank is known; integers stay below `integer_bound` if any."""

    name: str
    dtype: str
    dims: Dims | None
    integer_bound: int | None = None


@dataclass(frozen=True)
class OutputDescription:
    """One output; `dims` is None where not even the rank is known."""

    name: str
    dtype: str
    dims: Dims | None


@dataclass(frozen=True)
class ModelDescription:
    """A model from the outside. Formats that only their engine can read have no inputs here.

    `format` is a `ModelFormat`, or the name of one that a plugin brings.
    """

    format: str
    inputs: tuple[InputDescription, ...] = ()
    outputs: tuple[OutputDescription, ...] = ()
    opset: int | None = None
    producer: str | None = None

    @property
    def inputs_known(self) -> bool:
        """False where `inputs` is empty because nobody could look inside."""
        return self.format in {ModelFormat.ONNX, ModelFormat.OPENVINO_IR}

    @property
    def engine_tells_inputs(self) -> bool:
        """True where a plugin brings the format: its engine finds the inputs in the file."""
        return self.format not in frozenset(ModelFormat)
