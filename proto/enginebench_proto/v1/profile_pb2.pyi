from enginebench_proto.v1 import measurement_pb2 as _measurement_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LayerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAYER_STATE_UNSPECIFIED: _ClassVar[LayerState]
    LAYER_STATE_EXECUTED: _ClassVar[LayerState]
    LAYER_STATE_NOT_EXECUTED: _ClassVar[LayerState]
    LAYER_STATE_OPTIMIZED_AWAY: _ClassVar[LayerState]
LAYER_STATE_UNSPECIFIED: LayerState
LAYER_STATE_EXECUTED: LayerState
LAYER_STATE_NOT_EXECUTED: LayerState
LAYER_STATE_OPTIMIZED_AWAY: LayerState

class Profile(_message.Message):
    __slots__ = ("effective", "iterations", "profiled_latency_ns", "unprofiled_latency_ns", "layers", "phases", "bystanders")
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    PROFILED_LATENCY_NS_FIELD_NUMBER: _ClassVar[int]
    UNPROFILED_LATENCY_NS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    BYSTANDERS_FIELD_NUMBER: _ClassVar[int]
    effective: _measurement_pb2.Effective
    iterations: int
    profiled_latency_ns: int
    unprofiled_latency_ns: int
    layers: _containers.RepeatedCompositeFieldContainer[Layer]
    phases: _containers.RepeatedCompositeFieldContainer[_measurement_pb2.Phase]
    bystanders: _measurement_pb2.Bystanders
    def __init__(self, effective: _Optional[_Union[_measurement_pb2.Effective, _Mapping]] = ..., iterations: _Optional[int] = ..., profiled_latency_ns: _Optional[int] = ..., unprofiled_latency_ns: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[Layer, _Mapping]]] = ..., phases: _Optional[_Iterable[_Union[_measurement_pb2.Phase, _Mapping]]] = ..., bystanders: _Optional[_Union[_measurement_pb2.Bystanders, _Mapping]] = ...) -> None: ...

class Layer(_message.Message):
    __slots__ = ("name", "type", "kernel", "precision", "output_shapes", "order", "state", "time_ns", "calls", "source_nodes", "inputs", "outputs", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SHAPES_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_NODES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    kernel: str
    precision: str
    output_shapes: _containers.RepeatedCompositeFieldContainer[Shape]
    order: int
    state: LayerState
    time_ns: _containers.RepeatedScalarFieldContainer[int]
    calls: int
    source_nodes: _containers.RepeatedScalarFieldContainer[str]
    inputs: _containers.RepeatedScalarFieldContainer[str]
    outputs: _containers.RepeatedScalarFieldContainer[str]
    parameters: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., kernel: _Optional[str] = ..., precision: _Optional[str] = ..., output_shapes: _Optional[_Iterable[_Union[Shape, _Mapping]]] = ..., order: _Optional[int] = ..., state: _Optional[_Union[LayerState, str]] = ..., time_ns: _Optional[_Iterable[int]] = ..., calls: _Optional[int] = ..., source_nodes: _Optional[_Iterable[str]] = ..., inputs: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[str]] = ..., parameters: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("sizes",)
    SIZES_FIELD_NUMBER: _ClassVar[int]
    sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sizes: _Optional[_Iterable[int]] = ...) -> None: ...
