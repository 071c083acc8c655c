"""Blocks with their evidence, and their raw samples."""

from dataclasses import fields

import numpy as np

from enginebench_controller.convert.presence import optional
from enginebench_controller.records import Block, BlockSamples, Evidence
from enginebench_proto.v1 import measurement_pb2

_EVIDENCE = tuple(field.name for field in fields(Evidence) if field.name != "missing")

_SERIES = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns")


def to_block(block: Block) -> measurement_pb2.Block:
    """One block as the wire carries it, where its process is known from the run."""
    return measurement_pb2.Block(
        index=block.index,
        begin_ns=block.begin_ns,
        duration_ns=block.duration_ns,
        iterations=block.iterations,
        evidence=to_evidence(block.evidence),
        disturbances=block.disturbances,
        paused_ns=block.paused_ns,
    )


def from_block(message: measurement_pb2.Block, process: int) -> Block:
    """The inverse of `to_block`."""
    return Block(
        process=process,
        index=message.index,
        begin_ns=message.begin_ns,
        duration_ns=message.duration_ns,
        iterations=message.iterations,
        evidence=from_evidence(message.evidence),
        disturbances=tuple(message.disturbances),
        paused_ns=optional(message, "paused_ns"),
    )


def to_evidence(evidence: Evidence) -> measurement_pb2.Evidence:
    """What a machine was doing, as the wire carries it: unknown fields stay absent."""
    known = {name: getattr(evidence, name) for name in _EVIDENCE if getattr(evidence, name) is not None}
    return measurement_pb2.Evidence(**known, missing=dict(evidence.missing))


def from_evidence(message: measurement_pb2.Evidence) -> Evidence:
    """The inverse of `to_evidence`."""
    known = {name: optional(message, name) for name in _EVIDENCE}
    return Evidence(**known, missing=dict(message.missing))


def to_samples(samples: BlockSamples) -> measurement_pb2.Samples:
    """Raw samples of one block as the wire carries them."""
    series = {name: getattr(samples, name) for name in _SERIES if getattr(samples, name) is not None}
    return measurement_pb2.Samples(block=samples.block, **{name: values.tolist() for name, values in series.items()})


def from_samples(message: measurement_pb2.Samples, process: int) -> BlockSamples:
    """The inverse of `to_samples`; also of a part of a block's samples."""
    latency_ns, *instants = (np.fromiter(getattr(message, name), dtype=np.int64) for name in _SERIES)
    known = [values if values.size else None for values in instants]
    return BlockSamples(process, message.block, latency_ns, *known)
