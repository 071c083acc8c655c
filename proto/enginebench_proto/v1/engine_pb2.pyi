from enginebench_proto.v1 import device_pb2 as _device_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UnavailableKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNAVAILABLE_KIND_UNSPECIFIED: _ClassVar[UnavailableKind]
    UNAVAILABLE_KIND_NOT_INSTALLED: _ClassVar[UnavailableKind]
    UNAVAILABLE_KIND_UNSUPPORTED: _ClassVar[UnavailableKind]
    UNAVAILABLE_KIND_BROKEN: _ClassVar[UnavailableKind]
    UNAVAILABLE_KIND_TIMED_OUT: _ClassVar[UnavailableKind]
    UNAVAILABLE_KIND_BEING_ASKED: _ClassVar[UnavailableKind]
UNAVAILABLE_KIND_UNSPECIFIED: UnavailableKind
UNAVAILABLE_KIND_NOT_INSTALLED: UnavailableKind
UNAVAILABLE_KIND_UNSUPPORTED: UnavailableKind
UNAVAILABLE_KIND_BROKEN: UnavailableKind
UNAVAILABLE_KIND_TIMED_OUT: UnavailableKind
UNAVAILABLE_KIND_BEING_ASKED: UnavailableKind

class Environment(_message.Message):
    __slots__ = ("name", "python_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    python_version: str
    def __init__(self, name: _Optional[str] = ..., python_version: _Optional[str] = ...) -> None: ...

class Engine(_message.Message):
    __slots__ = ("name", "environment", "distribution", "hidden", "available", "unavailable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    environment: Environment
    distribution: str
    hidden: bool
    available: AvailableEngine
    unavailable: UnavailableEngine
    def __init__(self, name: _Optional[str] = ..., environment: _Optional[_Union[Environment, _Mapping]] = ..., distribution: _Optional[str] = ..., hidden: bool = ..., available: _Optional[_Union[AvailableEngine, _Mapping]] = ..., unavailable: _Optional[_Union[UnavailableEngine, _Mapping]] = ...) -> None: ...

class AvailableEngine(_message.Message):
    __slots__ = ("version", "formats", "loads", "hints", "multiple_streams", "profiling", "options", "devices", "more_devices", "single_threaded", "own_formats", "batches")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    LOADS_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    MULTIPLE_STREAMS_FIELD_NUMBER: _ClassVar[int]
    PROFILING_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MORE_DEVICES_FIELD_NUMBER: _ClassVar[int]
    SINGLE_THREADED_FIELD_NUMBER: _ClassVar[int]
    OWN_FORMATS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    version: str
    formats: _containers.RepeatedScalarFieldContainer[str]
    loads: _containers.RepeatedScalarFieldContainer[str]
    hints: _containers.RepeatedScalarFieldContainer[str]
    multiple_streams: bool
    profiling: bool
    options: _containers.RepeatedCompositeFieldContainer[EngineOption]
    devices: _containers.RepeatedCompositeFieldContainer[_device_pb2.Device]
    more_devices: int
    single_threaded: bool
    own_formats: _containers.RepeatedCompositeFieldContainer[FileFormat]
    batches: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[str] = ..., formats: _Optional[_Iterable[str]] = ..., loads: _Optional[_Iterable[str]] = ..., hints: _Optional[_Iterable[str]] = ..., multiple_streams: bool = ..., profiling: bool = ..., options: _Optional[_Iterable[_Union[EngineOption, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[_device_pb2.Device, _Mapping]]] = ..., more_devices: _Optional[int] = ..., single_threaded: bool = ..., own_formats: _Optional[_Iterable[_Union[FileFormat, _Mapping]]] = ..., batches: _Optional[_Iterable[int]] = ...) -> None: ...

class FileFormat(_message.Message):
    __slots__ = ("name", "suffixes", "companions", "begins", "runs_code")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUFFIXES_FIELD_NUMBER: _ClassVar[int]
    COMPANIONS_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    RUNS_CODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    suffixes: _containers.RepeatedScalarFieldContainer[str]
    companions: _containers.RepeatedScalarFieldContainer[str]
    begins: _containers.RepeatedCompositeFieldContainer[Beginning]
    runs_code: bool
    def __init__(self, name: _Optional[str] = ..., suffixes: _Optional[_Iterable[str]] = ..., companions: _Optional[_Iterable[str]] = ..., begins: _Optional[_Iterable[_Union[Beginning, _Mapping]]] = ..., runs_code: bool = ...) -> None: ...

class Beginning(_message.Message):
    __slots__ = ("offset", "content")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    content: bytes
    def __init__(self, offset: _Optional[int] = ..., content: _Optional[bytes] = ...) -> None: ...

class UnavailableEngine(_message.Message):
    __slots__ = ("kind", "reason", "detail")
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    kind: UnavailableKind
    reason: str
    detail: str
    def __init__(self, kind: _Optional[_Union[UnavailableKind, str]] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class EngineOption(_message.Message):
    __slots__ = ("name", "type", "choices", "help", "profile_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    PROFILE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    choices: _containers.RepeatedScalarFieldContainer[str]
    help: str
    profile_only: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., choices: _Optional[_Iterable[str]] = ..., help: _Optional[str] = ..., profile_only: bool = ...) -> None: ...
