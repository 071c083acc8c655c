from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WireRevision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WIRE_REVISION_UNSPECIFIED: _ClassVar[WireRevision]
    WIRE_REVISION_1: _ClassVar[WireRevision]
WIRE_REVISION_UNSPECIFIED: WireRevision
WIRE_REVISION_1: WireRevision

class HostFacts(_message.Message):
    __slots__ = ("hostname", "os", "kernel", "architecture", "cpu_model", "physical_cores", "logical_cores", "cpu_quota_cores", "isa", "memory_bytes", "agent_version", "python_version", "tuned", "wire_revision", "emulation", "virtualization", "clusters", "now_unix_ns", "caches")
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    CPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_CORES_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_CORES_FIELD_NUMBER: _ClassVar[int]
    CPU_QUOTA_CORES_FIELD_NUMBER: _ClassVar[int]
    ISA_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    TUNED_FIELD_NUMBER: _ClassVar[int]
    WIRE_REVISION_FIELD_NUMBER: _ClassVar[int]
    EMULATION_FIELD_NUMBER: _ClassVar[int]
    VIRTUALIZATION_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    NOW_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    CACHES_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    os: str
    kernel: str
    architecture: str
    cpu_model: str
    physical_cores: int
    logical_cores: int
    cpu_quota_cores: float
    isa: _containers.RepeatedScalarFieldContainer[str]
    memory_bytes: int
    agent_version: str
    python_version: str
    tuned: _containers.RepeatedScalarFieldContainer[str]
    wire_revision: WireRevision
    emulation: str
    virtualization: str
    clusters: _containers.RepeatedCompositeFieldContainer[CoreCluster]
    now_unix_ns: int
    caches: _containers.RepeatedCompositeFieldContainer[Cache]
    def __init__(self, hostname: _Optional[str] = ..., os: _Optional[str] = ..., kernel: _Optional[str] = ..., architecture: _Optional[str] = ..., cpu_model: _Optional[str] = ..., physical_cores: _Optional[int] = ..., logical_cores: _Optional[int] = ..., cpu_quota_cores: _Optional[float] = ..., isa: _Optional[_Iterable[str]] = ..., memory_bytes: _Optional[int] = ..., agent_version: _Optional[str] = ..., python_version: _Optional[str] = ..., tuned: _Optional[_Iterable[str]] = ..., wire_revision: _Optional[_Union[WireRevision, str]] = ..., emulation: _Optional[str] = ..., virtualization: _Optional[str] = ..., clusters: _Optional[_Iterable[_Union[CoreCluster, _Mapping]]] = ..., now_unix_ns: _Optional[int] = ..., caches: _Optional[_Iterable[_Union[Cache, _Mapping]]] = ...) -> None: ...

class Cache(_message.Message):
    __slots__ = ("level", "type", "size_bytes", "count")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    level: int
    type: str
    size_bytes: int
    count: int
    def __init__(self, level: _Optional[int] = ..., type: _Optional[str] = ..., size_bytes: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class CoreCluster(_message.Message):
    __slots__ = ("name", "physical_cores", "model", "capacity", "max_frequency_hz")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_CORES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_FREQUENCY_HZ_FIELD_NUMBER: _ClassVar[int]
    name: str
    physical_cores: int
    model: str
    capacity: int
    max_frequency_hz: int
    def __init__(self, name: _Optional[str] = ..., physical_cores: _Optional[int] = ..., model: _Optional[str] = ..., capacity: _Optional[int] = ..., max_frequency_hz: _Optional[int] = ...) -> None: ...
