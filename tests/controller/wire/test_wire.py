"""Records survive the way over the wire and back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from enginebench_controller import wire
from enginebench_controller.records import (
    ArrivalProcess,
    Arrivals,
    AvailableEngine,
    Block,
    BlockSamples,
    Bystanders,
    CapturedOutput,
    Configuration,
    CoreCluster,
    Disturbance,
    DisturbanceKind,
    Evidence,
    FailureKind,
    Hint,
    HostFacts,
    InputFile,
    InputSet,
    InputTensor,
    InputValues,
    Load,
    MachineUse,
    ProcessUse,
    ReadbackSource,
    StopReason,
    StopRule,
    UnavailableEngine,
    UnavailableKind,
    WarmUp,
)
from enginebench_controller.records.fields import ENGINES
from enginebench_controller.wire import fields
from enginebench_proto.v1 import device_pb2, engine_pb2, host_pb2, measurement_pb2, peaks_pb2, run_pb2

CONFIGURATION = Configuration(
    device="GPU.0",
    batch=4,
    cores=2,
    streams=3,
    precision="bf16",
    hint=Hint.CUMULATIVE_THROUGHPUT,
    load=Load.OPEN_LOOP,
    requests=6,
    arrivals=Arrivals(12.5, ArrivalProcess.CONSTANT),
    inputs=(InputTensor("ids", "int64", (4, 128), 30522), InputTensor("image", "float32", (4, 3, 224, 224))),
    input_set=InputSet(
        7,
        1,
        "cats",
        ((InputFile("ids", "a" * 64, 10), InputFile("image", "b" * 64, 2**33)),),
        values=(InputValues("sr", -(2**62), 2**63 - 1), InputValues("scale", 0.5, 1.0)),
    ),
    options={"level": "all"},
    stop=StopRule(1, 2, 3, 4, 0.05, processes=1, block_ns=6, retry_noisy=True),
)


def test_a_configuration_survives_the_wire() -> None:
    assert wire.from_configuration(wire.to_configuration(CONFIGURATION)) == CONFIGURATION


@pytest.mark.parametrize("load", [Load.SYNC, Load.ASYNC])
def test_a_load_without_arrivals_survives_the_wire(load: Load) -> None:
    closed = replace(CONFIGURATION, load=load, arrivals=None)
    assert wire.from_configuration(wire.to_configuration(closed)) == closed


def test_each_process_of_an_open_loop_has_a_schedule_of_its_own() -> None:
    seeds = [wire.to_configuration(CONFIGURATION, process).arrivals.seed for process in range(3)]
    assert len(set(seeds)) == 3


EVIDENCE = Evidence(
    steal_ns=0, energy_uj=5, turbo=False, governor="performance", reference_product_ns=7, missing={"cpu_time_ns": "no"}
)


@pytest.mark.parametrize("evidence", [Evidence(), EVIDENCE])
def test_a_block_survives_the_wire_and_what_is_unknown_stays_unknown(evidence: Evidence) -> None:
    block = Block(2, 3, 4, 5, 6, evidence, (Disturbance(DisturbanceKind.STEAL, share=0.1234),))
    assert wire.from_block(wire.to_block(block), process=2) == block


DISTURBED = {
    Disturbance(DisturbanceKind.STEAL, share=0.1234),
    Disturbance(DisturbanceKind.OTHER_PROCESSES, share=1.5),
    Disturbance(DisturbanceKind.THROTTLED, duration_ns=1_234_567),
    Disturbance(DisturbanceKind.MEMORY_PRESSURE, share=0.011),
    Disturbance(DisturbanceKind.FREQUENCY, share=0.33, frequency_hz=1_234_567_890),
    Disturbance(DisturbanceKind.PAUSED, duration_ns=2**40),
    Disturbance(DisturbanceKind.HELD_BACK),
    Disturbance(DisturbanceKind.SOMETHING_ELSE, said="a ghost 3 %"),
}


def test_every_kind_of_disturbance_survives_the_wire_beside_the_others() -> None:
    assert {one.kind for one in DISTURBED} == set(DisturbanceKind)
    block = Block(2, 3, 4, 5, 6, disturbances=tuple(DISTURBED))
    assert wire.from_block(wire.to_block(block), process=2).disturbances == block.disturbances


def test_an_older_agent_tells_in_words_alone_what_disturbed_a_block() -> None:
    message = measurement_pb2.Block(disturbances=["other processes 12 %", "paused for 20 s"])
    assert wire.from_block(message, process=0).disturbances == (
        Disturbance(DisturbanceKind.OTHER_PROCESSES, share=0.12),
        Disturbance(DisturbanceKind.PAUSED, duration_ns=20_000_000_000),
    )


def test_of_a_newer_agent_the_kinds_that_are_not_known_here_are_told_in_its_words() -> None:
    steal = measurement_pb2.Disturbance(kind=measurement_pb2.DISTURBANCE_KIND_STEAL, share=0.1234)
    message = measurement_pb2.Block(
        disturbances=["a ghost 3 %", "steal 12 %"], disturbed_by=[measurement_pb2.Disturbance(kind=99), steal]
    )
    ghost, known = wire.from_block(message, process=0).disturbances
    assert (ghost.kind, str(ghost), known.share) == (DisturbanceKind.SOMETHING_ELSE, "a ghost 3 %", 0.1234)


@pytest.mark.parametrize("instants", [(None, None, None), ([1, 2], [3, 4], [5, 2**40])])
def test_samples_survive_the_wire(instants: tuple[list[int] | None, ...]) -> None:
    series = [None if values is None else np.array(values, dtype=np.int64) for values in instants]
    samples = BlockSamples(1, 7, np.array([3, 2**40], dtype=np.int64), *series)
    back = wire.from_samples(wire.to_samples(samples), process=1)
    assert (back.process, back.block, back.latency_ns.dtype) == (1, 7, np.dtype(np.int64))
    for name in ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns"):
        sent, received = getattr(samples, name), getattr(back, name)
        assert received is None if sent is None else received.tolist() == sent.tolist()


def test_a_captured_output_survives_the_wire() -> None:
    output = CapturedOutput(1, "y", "float16", (4, 1000), 3, np.array([1.5, -2, np.nan], dtype=np.float32))
    back = wire.from_captured_output(wire.to_captured_output(output))
    assert (back.input_index, back.name, back.dtype, back.shape, back.stride) == (1, "y", "float16", (4, 1000), 3)
    assert back.values.dtype == np.float32 and np.array_equal(back.values, output.values, equal_nan=True)


def test_what_a_process_did_is_read_and_the_rest_stays_unknown() -> None:
    message = measurement_pb2.Measurement(
        iterations=5,
        stop_reason=measurement_pb2.STOP_REASON_MAX_DURATION,
        warm_up=measurement_pb2.WarmUp(iterations=9, reason="it drifted"),
        unsent_arrivals=0,
    )
    process = wire.from_process(2, run_pb2.RunResult(measurement=message))
    assert (process.index, process.iterations, process.stop_reason) == (2, 5, StopReason.MAX_DURATION)
    assert process.warm_up == WarmUp(False, 9, "it drifted")
    assert (process.unsent_arrivals, process.scheduled_arrivals, process.calibration) == (0, None, None)


def test_who_else_used_the_machine_is_read_and_what_was_not_seen_stays_unknown() -> None:
    pip = measurement_pb2.ProcessUse(name="pip", pid=812, count=2, cpu_time_ns=7)
    use = measurement_pb2.MachineUse(duration_ns=10, processors=2, other_cpu_time_ns=8, steal_ns=1, busiest=[pip])
    seen = measurement_pb2.Bystanders(before=use, waited_ns=5, quota_cores=1.5, unseen=["processes of other users"])
    message = measurement_pb2.Measurement(bystanders=seen, warm_up=measurement_pb2.WarmUp(undecided=True))
    process = wire.from_process(0, run_pb2.RunResult(measurement=message))
    found = MachineUse(10, 2, 8, 1, (ProcessUse("pip", 812, 2, 7),))
    assert process.bystanders == Bystanders(found, 5, None, 1.5, ("processes of other users",))
    assert process.warm_up is not None and process.warm_up.steady is None
    older = wire.from_process(0, run_pb2.RunResult(measurement=measurement_pb2.Measurement(iterations=1)))
    assert older.bystanders is None, "an older agent does not look"
    assert wire.from_machine_use(measurement_pb2.MachineUse(other_cpu_time_ns=8)) is None


def test_a_process_that_never_measured_is_only_an_index() -> None:
    process = wire.from_process(0, run_pb2.RunResult())
    assert process.iterations is None and process.phases == ()


def test_unknown_readbacks_stay_unknown() -> None:
    message = measurement_pb2.Effective(
        threads=measurement_pb2.IntegerReadback(value=2, source=measurement_pb2.READBACK_SOURCE_OBSERVED),
        affinity=[0, 1],
        prepared=["5 weights folded"],
    )
    effective = wire.from_effective(message)
    assert effective.threads is not None and (effective.threads.value, effective.threads.source) == (
        2,
        ReadbackSource.OBSERVED,
    )
    assert effective.precision is None and effective.affinity == (0, 1)
    assert effective.preparation == "Prepared: 5 weights folded"


@pytest.mark.fault(20)
def test_a_failure_kind_this_version_does_not_know_is_internal() -> None:
    message = run_pb2.Failure(message="something new")
    message.kind = 77  # type: ignore[assignment]  # a newer agent's kind
    assert wire.from_failure(message).kind is FailureKind.INTERNAL


def test_every_failure_kind_of_the_wire_has_a_name_here() -> None:
    names = {name.removeprefix("FAILURE_KIND_").lower() for name in run_pb2.FailureKind.keys()} - {"unspecified"}  # noqa: SIM118
    assert names == set(FailureKind)


def test_what_a_target_does_not_tell_of_its_machine_stays_unknown() -> None:
    message = host_pb2.HostFacts(hostname="nuc", memory_bytes=2**35, isa=["avx2"], wire_revision=1)
    assert wire.from_host(message) == HostFacts(hostname="nuc", memory_bytes=2**35, isa=("avx2",), wire_revision=1)
    assert wire.from_host(host_pb2.HostFacts()) == HostFacts()
    kinds = [host_pb2.CoreCluster(name="big", physical_cores=2, capacity=1024), host_pb2.CoreCluster(name="little")]
    found = wire.from_host(host_pb2.HostFacts(emulation="translated", clusters=kinds))
    assert (found.emulation, found.virtualization) == ("translated", None)
    assert found.clusters == (CoreCluster("big", 2, capacity=1024), CoreCluster("little", 0))


def test_an_unavailable_engine_keeps_its_reason() -> None:
    message = engine_pb2.Engine(name="vino")
    message.unavailable.kind = engine_pb2.UNAVAILABLE_KIND_BROKEN
    message.unavailable.reason = "libvino.so is missing"
    engine = wire.from_engine(message)
    assert engine == UnavailableEngine(
        name="vino", environment="", kind=UnavailableKind.BROKEN, reason="libvino.so is missing"
    )


def test_what_an_engine_says_of_itself_is_bounded_whatever_its_agent_lets_pass() -> None:
    long = "x" * 100_000
    device = device_pb2.Device(full_name=long, precisions=[long] * 100, properties={long: long})
    option = engine_pb2.EngineOption(name=long, help=long, choices=[long])
    available = engine_pb2.AvailableEngine(version=long, options=[option] * 100, more_devices=7)
    available.devices.extend(device_pb2.Device(name=str(number)) for number in range(1_000))
    available.devices[0].CopyFrom(device)
    told = wire.from_engine(engine_pb2.Engine(name=long, available=available))
    assert len(json.dumps(ENGINES.to_data((told,)))) < 200_000
    assert isinstance(told, AvailableEngine) and (len(told.devices), told.more_devices) == (64, 936 + 7)
    unavailable = engine_pb2.UnavailableEngine(reason=long, detail=long)
    told = wire.from_engine(engine_pb2.Engine(unavailable=unavailable))
    assert isinstance(told, UnavailableEngine) and (len(told.reason), len(told.detail)) == (500, 16_384)


@pytest.mark.parametrize(("told", "kept"), [(128, 128), (1_000_000, 4096)])
def test_as_many_batches_are_kept_as_engines_are_compiled_for(told: int, kept: int) -> None:
    available = engine_pb2.AvailableEngine(batches=range(1, told + 1))
    engine = wire.from_engine(engine_pb2.Engine(name="static", available=available))
    assert isinstance(engine, AvailableEngine) and engine.batches == tuple(range(1, kept + 1))


def test_an_option_for_profiles_only_is_told_as_such() -> None:
    options = [
        engine_pb2.EngineOption(name=name, profile_only=only) for name, only in (("deep", True), ("plain", False))
    ]
    message = engine_pb2.Engine(name="x", available=engine_pb2.AvailableEngine(options=options))
    found = wire.from_engine(message)
    assert isinstance(found, AvailableEngine)
    assert {one.name: one.profile_only for one in found.options} == {"deep": True, "plain": False}


def test_every_reason_for_an_unavailable_engine_has_a_name_here_and_of_a_newer_agent_is_unspecified() -> None:
    names = {name.removeprefix("UNAVAILABLE_KIND_").lower() for name, _ in engine_pb2.UnavailableKind.items()}
    assert names == set(UnavailableKind)
    message = engine_pb2.Engine(name="vino")
    message.unavailable.kind = 99  # type: ignore[assignment]  # a newer agent's kind
    found = wire.from_engine(message)
    assert isinstance(found, UnavailableEngine) and found.kind is UnavailableKind.UNSPECIFIED


def test_what_a_thousand_targets_tell_alike_is_kept_once() -> None:
    of_one, of_another = (fields.short("".join(["AMD EPYC ", "7B13"])) for _ in range(2))
    assert of_one is of_another == "AMD EPYC 7B13"
    long_ones = [fields.short("x" * 200) for _ in range(2)]
    assert long_ones[0] is long_ones[1] and len(long_ones[0]) == fields.MAX_NAME_CHARS


def test_a_peak_that_could_not_be_measured_has_no_rate_and_not_one_of_zero() -> None:
    peak = wire.from_peak(peaks_pb2.Peak(kind=peaks_pb2.PEAK_KIND_FLOPS, failure="it crashed"), "nuc")
    assert peak is not None
    assert (peak.rate, peak.failure) == (None, "it crashed")
