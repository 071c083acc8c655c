from enginebench_proto.v1 import configuration_pb2 as _configuration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_TARGET_MET: _ClassVar[StopReason]
    STOP_REASON_MAX_DURATION: _ClassVar[StopReason]
    STOP_REASON_DISTURBED: _ClassVar[StopReason]

class DisturbanceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISTURBANCE_KIND_UNSPECIFIED: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_STEAL: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_OTHER_PROCESSES: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_THROTTLED: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_MEMORY_PRESSURE: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_FREQUENCY: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_PAUSED: _ClassVar[DisturbanceKind]
    DISTURBANCE_KIND_HELD_BACK: _ClassVar[DisturbanceKind]

class ReadbackSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READBACK_SOURCE_UNSPECIFIED: _ClassVar[ReadbackSource]
    READBACK_SOURCE_ENGINE_API: _ClassVar[ReadbackSource]
    READBACK_SOURCE_OBSERVED: _ClassVar[ReadbackSource]
    READBACK_SOURCE_ASSUMED: _ClassVar[ReadbackSource]
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_TARGET_MET: StopReason
STOP_REASON_MAX_DURATION: StopReason
STOP_REASON_DISTURBED: StopReason
DISTURBANCE_KIND_UNSPECIFIED: DisturbanceKind
DISTURBANCE_KIND_STEAL: DisturbanceKind
DISTURBANCE_KIND_OTHER_PROCESSES: DisturbanceKind
DISTURBANCE_KIND_THROTTLED: DisturbanceKind
DISTURBANCE_KIND_MEMORY_PRESSURE: DisturbanceKind
DISTURBANCE_KIND_FREQUENCY: DisturbanceKind
DISTURBANCE_KIND_PAUSED: DisturbanceKind
DISTURBANCE_KIND_HELD_BACK: DisturbanceKind
READBACK_SOURCE_UNSPECIFIED: ReadbackSource
READBACK_SOURCE_ENGINE_API: ReadbackSource
READBACK_SOURCE_OBSERVED: ReadbackSource
READBACK_SOURCE_ASSUMED: ReadbackSource

class Measurement(_message.Message):
    __slots__ = ("phases", "effective", "iterations", "batch", "steady_state_ns", "cpu_time_ns", "inputs", "input_set_sha256", "outputs", "calibration", "warm_up", "stop_reason", "blocks", "captured_outputs", "scheduled_arrivals", "unsent_arrivals", "afterwards", "bystanders", "clock_jump_ns", "agent_paused_ns", "written_bytes")
    PHASES_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    STEADY_STATE_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    INPUT_SET_SHA256_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    WARM_UP_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CAPTURED_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    UNSENT_ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    AFTERWARDS_FIELD_NUMBER: _ClassVar[int]
    BYSTANDERS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_JUMP_NS_FIELD_NUMBER: _ClassVar[int]
    AGENT_PAUSED_NS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    phases: _containers.RepeatedCompositeFieldContainer[Phase]
    effective: Effective
    iterations: int
    batch: int
    steady_state_ns: int
    cpu_time_ns: int
    inputs: _containers.RepeatedCompositeFieldContainer[_configuration_pb2.InputTensor]
    input_set_sha256: str
    outputs: _containers.RepeatedCompositeFieldContainer[OutputTensor]
    calibration: Calibration
    warm_up: WarmUp
    stop_reason: StopReason
    blocks: int
    captured_outputs: _containers.RepeatedCompositeFieldContainer[CapturedOutput]
    scheduled_arrivals: int
    unsent_arrivals: int
    afterwards: Afterwards
    bystanders: Bystanders
    clock_jump_ns: int
    agent_paused_ns: int
    written_bytes: int
    def __init__(self, phases: _Optional[_Iterable[_Union[Phase, _Mapping]]] = ..., effective: _Optional[_Union[Effective, _Mapping]] = ..., iterations: _Optional[int] = ..., batch: _Optional[int] = ..., steady_state_ns: _Optional[int] = ..., cpu_time_ns: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_configuration_pb2.InputTensor, _Mapping]]] = ..., input_set_sha256: _Optional[str] = ..., outputs: _Optional[_Iterable[_Union[OutputTensor, _Mapping]]] = ..., calibration: _Optional[_Union[Calibration, _Mapping]] = ..., warm_up: _Optional[_Union[WarmUp, _Mapping]] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., blocks: _Optional[int] = ..., captured_outputs: _Optional[_Iterable[_Union[CapturedOutput, _Mapping]]] = ..., scheduled_arrivals: _Optional[int] = ..., unsent_arrivals: _Optional[int] = ..., afterwards: _Optional[_Union[Afterwards, _Mapping]] = ..., bystanders: _Optional[_Union[Bystanders, _Mapping]] = ..., clock_jump_ns: _Optional[int] = ..., agent_paused_ns: _Optional[int] = ..., written_bytes: _Optional[int] = ...) -> None: ...

class Bystanders(_message.Message):
    __slots__ = ("before", "waited_ns", "meanwhile", "quota_cores", "unseen")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    WAITED_NS_FIELD_NUMBER: _ClassVar[int]
    MEANWHILE_FIELD_NUMBER: _ClassVar[int]
    QUOTA_CORES_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    before: MachineUse
    waited_ns: int
    meanwhile: MachineUse
    quota_cores: float
    unseen: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, before: _Optional[_Union[MachineUse, _Mapping]] = ..., waited_ns: _Optional[int] = ..., meanwhile: _Optional[_Union[MachineUse, _Mapping]] = ..., quota_cores: _Optional[float] = ..., unseen: _Optional[_Iterable[str]] = ...) -> None: ...

class MachineUse(_message.Message):
    __slots__ = ("duration_ns", "processors", "other_cpu_time_ns", "steal_ns", "busiest")
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    OTHER_CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    STEAL_NS_FIELD_NUMBER: _ClassVar[int]
    BUSIEST_FIELD_NUMBER: _ClassVar[int]
    duration_ns: int
    processors: int
    other_cpu_time_ns: int
    steal_ns: int
    busiest: _containers.RepeatedCompositeFieldContainer[ProcessUse]
    def __init__(self, duration_ns: _Optional[int] = ..., processors: _Optional[int] = ..., other_cpu_time_ns: _Optional[int] = ..., steal_ns: _Optional[int] = ..., busiest: _Optional[_Iterable[_Union[ProcessUse, _Mapping]]] = ...) -> None: ...

class ProcessUse(_message.Message):
    __slots__ = ("name", "pid", "count", "cpu_time_ns")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    name: str
    pid: int
    count: int
    cpu_time_ns: int
    def __init__(self, name: _Optional[str] = ..., pid: _Optional[int] = ..., count: _Optional[int] = ..., cpu_time_ns: _Optional[int] = ...) -> None: ...

class Afterwards(_message.Message):
    __slots__ = ("late_difference", "repeat_difference", "seen_ns", "fresh_ns", "inferences")
    LATE_DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    REPEAT_DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    SEEN_NS_FIELD_NUMBER: _ClassVar[int]
    FRESH_NS_FIELD_NUMBER: _ClassVar[int]
    INFERENCES_FIELD_NUMBER: _ClassVar[int]
    late_difference: float
    repeat_difference: float
    seen_ns: _containers.RepeatedScalarFieldContainer[int]
    fresh_ns: _containers.RepeatedScalarFieldContainer[int]
    inferences: int
    def __init__(self, late_difference: _Optional[float] = ..., repeat_difference: _Optional[float] = ..., seen_ns: _Optional[_Iterable[int]] = ..., fresh_ns: _Optional[_Iterable[int]] = ..., inferences: _Optional[int] = ...) -> None: ...

class Calibration(_message.Message):
    __slots__ = ("timer_ns", "empty_loop_ns", "block_ns")
    TIMER_NS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_LOOP_NS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    timer_ns: float
    empty_loop_ns: float
    block_ns: int
    def __init__(self, timer_ns: _Optional[float] = ..., empty_loop_ns: _Optional[float] = ..., block_ns: _Optional[int] = ...) -> None: ...

class WarmUp(_message.Message):
    __slots__ = ("steady", "iterations", "reason", "undecided")
    STEADY_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNDECIDED_FIELD_NUMBER: _ClassVar[int]
    steady: bool
    iterations: int
    reason: str
    undecided: bool
    def __init__(self, steady: bool = ..., iterations: _Optional[int] = ..., reason: _Optional[str] = ..., undecided: bool = ...) -> None: ...

class CapturedOutput(_message.Message):
    __slots__ = ("input_index", "name", "dtype", "shape", "values", "stride")
    INPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    input_index: int
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    values: bytes
    stride: int
    def __init__(self, input_index: _Optional[int] = ..., name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., values: _Optional[bytes] = ..., stride: _Optional[int] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("index", "begin_ns", "duration_ns", "iterations", "evidence", "disturbances", "paused_ns", "disturbed_by")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    DISTURBANCES_FIELD_NUMBER: _ClassVar[int]
    PAUSED_NS_FIELD_NUMBER: _ClassVar[int]
    DISTURBED_BY_FIELD_NUMBER: _ClassVar[int]
    index: int
    begin_ns: int
    duration_ns: int
    iterations: int
    evidence: Evidence
    disturbances: _containers.RepeatedScalarFieldContainer[str]
    paused_ns: int
    disturbed_by: _containers.RepeatedCompositeFieldContainer[Disturbance]
    def __init__(self, index: _Optional[int] = ..., begin_ns: _Optional[int] = ..., duration_ns: _Optional[int] = ..., iterations: _Optional[int] = ..., evidence: _Optional[_Union[Evidence, _Mapping]] = ..., disturbances: _Optional[_Iterable[str]] = ..., paused_ns: _Optional[int] = ..., disturbed_by: _Optional[_Iterable[_Union[Disturbance, _Mapping]]] = ...) -> None: ...

class Disturbance(_message.Message):
    __slots__ = ("kind", "share", "duration_ns", "frequency_hz")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_HZ_FIELD_NUMBER: _ClassVar[int]
    kind: DisturbanceKind
    share: float
    duration_ns: int
    frequency_hz: int
    def __init__(self, kind: _Optional[_Union[DisturbanceKind, str]] = ..., share: _Optional[float] = ..., duration_ns: _Optional[int] = ..., frequency_hz: _Optional[int] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("cpu_time_ns", "other_cpu_time_ns", "steal_ns", "involuntary_switches", "cpu_pressure_ns", "memory_pressure_ns", "io_pressure_ns", "throttled_ns", "min_frequency_hz", "max_frequency_hz", "temperature_millicelsius", "energy_uj", "governor", "turbo", "power_supply", "missing", "reference_product_ns", "reference_stream_ns", "cluster_migrations", "held_back_by", "energy_source")
    class MissingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    OTHER_CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    STEAL_NS_FIELD_NUMBER: _ClassVar[int]
    INVOLUNTARY_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    CPU_PRESSURE_NS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PRESSURE_NS_FIELD_NUMBER: _ClassVar[int]
    IO_PRESSURE_NS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_NS_FIELD_NUMBER: _ClassVar[int]
    MIN_FREQUENCY_HZ_FIELD_NUMBER: _ClassVar[int]
    MAX_FREQUENCY_HZ_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_MILLICELSIUS_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    GOVERNOR_FIELD_NUMBER: _ClassVar[int]
    TURBO_FIELD_NUMBER: _ClassVar[int]
    POWER_SUPPLY_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_PRODUCT_NS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_STREAM_NS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_BY_FIELD_NUMBER: _ClassVar[int]
    ENERGY_SOURCE_FIELD_NUMBER: _ClassVar[int]
    cpu_time_ns: int
    other_cpu_time_ns: int
    steal_ns: int
    involuntary_switches: int
    cpu_pressure_ns: int
    memory_pressure_ns: int
    io_pressure_ns: int
    throttled_ns: int
    min_frequency_hz: int
    max_frequency_hz: int
    temperature_millicelsius: int
    energy_uj: int
    governor: str
    turbo: bool
    power_supply: str
    missing: _containers.ScalarMap[str, str]
    reference_product_ns: int
    reference_stream_ns: int
    cluster_migrations: int
    held_back_by: str
    energy_source: str
    def __init__(self, cpu_time_ns: _Optional[int] = ..., other_cpu_time_ns: _Optional[int] = ..., steal_ns: _Optional[int] = ..., involuntary_switches: _Optional[int] = ..., cpu_pressure_ns: _Optional[int] = ..., memory_pressure_ns: _Optional[int] = ..., io_pressure_ns: _Optional[int] = ..., throttled_ns: _Optional[int] = ..., min_frequency_hz: _Optional[int] = ..., max_frequency_hz: _Optional[int] = ..., temperature_millicelsius: _Optional[int] = ..., energy_uj: _Optional[int] = ..., governor: _Optional[str] = ..., turbo: bool = ..., power_supply: _Optional[str] = ..., missing: _Optional[_Mapping[str, str]] = ..., reference_product_ns: _Optional[int] = ..., reference_stream_ns: _Optional[int] = ..., cluster_migrations: _Optional[int] = ..., held_back_by: _Optional[str] = ..., energy_source: _Optional[str] = ...) -> None: ...

class Phase(_message.Message):
    __slots__ = ("name", "duration_ns", "peak_rss_bytes", "paused_ns")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    PEAK_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAUSED_NS_FIELD_NUMBER: _ClassVar[int]
    name: str
    duration_ns: int
    peak_rss_bytes: int
    paused_ns: int
    def __init__(self, name: _Optional[str] = ..., duration_ns: _Optional[int] = ..., peak_rss_bytes: _Optional[int] = ..., paused_ns: _Optional[int] = ...) -> None: ...

class Effective(_message.Message):
    __slots__ = ("threads", "streams", "precision", "provider", "isa", "affinity", "prepared")
    THREADS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    ISA_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    threads: IntegerReadback
    streams: IntegerReadback
    precision: TextReadback
    provider: TextReadback
    isa: TextReadback
    affinity: _containers.RepeatedScalarFieldContainer[int]
    prepared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, threads: _Optional[_Union[IntegerReadback, _Mapping]] = ..., streams: _Optional[_Union[IntegerReadback, _Mapping]] = ..., precision: _Optional[_Union[TextReadback, _Mapping]] = ..., provider: _Optional[_Union[TextReadback, _Mapping]] = ..., isa: _Optional[_Union[TextReadback, _Mapping]] = ..., affinity: _Optional[_Iterable[int]] = ..., prepared: _Optional[_Iterable[str]] = ...) -> None: ...

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
    __slots__ = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns", "block")
    LATENCY_NS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_NS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    latency_ns: _containers.RepeatedScalarFieldContainer[int]
    scheduled_ns: _containers.RepeatedScalarFieldContainer[int]
    sent_ns: _containers.RepeatedScalarFieldContainer[int]
    completed_ns: _containers.RepeatedScalarFieldContainer[int]
    block: int
    def __init__(self, latency_ns: _Optional[_Iterable[int]] = ..., scheduled_ns: _Optional[_Iterable[int]] = ..., sent_ns: _Optional[_Iterable[int]] = ..., completed_ns: _Optional[_Iterable[int]] = ..., block: _Optional[int] = ...) -> None: ...
