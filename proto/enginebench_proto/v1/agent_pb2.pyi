from enginebench_proto.v1 import engine_pb2 as _engine_pb2
from enginebench_proto.v1 import host_pb2 as _host_pb2
from enginebench_proto.v1 import peaks_pb2 as _peaks_pb2
from enginebench_proto.v1 import reservation_pb2 as _reservation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetHostRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetHostResponse(_message.Message):
    __slots__ = ("host", "reservation")
    HOST_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    host: _host_pb2.HostFacts
    reservation: _reservation_pb2.Reservation
    def __init__(self, host: _Optional[_Union[_host_pb2.HostFacts, _Mapping]] = ..., reservation: _Optional[_Union[_reservation_pb2.Reservation, _Mapping]] = ...) -> None: ...

class ListEnginesRequest(_message.Message):
    __slots__ = ("refresh", "within_ns", "names")
    REFRESH_FIELD_NUMBER: _ClassVar[int]
    WITHIN_NS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    refresh: bool
    within_ns: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, refresh: bool = ..., within_ns: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ListEnginesResponse(_message.Message):
    __slots__ = ("engines", "peaks")
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    PEAKS_FIELD_NUMBER: _ClassVar[int]
    engines: _containers.RepeatedCompositeFieldContainer[_engine_pb2.Engine]
    peaks: _containers.RepeatedCompositeFieldContainer[_peaks_pb2.Peak]
    def __init__(self, engines: _Optional[_Iterable[_Union[_engine_pb2.Engine, _Mapping]]] = ..., peaks: _Optional[_Iterable[_Union[_peaks_pb2.Peak, _Mapping]]] = ...) -> None: ...
