"""The nested parts of records as plain JSON-able data, and back: one form for the store, the documents and the exports.

Enums become their names, tuples lists, and a number that is not finite null. Reading back validates and raises
pydantic's `ValidationError`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Annotated, Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BeforeValidator,
    Discriminator,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Tag,
    TypeAdapter,
    WrapSerializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from enginebench_controller.records.configuration import Configuration
from enginebench_controller.records.measurement import Grounds, Interval, LatencySummary, OutputCheck, Percentile
from enginebench_controller.records.model import Derivation, ModelFile
from enginebench_controller.records.run import Afterwards, Block, Bystanders, Effective, Failure, Phase, Process
from enginebench_controller.records.target import (
    AvailableEngine,
    Engine,
    HostFacts,
    ListedEngine,
    Reservation,
    UnavailableEngine,
)
from enginebench_proto.agreed.disturbances import Disturbance, DisturbanceKind


def to_float32_bytes(values: NDArray[np.float32]) -> bytes:
    """Pack values of shape (elements,)."""
    return values.astype("<f4").tobytes()


def from_float32_bytes(content: bytes) -> NDArray[np.float32]:
    """Unpack values, of shape (elements,). Raises ValueError where the bytes end within an element."""
    return np.frombuffer(content, dtype="<f4").astype(np.float32)


T = TypeVar("T")
_TEXTS_KEPT = 512


class JsonForm(Generic[T]):
    """Both directions for one type.

    The adapter is made when it is first used: together they take a quarter of a second, and no command needs them all.
    """

    def __init__(self, make_adapter: Callable[[], TypeAdapter[T]]) -> None:
        self._make_adapter = make_adapter
        self._from_text = lru_cache(_TEXTS_KEPT)(self._validated)

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return self._make_adapter()

    def to_data(self, record: T) -> Any:
        """Return the record as data that `json.dumps(…, allow_nan=False)` accepts."""
        return finite(self._adapter.dump_python(record, mode="json"))

    def from_data(self, data: Any) -> T:
        """Return the record that `to_data` was given."""
        return self._adapter.validate_python(data)

    def from_text(self, text: str) -> T:
        """Return the record whose data this JSON is: the same one again for a text that many rows of a store have."""
        return self._from_text(text)

    def _validated(self, text: str) -> T:
        return self._adapter.validate_json(text)


@dataclass(frozen=True)
class _Printed:
    """Tells pydantic the JSON Schema of what a wrapping serializer makes, by that of what it wraps."""

    change: Callable[[JsonSchemaValue, GetJsonSchemaHandler], JsonSchemaValue]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        plain = {key: value for key, value in core.items() if key != "serialization"}
        return self.change(handler(plain), handler)  # a core schema is one without, too


def _with_phrases(block: Block, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
    data = plain(block)
    return {**data, "disturbances": [str(one) for one in block.disturbances], "disturbed_by": data["disturbances"]}


def _with_words(made: JsonSchemaValue, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    whole = handler.resolve_ref_schema(made)
    properties = whole["properties"]
    properties["disturbed_by"] = properties.get("disturbed_by", properties["disturbances"])
    properties["disturbances"] = {"type": "array", "items": {"type": "string"}}
    whole["required"] = list(properties)
    return made


def _without_phrases(data: Any) -> Any:
    if not isinstance(data, Mapping) or not isinstance(phrases := data.get("disturbances"), list):
        return data
    told = data.get("disturbed_by")
    each = zip_longest(told if isinstance(told, list) else (), phrases)
    return {**data, "disturbances": tuple(_by_kind(one, phrase) for one, phrase in each)}


def _by_kind(one: Any, phrase: Any) -> Any:
    """A phrase is read where an older version wrote nothing else, or a newer one a kind that is not known here."""
    is_known = isinstance(one, Mapping) and one.get("kind") in list(DisturbanceKind)
    return one if is_known or not isinstance(phrase, str) else asdict(Disturbance.from_phrase(phrase))


ToldBlock = Annotated[Block, BeforeValidator(_without_phrases), WrapSerializer(_with_phrases), _Printed(_with_words)]
"""A block as documents have it: `disturbances` in words, and in `disturbed_by`, which those of before lack, by kind."""


_STATES = ("available", "unavailable")


def _flat(data: Any) -> Any:
    if not isinstance(data, Mapping):
        return data
    state = data.get("available") or data.get("unavailable") or {}
    return {**data, **state} if isinstance(state, Mapping) else data


def _nested(engine: Engine, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
    data = plain(engine)
    listed = {one.name: data.pop(one.name) for one in dataclass_fields(ListedEngine)}
    is_available = isinstance(engine, AvailableEngine)
    return {**listed, "available": data if is_available else None, "unavailable": None if is_available else data}


def _in_parts(made: JsonSchemaValue, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    states = [handler.resolve_ref_schema(one) for one in made["oneOf"]]
    common = {one.name: states[0]["properties"][one.name] for one in dataclass_fields(ListedEngine)}
    for state in states:
        state["properties"] = {name: one for name, one in state["properties"].items() if name not in common}
        state["required"] = list(state["properties"])
    parts = {name: {"anyOf": [one, {"type": "null"}]} for name, one in zip(_STATES, made["oneOf"], strict=True)}
    return {"type": "object", "properties": common | parts, "required": [*common, *parts]}


def _state(engine: Any) -> str:
    is_available = engine.get("available") if isinstance(engine, Mapping) else isinstance(engine, AvailableEngine)
    return _STATES[0] if is_available else _STATES[1]


ToldEngine = Annotated[
    Annotated[AvailableEngine, Tag(_STATES[0])] | Annotated[UnavailableEngine, Tag(_STATES[1])],
    Discriminator(_state),
    BeforeValidator(_flat),
    WrapSerializer(_nested),
    _Printed(_in_parts),
]
"""An engine as documents have it: what only one that is available tells, or only one that is not, stands in a part."""

AFTERWARDS: Final = JsonForm(lambda: TypeAdapter(Afterwards | None))
BLOCK: Final = JsonForm(lambda: TypeAdapter(ToldBlock))
BYSTANDERS: Final = JsonForm(lambda: TypeAdapter(Bystanders | None))
CONFIGURATION: Final = JsonForm(lambda: TypeAdapter(Configuration))
DERIVATION: Final = JsonForm(lambda: TypeAdapter(Derivation | None))
ENGINES: Final = JsonForm(lambda: TypeAdapter(tuple[ToldEngine, ...]))
EFFECTIVE: Final = JsonForm(lambda: TypeAdapter(Effective))
FAILURE: Final = JsonForm(lambda: TypeAdapter(Failure))
GROUNDS: Final = JsonForm(lambda: TypeAdapter(Grounds))
HOST: Final = JsonForm(lambda: TypeAdapter(HostFacts))
INTERVAL: Final = JsonForm(lambda: TypeAdapter(Interval | None))
LATENCY: Final = JsonForm(lambda: TypeAdapter(LatencySummary))
MODEL_FILES: Final = JsonForm(lambda: TypeAdapter(tuple[ModelFile, ...]))
OUTPUT_CHECK: Final = JsonForm(lambda: TypeAdapter(OutputCheck | None))
PERCENTILES: Final = JsonForm(lambda: TypeAdapter(tuple[Percentile, ...]))
PHASES: Final = JsonForm(lambda: TypeAdapter(tuple[Phase, ...]))
PROCESSES: Final = JsonForm(lambda: TypeAdapter(tuple[Process, ...]))
RESERVATION: Final = JsonForm(lambda: TypeAdapter(Reservation | None))


def finite(data: Any) -> Any:
    """Copy JSON-able data with NaN and infinities, which JSON lacks, replaced by None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(item) for item in data]
    return data
