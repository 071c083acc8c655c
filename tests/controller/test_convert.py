"""Records survive the way over the wire and back."""

import numpy as np

from enginebench_controller import convert
from enginebench_controller.records import Configuration, FailureKind, Hint, InputTensor, Load, Source, StopRule
from enginebench_proto.v1 import engine_pb2, measurement_pb2, run_pb2

CONFIGURATION = Configuration(
    device="GPU.0",
    batch=4,
    cores=2,
    streams=3,
    precision="bf16",
    hint=Hint.CUMULATIVE_THROUGHPUT,
    load=Load.ASYNC,
    requests=6,
    inputs=(InputTensor("ids", "int64", (4, 128), 30522), InputTensor("image", "float32", (4, 3, 224, 224))),
    input_seed=7,
    input_count=5,
    options={"level": "all"},
    stop=StopRule(1, 2, 3, 4),
)


def test_a_configuration_survives_the_wire() -> None:
    assert convert.from_configuration(convert.to_configuration(CONFIGURATION)) == CONFIGURATION


def test_unknown_readbacks_stay_unknown() -> None:
    message = measurement_pb2.Effective(
        threads=measurement_pb2.IntegerReadback(value=2, source=measurement_pb2.READBACK_SOURCE_OBSERVED),
        affinity=[0, 1],
    )
    effective = convert.from_effective(message)
    assert effective.threads is not None and (effective.threads.value, effective.threads.source) == (2, Source.OBSERVED)
    assert effective.precision is None and effective.affinity == (0, 1)


def test_a_failure_kind_this_version_does_not_know_is_internal() -> None:
    message = run_pb2.Failure(message="something new")
    message.kind = 77  # type: ignore[assignment]  # a newer agent's kind
    assert convert.from_failure(message).kind is FailureKind.INTERNAL


def test_every_failure_kind_of_the_wire_has_a_name_here() -> None:
    names = {name.removeprefix("FAILURE_KIND_").lower() for name in run_pb2.FailureKind.keys()} - {"unspecified"}  # noqa: SIM118
    assert names == set(FailureKind)


def test_samples_of_all_parts_are_joined_in_order() -> None:
    parts = [measurement_pb2.Samples(latency_ns=[3, 1]), measurement_pb2.Samples(latency_ns=[2**40])]
    assert convert.from_samples(parts).tolist() == [3, 1, 2**40]
    assert convert.from_samples([]).dtype == np.int64


def test_an_unavailable_engine_keeps_its_reason() -> None:
    message = engine_pb2.Engine(name="vino")
    message.unavailable.kind = engine_pb2.UNAVAILABLE_KIND_BROKEN
    message.unavailable.reason = "libvino.so is missing"
    engine = convert.from_engine(message)
    assert engine["available"] is None
    assert engine["unavailable"] == {"kind": "broken", "reason": "libvino.so is missing", "detail": ""}
