"""Fields that a message may leave out, because what they would say is unknown."""

from typing import Any

from google.protobuf.message import Message


def optional(message: Message, name: str) -> Any:
    """The value of a field, or None where the sender left it out."""
    return getattr(message, name) if message.HasField(name) else None
