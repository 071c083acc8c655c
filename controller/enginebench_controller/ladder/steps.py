"""The rungs of the two ladders, after OpenVINO's notebooks "Performance tricks" for throughput and for latency."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from enginebench_controller.errors import InputError
from enginebench_controller.records import Hint, Load


class Kind(StrEnum):
    """What a ladder is to improve."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"


class Network(StrEnum):
    """In which form a rung takes the model."""

    GIVEN = "given"
    ONNX = "onnx"
    IR = "ir"


class Place(StrEnum):
    """Where a rung runs; which device that is, is known once a target has been asked."""

    CPU = "CPU"
    GPU = "GPU"
    AUTO = "AUTO"


@dataclass(frozen=True)
class Step:
    """A rung as it is defined, before anybody knows whether a target has it.

    `all_cores` asks for every core of the target where lower rungs have fewer. `shared_memory` None leaves it to the
    engine.
    """

    name: str
    title: str
    engine: str = "openvino"
    network: Network = Network.IR
    place: Place = Place.CPU
    batch: int = 1
    load: Load = Load.SYNC
    hint: Hint = Hint.NONE
    all_cores: bool = False
    shared_memory: bool | None = None


def steps(kind: Kind, batches: Sequence[int], skipped: Sequence[str]) -> tuple[Step, ...]:
    """The rungs of a ladder from the lowest up, without the `skipped`; a rung for each of `batches`.

    Raises `InputError` for a name that is no rung's.
    """
    all_steps = _throughput(batches) if kind is Kind.THROUGHPUT else _LATENCY
    names = [step.name for step in all_steps]
    for name in skipped:
        if name not in names and name != _BATCH:
            raise InputError(f"the {kind} ladder has no rung {name!r} to skip; it has {', '.join(names)}")
    left_out = {*skipped, *(name for name in names if _BATCH in skipped and name.startswith(f"{_BATCH}-"))}
    return tuple(step for step in all_steps if step.name not in left_out)


_BATCH = "batch"
"""Stands for all rungs with a bigger batch."""


def _throughput(batches: Sequence[int]) -> tuple[Step, ...]:
    in_flight, hint = Load.ASYNC, Hint.THROUGHPUT
    return (
        Step("pytorch", "PyTorch", "torch", Network.GIVEN),
        Step("openvino", "OpenVINO, FP16 weights"),
        *(Step(f"{_BATCH}-{size}", f"+ batch {size}", batch=size) for size in dict.fromkeys(batches)),
        Step("async", "asynchronous, batch 1", load=in_flight),
        Step("throughput", "THROUGHPUT hint", load=in_flight, hint=hint),
        Step("gpu", "THROUGHPUT on GPU", place=Place.GPU, load=in_flight, hint=hint),
        Step("auto", "THROUGHPUT on AUTO", place=Place.AUTO, load=in_flight, hint=hint),
        Step("cumulative", "CUMULATIVE on AUTO", place=Place.AUTO, load=in_flight, hint=Hint.CUMULATIVE_THROUGHPUT),
    )


_LATENCY = (
    Step("pytorch", "PyTorch", "torch", Network.GIVEN),
    Step("onnx", "OpenVINO, ONNX file", network=Network.ONNX, shared_memory=False),
    Step("openvino", "OpenVINO IR, FP16 weights", shared_memory=False),
    Step("gpu", "OpenVINO IR on GPU", place=Place.GPU, shared_memory=False),
    Step("threads", "+ more threads", all_cores=True, shared_memory=False),
    Step("hint", "LATENCY hint", hint=Hint.LATENCY, shared_memory=False),
    Step("shared-memory", "+ shared memory", hint=Hint.LATENCY, shared_memory=True),
)
