"""The controller's own nouns, frozen: what comes off the wire, goes into the store and onto the page.

Durations are integer nanoseconds; instants are nanoseconds since the Unix epoch. None means unknown, never zero.
"""

from enginebench_controller.records.benchmark import Benchmark
from enginebench_controller.records.block import Block, BlockSamples, Evidence
from enginebench_controller.records.bystanders import Bystanders, MachineUse, ProcessUse
from enginebench_controller.records.configuration import (
    ArrivalProcess,
    Arrivals,
    Configuration,
    InputFile,
    InputSet,
    InputTensor,
    InputValues,
    StopRule,
)
from enginebench_controller.records.ending import Failure, FailureKind, Status
from enginebench_controller.records.engine import Effective, EngineRef, Readback
from enginebench_controller.records.measurement import (
    CapturedOutput,
    Ceiling,
    CeilingBasis,
    Grounds,
    Measurement,
    OutputCheck,
    OutputNoise,
)
from enginebench_controller.records.model import REBATCHED, ModelFile, ModelVersion
from enginebench_controller.records.peaks import Peak, PeakKind, Rate
from enginebench_controller.records.process import Afterwards, Calibration, Phase, Process, StopReason, WarmUp
from enginebench_controller.records.profile import Coverage, Layer, ModelWork, PassKind, Profile, ProfileNode
from enginebench_controller.records.statistics import Interval, IntervalMethod, LatencySummary, Percentile
from enginebench_controller.records.target import LOCAL_TARGET, Target, TargetSnapshot
from enginebench_proto.agreed.words import IMPOSED_SPARSITY, OPTIMIZATION_LEVEL, Hint, LayerState, Load, ReadbackSource

__all__ = [
    "IMPOSED_SPARSITY",
    "LOCAL_TARGET",
    "OPTIMIZATION_LEVEL",
    "REBATCHED",
    "Afterwards",
    "ArrivalProcess",
    "Arrivals",
    "Benchmark",
    "Block",
    "BlockSamples",
    "Bystanders",
    "Calibration",
    "CapturedOutput",
    "Ceiling",
    "CeilingBasis",
    "Configuration",
    "Coverage",
    "Effective",
    "EngineRef",
    "Evidence",
    "Failure",
    "FailureKind",
    "Grounds",
    "Hint",
    "InputFile",
    "InputSet",
    "InputTensor",
    "InputValues",
    "Interval",
    "IntervalMethod",
    "LatencySummary",
    "Layer",
    "LayerState",
    "Load",
    "MachineUse",
    "Measurement",
    "ModelFile",
    "ModelVersion",
    "ModelWork",
    "OutputCheck",
    "OutputNoise",
    "PassKind",
    "Peak",
    "PeakKind",
    "Percentile",
    "Phase",
    "Process",
    "ProcessUse",
    "Profile",
    "ProfileNode",
    "Rate",
    "Readback",
    "ReadbackSource",
    "Status",
    "StopReason",
    "StopRule",
    "Target",
    "TargetSnapshot",
    "WarmUp",
]
