"""Values of any DuckDB type as JSON has them."""

import base64
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


class JsonValues:
    """Converts values, and counts the texts that it had to cut to `most_characters`."""

    def __init__(self, most_characters: int) -> None:
        self._most_characters = most_characters
        self.cut = 0

    def of(self, value: Any) -> Any:
        """The value: numbers, truth and None as they are, lists and structures likewise, all else as text."""
        match value:
            case None | bool() | int():
                return value
            case float() | Decimal():
                return float(value) if math.isfinite(value) else None
            case Mapping():
                return {str(key): self.of(each) for key, each in value.items()}
            case list() | tuple():
                return [self.of(each) for each in value]
            case _:
                return self._text(base64.b64encode(value).decode() if isinstance(value, bytes) else str(value))

    def _text(self, text: str) -> str:
        if len(text) <= self._most_characters:
            return text
        self.cut += 1
        return text[: self._most_characters - 1] + "…"
