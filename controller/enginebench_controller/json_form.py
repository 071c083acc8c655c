"""The nested parts of records as plain JSON-able data, and back: one form for the store, the documents and the exports.

Enums become their names, tuples lists, and a number that is not finite null. Reading back validates and raises
pydantic's `ValidationError`.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter

from enginebench_controller.records import (
    Configuration,
    Effective,
    Failure,
    LatencySummary,
    ModelFile,
    Phase,
)

T = TypeVar("T")


class JsonForm(Generic[T]):
    """Both directions for one type."""

    def __init__(self, adapter: TypeAdapter[T]) -> None:
        self._adapter = adapter

    def to_data(self, record: T) -> Any:
        """Return the record as data that `json.dumps(…, allow_nan=False)` accepts."""
        return finite(self._adapter.dump_python(record, mode="json"))

    def from_data(self, data: Any) -> T:
        """Return the record that `to_data` was given."""
        return self._adapter.validate_python(data)


CONFIGURATION: Final = JsonForm(TypeAdapter(Configuration))
EFFECTIVE: Final = JsonForm(TypeAdapter(Effective))
FAILURE: Final = JsonForm(TypeAdapter(Failure))
LATENCY: Final = JsonForm(TypeAdapter(LatencySummary))
MODEL_FILES: Final = JsonForm(TypeAdapter(tuple[ModelFile, ...]))
PHASES: Final = JsonForm(TypeAdapter(tuple[Phase, ...]))


def finite(data: Any) -> Any:
    """Copy JSON-able data with NaN and infinities, which JSON lacks, replaced by None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(item) for item in data]
    return data
