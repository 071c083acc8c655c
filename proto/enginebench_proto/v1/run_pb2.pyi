from enginebench_proto.v1 import configuration_pb2 as _configuration_pb2
from enginebench_proto.v1 import measurement_pb2 as _measurement_pb2
from enginebench_proto.v1 import model_pb2 as _model_pb2
from enginebench_proto.v1 import peaks_pb2 as _peaks_pb2
from enginebench_proto.v1 import profile_pb2 as _profile_pb2
from enginebench_proto.v1 import reservation_pb2 as _reservation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_KIND_UNSPECIFIED: _ClassVar[RunKind]
    RUN_KIND_MEASURE: _ClassVar[RunKind]
    RUN_KIND_PROFILE: _ClassVar[RunKind]
    RUN_KIND_PEAKS: _ClassVar[RunKind]

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_QUEUED: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_FINISHED: _ClassVar[RunState]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_OK: _ClassVar[Outcome]
    OUTCOME_INCONCLUSIVE: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]

class FailureKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_KIND_UNSPECIFIED: _ClassVar[FailureKind]
    FAILURE_KIND_ENGINE_UNAVAILABLE: _ClassVar[FailureKind]
    FAILURE_KIND_COMPILE_FAILED: _ClassVar[FailureKind]
    FAILURE_KIND_INFERENCE_FAILED: _ClassVar[FailureKind]
    FAILURE_KIND_CRASHED: _ClassVar[FailureKind]
    FAILURE_KIND_OUT_OF_MEMORY: _ClassVar[FailureKind]
    FAILURE_KIND_TIMED_OUT: _ClassVar[FailureKind]
    FAILURE_KIND_CANCELLED: _ClassVar[FailureKind]
    FAILURE_KIND_REFUSED: _ClassVar[FailureKind]
    FAILURE_KIND_AGENT_LOST: _ClassVar[FailureKind]
    FAILURE_KIND_INTERNAL: _ClassVar[FailureKind]
    FAILURE_KIND_SHORTAGE: _ClassVar[FailureKind]
RUN_KIND_UNSPECIFIED: RunKind
RUN_KIND_MEASURE: RunKind
RUN_KIND_PROFILE: RunKind
RUN_KIND_PEAKS: RunKind
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_QUEUED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_FINISHED: RunState
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_OK: Outcome
OUTCOME_INCONCLUSIVE: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_CANCELLED: Outcome
FAILURE_KIND_UNSPECIFIED: FailureKind
FAILURE_KIND_ENGINE_UNAVAILABLE: FailureKind
FAILURE_KIND_COMPILE_FAILED: FailureKind
FAILURE_KIND_INFERENCE_FAILED: FailureKind
FAILURE_KIND_CRASHED: FailureKind
FAILURE_KIND_OUT_OF_MEMORY: FailureKind
FAILURE_KIND_TIMED_OUT: FailureKind
FAILURE_KIND_CANCELLED: FailureKind
FAILURE_KIND_REFUSED: FailureKind
FAILURE_KIND_AGENT_LOST: FailureKind
FAILURE_KIND_INTERNAL: FailureKind
FAILURE_KIND_SHORTAGE: FailureKind

class RunSpec(_message.Message):
    __slots__ = ("run_id", "kind", "engine", "environment", "model", "configuration", "timeout_ns", "interleaving")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    INTERLEAVING_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    kind: RunKind
    engine: str
    environment: str
    model: _model_pb2.ModelVersion
    configuration: _configuration_pb2.Configuration
    timeout_ns: int
    interleaving: Interleaving
    def __init__(self, run_id: _Optional[str] = ..., kind: _Optional[_Union[RunKind, str]] = ..., engine: _Optional[str] = ..., environment: _Optional[str] = ..., model: _Optional[_Union[_model_pb2.ModelVersion, _Mapping]] = ..., configuration: _Optional[_Union[_configuration_pb2.Configuration, _Mapping]] = ..., timeout_ns: _Optional[int] = ..., interleaving: _Optional[_Union[Interleaving, _Mapping]] = ...) -> None: ...

class Interleaving(_message.Message):
    __slots__ = ("group", "members", "seed")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    group: str
    members: int
    seed: int
    def __init__(self, group: _Optional[str] = ..., members: _Optional[int] = ..., seed: _Optional[int] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("spec", "wait_quiet_ns")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WAIT_QUIET_NS_FIELD_NUMBER: _ClassVar[int]
    spec: RunSpec
    wait_quiet_ns: int
    def __init__(self, spec: _Optional[_Union[RunSpec, _Mapping]] = ..., wait_quiet_ns: _Optional[int] = ...) -> None: ...

class StartResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: RunState
    def __init__(self, state: _Optional[_Union[RunState, str]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("run_id", "from_sequence")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    from_sequence: int
    def __init__(self, run_id: _Optional[str] = ..., from_sequence: _Optional[int] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("sequence", "elapsed_ns", "state", "phase", "progress", "unquiet", "kept_out_by")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    UNQUIET_FIELD_NUMBER: _ClassVar[int]
    KEPT_OUT_BY_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    elapsed_ns: int
    state: StateChanged
    phase: PhaseStarted
    progress: Progress
    unquiet: Unquiet
    kept_out_by: _reservation_pb2.Reservation
    def __init__(self, sequence: _Optional[int] = ..., elapsed_ns: _Optional[int] = ..., state: _Optional[_Union[StateChanged, _Mapping]] = ..., phase: _Optional[_Union[PhaseStarted, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., unquiet: _Optional[_Union[Unquiet, _Mapping]] = ..., kept_out_by: _Optional[_Union[_reservation_pb2.Reservation, _Mapping]] = ...) -> None: ...

class Unquiet(_message.Message):
    __slots__ = ("seen", "waited_ns", "at_most_ns")
    SEEN_FIELD_NUMBER: _ClassVar[int]
    WAITED_NS_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_NS_FIELD_NUMBER: _ClassVar[int]
    seen: _measurement_pb2.MachineUse
    waited_ns: int
    at_most_ns: int
    def __init__(self, seen: _Optional[_Union[_measurement_pb2.MachineUse, _Mapping]] = ..., waited_ns: _Optional[int] = ..., at_most_ns: _Optional[int] = ...) -> None: ...

class StateChanged(_message.Message):
    __slots__ = ("state", "outcome", "runs_before")
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RUNS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    state: RunState
    outcome: Outcome
    runs_before: int
    def __init__(self, state: _Optional[_Union[RunState, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., runs_before: _Optional[int] = ...) -> None: ...

class PhaseStarted(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("elapsed_ns", "expected_ns", "iterations")
    ELAPSED_NS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_NS_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    elapsed_ns: int
    expected_ns: int
    iterations: int
    def __init__(self, elapsed_ns: _Optional[int] = ..., expected_ns: _Optional[int] = ..., iterations: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResultRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ResultPart(_message.Message):
    __slots__ = ("result", "samples", "block")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    result: RunResult
    samples: _measurement_pb2.Samples
    block: _measurement_pb2.Block
    def __init__(self, result: _Optional[_Union[RunResult, _Mapping]] = ..., samples: _Optional[_Union[_measurement_pb2.Samples, _Mapping]] = ..., block: _Optional[_Union[_measurement_pb2.Block, _Mapping]] = ...) -> None: ...

class RunResult(_message.Message):
    __slots__ = ("run_id", "outcome", "failure", "engine_version", "started_at_unix_ns", "measurement", "profile", "spec", "peaks", "sent_at_unix_ns")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    MEASUREMENT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PEAKS_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    outcome: Outcome
    failure: Failure
    engine_version: str
    started_at_unix_ns: int
    measurement: _measurement_pb2.Measurement
    profile: _profile_pb2.Profile
    spec: RunSpec
    peaks: _containers.RepeatedCompositeFieldContainer[_peaks_pb2.Peak]
    sent_at_unix_ns: int
    def __init__(self, run_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., engine_version: _Optional[str] = ..., started_at_unix_ns: _Optional[int] = ..., measurement: _Optional[_Union[_measurement_pb2.Measurement, _Mapping]] = ..., profile: _Optional[_Union[_profile_pb2.Profile, _Mapping]] = ..., spec: _Optional[_Union[RunSpec, _Mapping]] = ..., peaks: _Optional[_Iterable[_Union[_peaks_pb2.Peak, _Mapping]]] = ..., sent_at_unix_ns: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "message", "detail", "signal", "exit_code", "stderr_tail", "phase")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    kind: FailureKind
    message: str
    detail: str
    signal: str
    exit_code: int
    stderr_tail: str
    phase: str
    def __init__(self, kind: _Optional[_Union[FailureKind, str]] = ..., message: _Optional[str] = ..., detail: _Optional[str] = ..., signal: _Optional[str] = ..., exit_code: _Optional[int] = ..., stderr_tail: _Optional[str] = ..., phase: _Optional[str] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunSummary]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunSummary, _Mapping]]] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("run_id", "state", "outcome", "runs_before")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RUNS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    state: RunState
    outcome: Outcome
    runs_before: int
    def __init__(self, run_id: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., runs_before: _Optional[int] = ...) -> None: ...
