from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hint(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HINT_UNSPECIFIED: _ClassVar[Hint]
    HINT_NONE: _ClassVar[Hint]
    HINT_LATENCY: _ClassVar[Hint]
    HINT_THROUGHPUT: _ClassVar[Hint]
    HINT_CUMULATIVE_THROUGHPUT: _ClassVar[Hint]

class Load(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOAD_UNSPECIFIED: _ClassVar[Load]
    LOAD_SYNC: _ClassVar[Load]
    LOAD_ASYNC: _ClassVar[Load]
    LOAD_OPEN_LOOP: _ClassVar[Load]

class ArrivalProcess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARRIVAL_PROCESS_UNSPECIFIED: _ClassVar[ArrivalProcess]
    ARRIVAL_PROCESS_CONSTANT: _ClassVar[ArrivalProcess]
    ARRIVAL_PROCESS_POISSON: _ClassVar[ArrivalProcess]
HINT_UNSPECIFIED: Hint
HINT_NONE: Hint
HINT_LATENCY: Hint
HINT_THROUGHPUT: Hint
HINT_CUMULATIVE_THROUGHPUT: Hint
LOAD_UNSPECIFIED: Load
LOAD_SYNC: Load
LOAD_ASYNC: Load
LOAD_OPEN_LOOP: Load
ARRIVAL_PROCESS_UNSPECIFIED: ArrivalProcess
ARRIVAL_PROCESS_CONSTANT: ArrivalProcess
ARRIVAL_PROCESS_POISSON: ArrivalProcess

class Configuration(_message.Message):
    __slots__ = ("device", "batch", "cores", "streams", "precision", "hint", "load", "requests", "inputs", "input_set", "options", "stop", "arrivals", "cluster")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    INPUT_SET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    device: str
    batch: int
    cores: int
    streams: int
    precision: str
    hint: Hint
    load: Load
    requests: int
    inputs: _containers.RepeatedCompositeFieldContainer[InputTensor]
    input_set: InputSet
    options: _containers.ScalarMap[str, str]
    stop: StopRule
    arrivals: Arrivals
    cluster: str
    def __init__(self, device: _Optional[str] = ..., batch: _Optional[int] = ..., cores: _Optional[int] = ..., streams: _Optional[int] = ..., precision: _Optional[str] = ..., hint: _Optional[_Union[Hint, str]] = ..., load: _Optional[_Union[Load, str]] = ..., requests: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[InputTensor, _Mapping]]] = ..., input_set: _Optional[_Union[InputSet, _Mapping]] = ..., options: _Optional[_Mapping[str, str]] = ..., stop: _Optional[_Union[StopRule, _Mapping]] = ..., arrivals: _Optional[_Union[Arrivals, _Mapping]] = ..., cluster: _Optional[str] = ...) -> None: ...

class Arrivals(_message.Message):
    __slots__ = ("process", "rate_per_s", "seed")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    process: ArrivalProcess
    rate_per_s: float
    seed: int
    def __init__(self, process: _Optional[_Union[ArrivalProcess, str]] = ..., rate_per_s: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class InputTensor(_message.Message):
    __slots__ = ("name", "dtype", "shape", "integer_bound")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    INTEGER_BOUND_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    integer_bound: int
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., integer_bound: _Optional[int] = ...) -> None: ...

class InputSet(_message.Message):
    __slots__ = ("seed", "count", "name", "items", "values")
    SEED_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    seed: int
    count: int
    name: str
    items: _containers.RepeatedCompositeFieldContainer[InputItem]
    values: _containers.RepeatedCompositeFieldContainer[InputValues]
    def __init__(self, seed: _Optional[int] = ..., count: _Optional[int] = ..., name: _Optional[str] = ..., items: _Optional[_Iterable[_Union[InputItem, _Mapping]]] = ..., values: _Optional[_Iterable[_Union[InputValues, _Mapping]]] = ...) -> None: ...

class InputValues(_message.Message):
    __slots__ = ("input", "integers", "numbers")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    INTEGERS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    input: str
    integers: IntegerRange
    numbers: NumberRange
    def __init__(self, input: _Optional[str] = ..., integers: _Optional[_Union[IntegerRange, _Mapping]] = ..., numbers: _Optional[_Union[NumberRange, _Mapping]] = ...) -> None: ...

class IntegerRange(_message.Message):
    __slots__ = ("lowest", "highest")
    LOWEST_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    lowest: int
    highest: int
    def __init__(self, lowest: _Optional[int] = ..., highest: _Optional[int] = ...) -> None: ...

class NumberRange(_message.Message):
    __slots__ = ("lowest", "highest")
    LOWEST_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    lowest: float
    highest: float
    def __init__(self, lowest: _Optional[float] = ..., highest: _Optional[float] = ...) -> None: ...

class InputItem(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[InputFile]
    def __init__(self, files: _Optional[_Iterable[_Union[InputFile, _Mapping]]] = ...) -> None: ...

class InputFile(_message.Message):
    __slots__ = ("input", "sha256", "size_bytes")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    input: str
    sha256: str
    size_bytes: int
    def __init__(self, input: _Optional[str] = ..., sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class StopRule(_message.Message):
    __slots__ = ("min_duration_ns", "min_iterations", "max_duration_ns", "warmup_ns", "target_relative_half_width", "max_warmup_ns", "block_ns", "retry_noisy")
    MIN_DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    MIN_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    WARMUP_NS_FIELD_NUMBER: _ClassVar[int]
    TARGET_RELATIVE_HALF_WIDTH_FIELD_NUMBER: _ClassVar[int]
    MAX_WARMUP_NS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    RETRY_NOISY_FIELD_NUMBER: _ClassVar[int]
    min_duration_ns: int
    min_iterations: int
    max_duration_ns: int
    warmup_ns: int
    target_relative_half_width: float
    max_warmup_ns: int
    block_ns: int
    retry_noisy: bool
    def __init__(self, min_duration_ns: _Optional[int] = ..., min_iterations: _Optional[int] = ..., max_duration_ns: _Optional[int] = ..., warmup_ns: _Optional[int] = ..., target_relative_half_width: _Optional[float] = ..., max_warmup_ns: _Optional[int] = ..., block_ns: _Optional[int] = ..., retry_noisy: bool = ...) -> None: ...
