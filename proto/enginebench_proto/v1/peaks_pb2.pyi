from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeakKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PEAK_KIND_UNSPECIFIED: _ClassVar[PeakKind]
    PEAK_KIND_FLOPS: _ClassVar[PeakKind]
    PEAK_KIND_BANDWIDTH: _ClassVar[PeakKind]
PEAK_KIND_UNSPECIFIED: PeakKind
PEAK_KIND_FLOPS: PeakKind
PEAK_KIND_BANDWIDTH: PeakKind

class Peak(_message.Message):
    __slots__ = ("engine", "environment", "engine_version", "device", "cores", "kind", "precision", "working_set_bytes", "what", "may_be_winograd", "provider", "measured_at_unix_ns", "rate", "failure")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    WORKING_SET_BYTES_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    MAY_BE_WINOGRAD_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MEASURED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    engine: str
    environment: str
    engine_version: str
    device: str
    cores: int
    kind: PeakKind
    precision: str
    working_set_bytes: int
    what: str
    may_be_winograd: bool
    provider: str
    measured_at_unix_ns: int
    rate: Rate
    failure: str
    def __init__(self, engine: _Optional[str] = ..., environment: _Optional[str] = ..., engine_version: _Optional[str] = ..., device: _Optional[str] = ..., cores: _Optional[int] = ..., kind: _Optional[_Union[PeakKind, str]] = ..., precision: _Optional[str] = ..., working_set_bytes: _Optional[int] = ..., what: _Optional[str] = ..., may_be_winograd: bool = ..., provider: _Optional[str] = ..., measured_at_unix_ns: _Optional[int] = ..., rate: _Optional[_Union[Rate, _Mapping]] = ..., failure: _Optional[str] = ...) -> None: ...

class Rate(_message.Message):
    __slots__ = ("median_per_s", "low_per_s", "high_per_s", "blocks", "disturbed_blocks", "disturbed")
    MEDIAN_PER_S_FIELD_NUMBER: _ClassVar[int]
    LOW_PER_S_FIELD_NUMBER: _ClassVar[int]
    HIGH_PER_S_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DISTURBED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DISTURBED_FIELD_NUMBER: _ClassVar[int]
    median_per_s: float
    low_per_s: float
    high_per_s: float
    blocks: int
    disturbed_blocks: int
    disturbed: bool
    def __init__(self, median_per_s: _Optional[float] = ..., low_per_s: _Optional[float] = ..., high_per_s: _Optional[float] = ..., blocks: _Optional[int] = ..., disturbed_blocks: _Optional[int] = ..., disturbed: bool = ...) -> None: ...
