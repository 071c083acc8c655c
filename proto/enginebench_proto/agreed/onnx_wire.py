"""ONNX files read and written field by field, without the onnx package, which not every environment has.

The protobuf wire format is walked in place, and weights are stepped over: https://protobuf.dev/programming-guides/encoding/
Whoever loads the file merges fields that come more than once; here each occurrence counts for itself.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MAX_DEPTH = 100
"""As deep as protobuf's own parsers go."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

_TENSOR = "tensor"
_CHILDREN: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: _TENSOR, 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: _TENSOR, 2: _TENSOR},
}
"""By kind of message: the fields through which tensors are reached. The numbers are those of onnx.proto."""

_DIMS, _DATA_TYPE, _NAME, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 8, 13, 14
_CONTENT = frozenset({4, 5, 6, 7, 9, 10, 11})
_EXTERNAL = 1


class MalformedModelError(ValueError):
    """The bytes are no model of the format they are said to have; the text says where that shows."""


@dataclass(frozen=True)
class DeclaredTensor:
    """What a file says of one tensor. `content_bytes` are those of its elements within the file itself.

    `data_type` is the number of their type in onnx.proto, 0 where none is said.
    `external_data` has every entry, also those that contradict each other; without any the content lies in the file,
    unless `is_external` says otherwise.
    """

    name: str
    dims: tuple[int, ...]
    data_type: int
    content_bytes: int
    is_external: bool
    external_data: tuple[tuple[str, str], ...]


class Field(NamedTuple):
    """One field of a message: where it starts, where its content begins and ends; `value` is that of a varint."""

    number: int
    wire_type: int
    start: int
    begin: int
    end: int
    value: int


def declared_tensors(path: Path) -> Iterator[DeclaredTensor]:
    """Every tensor of the model file, subgraphs, functions and training included. Raises `MalformedModelError`."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise MalformedModelError("the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield from _within(content, "model", 0, len(content), 0)


def declared_inputs(path: Path) -> dict[str, tuple[int | str | None, ...]]:
    """The shape of each input of the model's graph, where one is said: sizes, names of sizes, None for others.

    Weights that are inputs too are among them. Raises `MalformedModelError`, also for a file without a graph.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise MalformedModelError("the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            graphs = list(_at(content, range(len(content)), _GRAPH))
            if not graphs:
                raise MalformedModelError("it has no graph")
            return dict(_input(content, each) for graph in graphs for each in _at(content, graph, _INPUT))


_GRAPH, _INPUT, _INPUT_NAME, _DIM_SIZE, _DIM_NAME = 7, 11, 1, 1, 2
_TO_SHAPE, _DIM = (2, 1, 2), 1
"""From an input to its shape: type, tensor_type, shape; and there each dimension."""


def _input(content: mmap.mmap, whole: range) -> tuple[str, tuple[int | str | None, ...]]:
    name = "".join(_read(content, one) for one in _at(content, whole, _INPUT_NAME))
    places = [whole]
    for number in _TO_SHAPE:
        places = [inner for place in places for inner in _at(content, place, number)]
    return name, tuple(_dim(content, one) for place in places for one in _at(content, place, _DIM))


def _dim(content: mmap.mmap, whole: range) -> int | str | None:
    size: int | str | None = None
    for field in fields(content, whole.start, whole.stop):
        if field.number == _DIM_SIZE and field.wire_type == VARINT:
            size = field.value
        elif field.number == _DIM_NAME and field.wire_type == LENGTH:
            size = _text(content, field) or None
    return size


def _at(content: mmap.mmap, whole: range, number: int) -> Iterator[range]:
    """Where the messages and texts of this number lie in the message between two places."""
    for field in fields(content, whole.start, whole.stop):
        if field.number == number and field.wire_type == LENGTH:
            yield range(field.begin, field.end)


def _read(content: mmap.mmap, whole: range) -> str:
    return content[whole.start : whole.stop].decode("utf-8", "replace")


def _within(content: mmap.mmap, kind: str, begin: int, end: int, depth: int) -> Iterator[DeclaredTensor]:
    if depth > MAX_DEPTH:
        raise MalformedModelError(f"its graphs are nested more than {MAX_DEPTH} deep")
    children = _CHILDREN[kind]
    for field in fields(content, begin, end):
        child = children.get(field.number)
        if child is None or field.wire_type != LENGTH:
            continue
        if child == _TENSOR:
            yield _tensor(content, field)
        else:
            yield from _within(content, child, field.begin, field.end, depth + 1)


def _tensor(content: mmap.mmap, whole: Field) -> DeclaredTensor:
    name, dims, data_type, content_bytes, is_external = "", [], 0, 0, False
    external_data = []
    for field in fields(content, whole.begin, whole.end):
        if field.number in _CONTENT:
            content_bytes += field.end - field.start
        elif field.number == _DIMS:
            dims += _integers(content, field)
        elif field.number == _DATA_TYPE:
            data_type = field.value
        elif field.number == _NAME:
            name = _text(content, field)
        elif field.number == _EXTERNAL_DATA:
            external_data.append(_entry(content, field))
        elif field.number == _DATA_LOCATION:
            is_external |= field.value == _EXTERNAL
    return DeclaredTensor(name, tuple(dims), data_type, content_bytes, is_external, tuple(external_data))


def _entry(content: mmap.mmap, whole: Field) -> tuple[str, str]:
    texts = {field.number: _text(content, field) for field in fields(content, whole.begin, whole.end)}
    return texts.get(1, ""), texts.get(2, "")


def _integers(content: mmap.mmap, field: Field) -> list[int]:
    """One value, or several that were packed."""
    if field.wire_type == VARINT:
        return [field.value]
    values, position = [], field.begin
    while field.wire_type == LENGTH and position < field.end:
        value, position = _varint(content, position, field.end)
        values.append(value)
    return values


def _text(content: mmap.mmap, field: Field) -> str:
    return content[field.begin : field.end].decode("utf-8", "replace")


def fields(content: mmap.mmap, position: int, end: int) -> Iterator[Field]:
    """The fields of the message between two places. Raises `MalformedModelError` for one that is cut off or unknown."""
    while position < end:
        start = position
        key, begin = _varint(content, start, end)
        wire_type, value = key & 7, 0
        if key >> 3 == 0 or wire_type not in {VARINT, LENGTH, FIXED64, FIXED32}:
            raise MalformedModelError("it has an unknown kind of field")
        if wire_type == VARINT:
            value, position = _varint(content, begin, end)
        elif wire_type == LENGTH:
            length, begin = _varint(content, begin, end)
            position = begin + length
        else:
            position = begin + (8 if wire_type == FIXED64 else 4)
        if position > end:
            raise MalformedModelError(f"it is cut off, {position - end} bytes are missing")
        yield Field(key >> 3, wire_type, start, begin, position, value)


def _varint(content: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """The number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise MalformedModelError("it is cut off in the middle of a number")
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedModelError("it has a number of more than ten bytes")
