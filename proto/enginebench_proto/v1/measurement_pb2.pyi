from enginebench_proto.v1 import configuration_pb2 as _configuration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadbackSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READBACK_SOURCE_UNSPECIFIED: _ClassVar[ReadbackSource]
    READBACK_SOURCE_ENGINE_API: _ClassVar[ReadbackSource]
    READBACK_SOURCE_OBSERVED: _ClassVar[ReadbackSource]
    READBACK_SOURCE_ASSUMED: _ClassVar[ReadbackSource]
READBACK_SOURCE_UNSPECIFIED: ReadbackSource
READBACK_SOURCE_ENGINE_API: ReadbackSource
READBACK_SOURCE_OBSERVED: ReadbackSource
READBACK_SOURCE_ASSUMED: ReadbackSource

class Measurement(_message.Message):
    __slots__ = ("phases", "effective", "iterations", "batch", "steady_state_ns", "cpu_time_ns", "inputs", "input_set_sha256", "outputs")
    PHASES_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    STEADY_STATE_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    INPUT_SET_SHA256_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    phases: _containers.RepeatedCompositeFieldContainer[Phase]
    effective: Effective
    iterations: int
    batch: int
    steady_state_ns: int
    cpu_time_ns: int
    inputs: _containers.RepeatedCompositeFieldContainer[_configuration_pb2.InputTensor]
    input_set_sha256: str
    outputs: _containers.RepeatedCompositeFieldContainer[OutputTensor]
    def __init__(self, phases: _Optional[_Iterable[_Union[Phase, _Mapping]]] = ..., effective: _Optional[_Union[Effective, _Mapping]] = ..., iterations: _Optional[int] = ..., batch: _Optional[int] = ..., steady_state_ns: _Optional[int] = ..., cpu_time_ns: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_configuration_pb2.InputTensor, _Mapping]]] = ..., input_set_sha256: _Optional[str] = ..., outputs: _Optional[_Iterable[_Union[OutputTensor, _Mapping]]] = ...) -> None: ...

class Phase(_message.Message):
    __slots__ = ("name", "duration_ns", "peak_rss_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    PEAK_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    duration_ns: int
    peak_rss_bytes: int
    def __init__(self, name: _Optional[str] = ..., duration_ns: _Optional[int] = ..., peak_rss_bytes: _Optional[int] = ...) -> None: ...

class Effective(_message.Message):
    __slots__ = ("threads", "streams", "precision", "provider", "isa", "affinity")
    THREADS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    ISA_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    threads: IntegerReadback
    streams: IntegerReadback
    precision: TextReadback
    provider: TextReadback
    isa: TextReadback
    affinity: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, threads: _Optional[_Union[IntegerReadback, _Mapping]] = ..., streams: _Optional[_Union[IntegerReadback, _Mapping]] = ..., precision: _Optional[_Union[TextReadback, _Mapping]] = ..., provider: _Optional[_Union[TextReadback, _Mapping]] = ..., isa: _Optional[_Union[TextReadback, _Mapping]] = ..., affinity: _Optional[_Iterable[int]] = ...) -> None: ...

class IntegerReadback(_message.Message):
    __slots__ = ("value", "source")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    value: int
    source: ReadbackSource
    def __init__(self, value: _Optional[int] = ..., source: _Optional[_Union[ReadbackSource, str]] = ...) -> None: ...

class TextReadback(_message.Message):
    __slots__ = ("value", "source")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    value: str
    source: ReadbackSource
    def __init__(self, value: _Optional[str] = ..., source: _Optional[_Union[ReadbackSource, str]] = ...) -> None: ...

class OutputTensor(_message.Message):
    __slots__ = ("name", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("latency_ns",)
    LATENCY_NS_FIELD_NUMBER: _ClassVar[int]
    latency_ns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, latency_ns: _Optional[_Iterable[int]] = ...) -> None: ...
