"""Whether a message says something that came with a later version than this agent's.

A field that is not known would be passed over in silence, and something else be measured than was asked for.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from enginebench_agent.errors import NewerRequestError


def check_known(message: Message) -> None:
    """Raises `NewerRequestError` for a field, at any depth, or a value of an enum that has no name here."""
    understood = type(message)()
    understood.CopyFrom(message)
    understood.DiscardUnknownFields()
    if understood.ByteSize() != message.ByteSize():
        raise NewerRequestError(f"this agent is too old for a part of this {message.DESCRIPTOR.name}.")
    for field, number in _enum_values(message):
        if number not in field.enum_type.values_by_number:
            raise NewerRequestError(f"this agent is too old for {field.name} {number}.")


def _enum_values(message: Message) -> Iterator[tuple[Any, int]]:
    for field, value in message.ListFields():
        if field.enum_type is not None:
            numbers = [value] if isinstance(value, int) else value
            yield from ((field, number) for number in numbers)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in [value] if isinstance(value, Message) else value:
                yield from _enum_values(part)
