"""The nested parts of records as plain JSON-able data, and back: one form for the store, the documents and the exports.

Enums become their names, tuples lists, and a number that is not finite null. Reading back validates and raises
pydantic's `ValidationError`.
"""

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter

from enginebench_controller.records import (
    Afterwards,
    Block,
    Bystanders,
    Configuration,
    Effective,
    Failure,
    Grounds,
    Interval,
    LatencySummary,
    ModelFile,
    OutputCheck,
    Percentile,
    Phase,
    Process,
)

T = TypeVar("T")


class JsonForm(Generic[T]):
    """Both directions for one type. `upgrade` gives data of an older form the present one, and leaves others alone.

    The adapter is made when it is first used: together they take a quarter of a second, and no command needs them all.
    """

    def __init__(
        self, make_adapter: Callable[[], TypeAdapter[T]], upgrade: Callable[[Any], Any] = lambda data: data
    ) -> None:
        self._make_adapter = make_adapter
        self._upgrade = upgrade

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return self._make_adapter()

    def to_data(self, record: T) -> Any:
        """Return the record as data that `json.dumps(…, allow_nan=False)` accepts."""
        return finite(self._adapter.dump_python(record, mode="json"))

    def from_data(self, data: Any) -> T:
        """Return the record that `to_data` was given."""
        return self._adapter.validate_python(self._upgrade(data))


def present_configuration(data: Any) -> Any:
    """Bring a configuration of schema version 1 into the present form: one process, no target for the interval.

    What version 1 stored stays as it is in the store; it is read through this.
    """
    if not isinstance(data, Mapping) or "input_seed" not in data:
        return data
    kept = {key: value for key, value in data.items() if key not in ("input_seed", "input_count", "stop")}
    input_set = {"seed": data["input_seed"], "count": data.get("input_count")}
    return {**kept, "input_set": input_set, "stop": _present_stop_rule(data.get("stop"))}


def _present_stop_rule(stop: Any) -> Any:
    return {**stop, "processes": 1, "target_relative_half_width": 0.0} if isinstance(stop, Mapping) else stop


AFTERWARDS: Final = JsonForm(lambda: TypeAdapter(Afterwards | None))
BLOCK: Final = JsonForm(lambda: TypeAdapter(Block))
BYSTANDERS: Final = JsonForm(lambda: TypeAdapter(Bystanders | None))
CONFIGURATION: Final = JsonForm(lambda: TypeAdapter(Configuration), present_configuration)
EFFECTIVE: Final = JsonForm(lambda: TypeAdapter(Effective))
FAILURE: Final = JsonForm(lambda: TypeAdapter(Failure))
GROUNDS: Final = JsonForm(lambda: TypeAdapter(Grounds))
INTERVAL: Final = JsonForm(lambda: TypeAdapter(Interval | None))
LATENCY: Final = JsonForm(lambda: TypeAdapter(LatencySummary))
MODEL_FILES: Final = JsonForm(lambda: TypeAdapter(tuple[ModelFile, ...]))
OUTPUT_CHECK: Final = JsonForm(lambda: TypeAdapter(OutputCheck | None))
PERCENTILES: Final = JsonForm(lambda: TypeAdapter(tuple[Percentile, ...]))
PHASES: Final = JsonForm(lambda: TypeAdapter(tuple[Phase, ...]))
PROCESSES: Final = JsonForm(lambda: TypeAdapter(tuple[Process, ...]))


def finite(data: Any) -> Any:
    """Copy JSON-able data with NaN and infinities, which JSON lacks, replaced by None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(item) for item in data]
    return data
