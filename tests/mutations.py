"""Strategies for hostile inputs: bytes, messages and documents that were sound, and were then edited.

What was sound before gets past the first checks, so that the later ones see something too.
"""

import copy
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

HOSTILE_TEXTS = (
    "", " ", ".", "..", "../../etc/passwd", "/etc/passwd", "a/../../b", "a\\b", "a\0b", "a\nb", "\x1b[2J\x1b]0;x\x07",
    "%n%s%x", "$(id)", "`id`", "'; DROP TABLE runs; --", "<script>alert(1)</script>", "=cmd|'/c calc'!A0", "[/b]",
    "{0.__class__}", "nan", "inf", "-1", "1e999", "9" * 400, "x" * 10_000, "ü" * 3_000, "\u202e", "\ufeff", "🦄",
    "*/_ORT_MEM_ADDR_/*", "file:///etc/passwd", "libevil.so", "0" * 64, "f" * 64, "run-1", "CPU", "FAKE:0", "f32",
)  # fmt: skip
HOSTILE_INTEGERS = (0, 1, -1, 2, 7, 127, 255, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, -(2**63))
HOSTILE_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"))

texts = st.sampled_from(HOSTILE_TEXTS) | st.text(max_size=40)
_LEVELS = 6
_INTEGER_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


@st.composite
def edited_bytes(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """One of the originals with bytes changed, cut out, doubled or put in, or cut off."""
    content = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        length = draw(st.sampled_from((1, 2, 4, 8, 64)))
        match draw(st.integers(0, 7)):
            case 0 | 1 | 2 if content:
                content[place] ^= 1 << draw(st.integers(0, 7))
            case 3 if content:
                content[place] = draw(st.integers(0, 255))
            case 4:
                del content[place : place + length]
            case 5:
                content[place:place] = content[place : place + length]
            case 6:
                content[place:place] = draw(st.binary(min_size=1, max_size=8))
            case _:
                del content[max(place, 1) :]
    return bytes(content)


@st.composite
def edited_message(draw: st.DrawFn, original: Message, edits: int = 4) -> Any:
    """A copy with some fields, at any depth, set to something else."""
    message = type(original)()
    message.CopyFrom(original)
    for _ in range(draw(st.integers(1, edits))):
        _edit(draw, message, _LEVELS)
    return message


def _edit(draw: st.DrawFn, message: Message, levels: int) -> None:
    fields = [field for field in message.DESCRIPTOR.fields if levels or field.message_type is None]
    if not fields:
        return
    inner = [field for field, _ in message.ListFields() if levels and field.message_type is not None]
    if inner and draw(st.integers(0, 3)):  # most of what there is to see lies deep
        fields = inner
    field = draw(st.sampled_from(fields))
    if field.is_repeated:
        _edit_repeated(draw, message, field, levels)
    elif field.message_type is None:
        setattr(message, field.name, draw(_scalar(field)))
    elif draw(st.integers(0, 9)) == 0:
        message.ClearField(field.name)
    else:
        getattr(message, field.name).SetInParent()
        _edit(draw, getattr(message, field.name), levels - 1)


def _edit_repeated(draw: st.DrawFn, message: Message, field: Any, levels: int) -> None:
    values = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        if value.message_type is None:
            values[draw(_scalar(key))] = draw(_scalar(value))
        return
    match draw(st.integers(0, 4)):
        case 0:
            message.ClearField(field.name)
        case 1 if values:
            values.extend([copy.deepcopy(values[0])] * draw(st.sampled_from((1, 2, 300))))
        case _ if field.message_type is None:
            values.append(draw(_scalar(field)))
        case 2:
            _edit(draw, values.add(), levels - 1)
        case _:
            _edit(draw, draw(st.sampled_from(list(values))) if values else values.add(), levels - 1)


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=40)
        case FieldDescriptor.CPPTYPE_STRING:
            return texts
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return st.sampled_from(HOSTILE_FLOATS) | st.floats(width=32)
        case FieldDescriptor.CPPTYPE_ENUM if field.enum_type.is_closed:
            return st.sampled_from([value.number for value in field.enum_type.values])
    low, high = _INTEGER_RANGES[field.cpp_type]
    return st.sampled_from([each for each in HOSTILE_INTEGERS if low <= each <= high]) | st.integers(low, high)


@st.composite
def edited_document(draw: st.DrawFn, original: Any) -> Any:
    """A copy of a JSON document with some values, at any depth, removed, doubled or set to something else."""
    document = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 4))):
        _edit_value(draw, document)
    return document


def _edit_value(draw: st.DrawFn, container: Any) -> None:
    """Go down to some value and change it there; at each level the way may end."""
    while isinstance(container, dict | list) and container:
        key = draw(st.sampled_from(sorted(container) if isinstance(container, dict) else range(len(container))))
        if isinstance(container[key], dict | list) and container[key] and draw(st.integers(0, 5)):
            container = container[key]
            continue
        match draw(st.integers(0, 3)):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case _:
                container[key] = copy.deepcopy(draw(_json_values))  # a later edit may go down into it
        return


_json_values = st.one_of(
    st.none(),
    st.booleans(),
    texts,
    st.sampled_from(HOSTILE_INTEGERS),
    st.sampled_from([value for value in HOSTILE_FLOATS if abs(value) < float("inf")]),
    st.just([]),
    st.just({}),
    st.just([[[]]]),
    st.just({"name": None}),
)
