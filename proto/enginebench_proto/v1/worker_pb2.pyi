from enginebench_proto.v1 import engine_pb2 as _engine_pb2
from enginebench_proto.v1 import run_pb2 as _run_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerMessage(_message.Message):
    __slots__ = ("engine", "phase", "progress", "part", "turn_wanted", "notice", "pid", "sent_ns", "ended_ns")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    TURN_WANTED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    engine: _engine_pb2.Engine
    phase: _run_pb2.PhaseStarted
    progress: _run_pb2.Progress
    part: _run_pb2.ResultPart
    turn_wanted: TurnWanted
    notice: str
    pid: int
    sent_ns: int
    ended_ns: int
    def __init__(self, engine: _Optional[_Union[_engine_pb2.Engine, _Mapping]] = ..., phase: _Optional[_Union[_run_pb2.PhaseStarted, _Mapping]] = ..., progress: _Optional[_Union[_run_pb2.Progress, _Mapping]] = ..., part: _Optional[_Union[_run_pb2.ResultPart, _Mapping]] = ..., turn_wanted: _Optional[_Union[TurnWanted, _Mapping]] = ..., notice: _Optional[str] = ..., pid: _Optional[int] = ..., sent_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ...) -> None: ...

class TurnWanted(_message.Message):
    __slots__ = ("unfinished",)
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    unfinished: bool
    def __init__(self, unfinished: bool = ...) -> None: ...
