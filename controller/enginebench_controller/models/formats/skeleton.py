"""Reads an ONNX file without its weights, so that a model of gigabytes is described in megabytes of memory.

What is small is copied as it stands; what is big is entered if it can hold graphs or tensors, else stepped over.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import DecodeError

from enginebench_controller.errors import ModelError
from enginebench_proto.agreed.onnx_wire import LENGTH, Field, MalformedModelError, fields

KEPT_PAYLOAD_BYTES = 64 * 1024
"""Payloads up to this size stay: the shapes that Reshape and its kin take as inputs are among them."""

_MAX_KEPT_BYTES = 512 * 1024 * 1024
_MAX_DEPTH = 100
_OUT_OF_MEMORY, _TOO_DEEP = "alloc failed", "MaxDepth"
"""Words of protobuf, which has one error for all."""

MAX_NODES = 200_000
"""Engines take minutes for fewer. Each costs some 2 kB where shapes are inferred."""

_TENSOR_CONTENT = frozenset(
    onnx.TensorProto.DESCRIPTOR.fields_by_name[name].number
    for name in (
        "float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data",
    )
)  # fmt: skip
_RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number

_Part = tuple[int, int]
"""Where something lies in the file: its first byte, and how many it has."""


@dataclass(frozen=True)
class _Message:
    """A message type worth entering: which fields hold messages like it, and which are a tensor's content."""

    children: Mapping[int, "_Message"] = field(default_factory=dict)
    payloads: frozenset[int] = frozenset()


def _message_types() -> _Message:
    """The message types of onnx.proto that can hold tensors, from ModelProto down."""
    tensor = _Message(payloads=_TENSOR_CONTENT)
    sparse = _Message(_fields(onnx.SparseTensorProto, values=tensor, indices=tensor))
    inner: dict[int, _Message] = {}
    graph = _Message(inner)
    attribute = _Message(
        _fields(
            onnx.AttributeProto, t=tensor, tensors=tensor, g=graph, graphs=graph,
            sparse_tensor=sparse, sparse_tensors=sparse,
        )
    )  # fmt: skip
    node = _Message(_fields(onnx.NodeProto, attribute=attribute))
    inner |= _fields(onnx.GraphProto, node=node, initializer=tensor, sparse_initializer=sparse)
    training = _Message(_fields(onnx.TrainingInfoProto, initialization=graph, algorithm=graph))
    function = _Message(_fields(onnx.FunctionProto, node=node))
    return _Message(_fields(onnx.ModelProto, graph=graph, training_info=training, functions=function))


def _fields(message: type, **children: _Message) -> dict[int, _Message]:
    numbers = message.DESCRIPTOR.fields_by_name  # type: ignore[attr-defined]  # generated classes have it
    return {numbers[name].number: child for name, child in children.items()}


_MODEL = _message_types()
_NODE = _MODEL.children[onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number].children[
    onnx.GraphProto.DESCRIPTOR.fields_by_name["node"].number
]


_Name = tuple[str, str]
"""Domain and name of an operator or a function."""


class _EndlessError(Exception):
    """The model unfolds too far; the text completes "<file> "."""


def load_skeleton(path: Path, *, located: bool = False) -> onnx.ModelProto:
    """The model with names, types, dims and small payloads; bigger payloads (and strings) are left out.

    `located` notes in the `external_data` of a tensor that lost its payload where its whole message lies in this very
    file, as "offset" and "length" in bytes, and where its elements do that are stored raw, as "raw_offset" and
    "raw_length"; its `data_location` stays as it was. Raises `ModelError` for a file that is missing, unreadable,
    empty, truncated or something else than ONNX.
    """
    try:
        with path.open("rb") as file:
            model = _parse(file, located=located)
    except OSError as error:
        raise ModelError(f"cannot read the model {path}: {error.strerror}; check the path") from error
    except _EndlessError as error:
        raise _endless(error, path) from error
    except (MalformedModelError, DecodeError) as error:
        if _OUT_OF_MEMORY in str(error):
            raise MemoryError from error
        if _TOO_DEEP in str(error):
            raise _endless(_EndlessError(f"nests its graphs more than {_MAX_DEPTH} messages deep"), path) from error
        reason = error if isinstance(error, MalformedModelError) else "its content does not parse"
        raise ModelError(
            f"{path} is not a whole ONNX model: {reason}; download or export it again, and check that Git LFS did "
            "not leave a pointer in its place"
        ) from error
    return model


def has_payload(tensor: onnx.TensorProto) -> bool:
    """False for a tensor whose content was left out or lies in another file."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    return 0 in tensor.dims or any(field.number in _TENSOR_CONTENT for field, _ in tensor.ListFields())


def _parse(file: BinaryIO, *, located: bool) -> onnx.ModelProto:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise MalformedModelError("it is empty")
    with mmap(file.fileno(), size, access=ACCESS_READ) as content:
        model = onnx.ModelProto.FromString(_Walk(content, located=located).message(_MODEL, 0, size))
    if not (model.HasField("graph") and (model.graph.node or model.graph.output)):
        raise MalformedModelError("it holds no graph")
    if not model.opset_import:
        raise MalformedModelError("it names no operator set, so it is cut off or is something else")
    _count_unfolded(model)
    return model


def refuse_endless(model: onnx.ModelProto, path: Path) -> None:
    """Raise `ModelError` for a model that unfolds to more than `MAX_NODES` nodes, or never ends to unfold.

    Every call of a function of the model's own is unfolded, by ONNX's shape inference as by engines: a few functions
    that each call the one before twice come to millions of nodes.
    """
    try:
        _count_unfolded(model)
    except _EndlessError as error:
        raise _endless(error, path) from error


def _endless(error: "_EndlessError", path: Path) -> ModelError:
    return ModelError(f"{path} {error}; export it anew, with fewer nodes, functions and graphs within graphs")


def _count_unfolded(model: onnx.ModelProto) -> None:
    bodies = {(_domain(one.domain), one.name): Counter(_calls(one.node)) for one in model.functions}
    waiting_for = {name: bodies.keys() & body.keys() for name, body in bodies.items()}
    callers: defaultdict[_Name, list[_Name]] = defaultdict(list)
    for name, called in waiting_for.items():
        for one in called:
            callers[one].append(name)
    ready = [name for name, called in waiting_for.items() if not called]
    nodes: dict[_Name, int] = {}
    while ready:
        done = ready.pop()
        nodes[done] = _unfolded(bodies[done], nodes)
        for caller in callers[done]:
            waiting_for[caller].discard(done)
            if not waiting_for[caller]:
                ready.append(caller)
    if circular := [name for name, called in waiting_for.items() if called]:
        raise _EndlessError(f"never ends to unfold: its function {circular[0][1]!r} calls itself, or one that does")
    _refuse_more(_unfolded(Counter(_calls(model.graph.node)), nodes))


def _unfolded(calls: Counter["_Name"], nodes: Mapping["_Name", int]) -> int:
    """The nodes that these stand for; more than anybody could count is as good as endless."""
    return min(10**30, sum(count * (1 + nodes.get(name, 0)) for name, count in calls.items()))


def _calls(nodes: Iterable[onnx.NodeProto]) -> Iterable["_Name"]:
    """What each node calls, operators and functions alike, those within graphs of nodes too."""
    for node in nodes:
        yield _domain(node.domain), node.op_type
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _calls(graph.node)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _refuse_more(nodes: int) -> None:
    if nodes > MAX_NODES:
        raise _EndlessError(f"unfolds to more than {MAX_NODES:,} nodes, which is as many as can be looked at")


class _Walk:
    """Copies messages, leaving out what is big and no message."""

    def __init__(self, content: mmap, *, located: bool = False) -> None:
        self._content = content
        self._located = located
        self._kept_bytes = 0
        self._nodes = 0

    def message(self, kind: _Message, begin: int, end: int, depth: int = 0) -> bytes:
        """The message between two places, without its big payloads."""
        if depth > _MAX_DEPTH:
            raise _EndlessError(f"nests its graphs more than {_MAX_DEPTH} messages deep")
        kept = bytearray()
        payload = bytearray()
        payload_bytes = 0
        parts: list[Field] = []
        for one in fields(self._content, begin, end):
            part = self._field(kind, one, depth)
            if one.number not in kind.payloads:
                kept += part
                continue
            payload_bytes += one.end - one.start
            parts.append(one)
            if payload_bytes <= KEPT_PAYLOAD_BYTES:
                payload += part
        if payload_bytes <= KEPT_PAYLOAD_BYTES:
            return bytes(kept + payload)
        raw = (parts[0].begin, parts[0].end - parts[0].begin) if [one.number for one in parts] == [_RAW_DATA] else None
        return bytes(kept) + (_place((begin, end - begin), raw) if self._located else b"")

    def _field(self, kind: _Message, one: Field, depth: int) -> bytes:
        """One field with its key, or nothing where it is too big to keep."""
        child = kind.children.get(one.number) if one.wire_type == LENGTH else None
        if child is _NODE:
            self._nodes += 1
            _refuse_more(self._nodes)
        if one.end - one.begin <= KEPT_PAYLOAD_BYTES:
            return self._take(one)
        if child is None:
            return b""
        message = self.message(child, one.begin, one.end, depth + 1)
        return _encode(one.number << 3 | LENGTH) + _encode(len(message)) + message

    def _take(self, one: Field) -> bytes:
        self._kept_bytes += one.end - one.start
        if self._kept_bytes > _MAX_KEPT_BYTES:
            raise MalformedModelError(f"it has more than {_MAX_KEPT_BYTES >> 20} MiB beside its weights")
        return self._content[one.start : one.end]


def _place(whole: _Part, raw: _Part | None) -> bytes:
    """The note of `load_skeleton` as fields of a TensorProto."""
    tensor = onnx.TensorProto()
    for prefix, part in (("", whole), ("raw_", raw)):
        for key, value in zip(("offset", "length"), part or (), strict=False):
            tensor.external_data.add(key=prefix + key, value=str(value))
    content: bytes = tensor.SerializeToString()
    return content


def _encode(value: int) -> bytes:
    """A varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
