from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reservation(_message.Message):
    __slots__ = ("holder", "left_ns", "reason", "yours")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LEFT_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    YOURS_FIELD_NUMBER: _ClassVar[int]
    holder: str
    left_ns: int
    reason: str
    yours: bool
    def __init__(self, holder: _Optional[str] = ..., left_ns: _Optional[int] = ..., reason: _Optional[str] = ..., yours: bool = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("for_ns", "reason")
    FOR_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    for_ns: int
    reason: str
    def __init__(self, for_ns: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ReserveResponse(_message.Message):
    __slots__ = ("reservation", "replaced")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    replaced: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., replaced: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("holder",)
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    holder: str
    def __init__(self, holder: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: Reservation
    def __init__(self, released: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...
