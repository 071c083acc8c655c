"""The wire as lines of text, one for each field, value and method: `python tests/proto/wire_listing.py` prints them.

The lines of the last release lie in proto/released/wire.txt. A line holds all that two versions must agree on, so the
wire stays compatible as long as every released line is still there; new lines are what a version adds.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

WIRE = Path(__file__).parents[2] / "proto" / "enginebench_proto" / "v1"


def wire() -> list[str]:
    """Every line, sorted. The messages between agent and child are among them: the spool keeps some on disk."""
    return sorted(line for file in _files() for line in _of_file(file))


def _files() -> Iterator[FileDescriptor]:
    for path in sorted(WIRE.glob("*.proto")):
        yield importlib.import_module(f"enginebench_proto.v1.{path.stem}_pb2").DESCRIPTOR


def _of_file(file: FileDescriptor) -> Iterator[str]:
    for message in file.message_types_by_name.values():
        yield from _of_message(message)
    for values in file.enum_types_by_name.values():
        yield from _of_enum(values)
    for service in file.services_by_name.values():
        yield from _of_service(service)


def _of_message(message: Descriptor) -> Iterator[str]:
    yield f"message {message.full_name}"
    for field in message.fields:
        yield f"field {message.full_name}.{field.name} = {field.number} {_type(field)}"
    for nested in message.nested_types:
        yield from _of_message(nested)
    for values in message.enum_types:
        yield from _of_enum(values)


def _type(field: FieldDescriptor) -> str:
    written = _as_written(field)
    label = {1: "optional" if field.has_presence else "singular", 2: "required", 3: "repeated"}[written.label]
    named = written.type_name.lstrip(".") or written.Type.Name(written.type).removeprefix("TYPE_").lower()
    oneof = field.containing_oneof
    return " ".join([label, named, *([f"of {oneof.name}"] if oneof is not None else [])])


def _as_written(field: FieldDescriptor) -> Any:
    """The field's part of the .proto file as data; descriptors have no label that every protobuf runtime knows."""
    copy = DescriptorProto()
    field.containing_type.CopyToProto(copy)
    return next(one for one in copy.field if one.number == field.number)


def _of_enum(values: EnumDescriptor) -> Iterator[str]:
    for value in values.values:
        yield f"value {values.full_name}.{value.name} = {value.number}"


def _of_service(service: ServiceDescriptor) -> Iterator[str]:
    for method in service.methods:
        request = ("stream " if method.client_streaming else "") + method.input_type.full_name
        response = ("stream " if method.server_streaming else "") + method.output_type.full_name
        yield f"method {service.full_name}.{method.name}({request}) returns ({response})"


if __name__ == "__main__":
    sys.stdout.write("\n".join(wire()) + "\n")
