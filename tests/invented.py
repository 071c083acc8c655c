"""Records with invented numbers, for tests of what keeps and shows them. Nothing here was measured."""

from dataclasses import replace

import numpy as np

from enginebench_controller.records import (
    Arrivals,
    AvailableEngine,
    Benchmark,
    Block,
    BlockSamples,
    CapturedOutput,
    Configuration,
    Derivation,
    DerivationKind,
    Device,
    Disturbance,
    DisturbanceKind,
    Effective,
    EngineRef,
    Evidence,
    Failure,
    FailureKind,
    Hint,
    HostFacts,
    InputFile,
    InputSet,
    InputTensor,
    Load,
    Measurement,
    MeasuringCost,
    ModelFile,
    ModelVersion,
    Phase,
    Process,
    Readback,
    ReadbackSource,
    Status,
    StopReason,
    StopRule,
    TargetSnapshot,
    UnavailableEngine,
    UnavailableKind,
    WarmUp,
)
from enginebench_controller.stats.summary import process_medians, process_spread, summarize, throughput

CREATED_NS = 1_700_000_000_123_456_789

CONFIGURATION = Configuration(
    device="CPU",
    batch=1,
    cores=2,
    hint=Hint.LATENCY,
    load=Load.ASYNC,
    requests=3,
    inputs=(InputTensor("ids", "int64", (1, 16), 30_522), InputTensor("pixels", "float32", (1, 3, 8, 8))),
    input_set=InputSet(
        count=1, name="photos", items=((InputFile("ids", "0a" * 32, 256), InputFile("pixels", "0b" * 32, 896)),)
    ),
    options={"invented": "yes"},
    stop=StopRule(min_iterations=11, retry_noisy=True),
)
OPEN_LOOP = replace(CONFIGURATION, load=Load.OPEN_LOOP, arrivals=Arrivals(250.0))

PROCESSES = 3
BLOCKS_OF_A_PROCESS = 4
DISTURBANCE = Disturbance(DisturbanceKind.OTHER_PROCESSES, share=0.1234)
STEAL = Disturbance(DisturbanceKind.STEAL, share=0.09)
THROTTLED = Disturbance(DisturbanceKind.THROTTLED, duration_ns=3_000_000)
PAUSED = Disturbance(DisturbanceKind.PAUSED, duration_ns=20_000_000_000)
BATCH_4 = Derivation(DerivationKind.REBATCHED, batch=4)
INT8 = Derivation(DerivationKind.QUANTIZED, said="8 inputs of seed 0")
PRUNED_90 = Derivation(DerivationKind.PRUNED, sparsity=0.9)
IR_FP16 = Derivation(DerivationKind.CONVERTED)
UNSTEADY = "the medians of its halves differ by 4 %"


def benchmark(identity="b0000001", name="invented", **fields):
    """A benchmark without measurements."""
    return Benchmark(identity, name, CREATED_NS, {"schema_version": 1, "models": ["zoo:invented"]}, **fields)


def samples(identity, *, latency_ms=4.0, iterations=200, open_loop=False):
    """What `measured` with the same arguments summarizes: latencies drawn from a generator seeded by the id.

    In equal blocks, as many for each process; with fewer iterations than that in blocks of one.
    """
    generator = np.random.default_rng(list(identity.encode()))
    latency_ns = (latency_ms * 1e6 * generator.lognormal(0, 0.05, iterations)).astype(np.int64)
    parts = np.array_split(latency_ns, min(iterations, PROCESSES * BLOCKS_OF_A_PROCESS))
    each = -(-len(parts) // PROCESSES)
    return tuple(_samples(*divmod(place, each), part, open_loop) for place, part in enumerate(parts))


def measured(
    identity,
    benchmark_id="b0000001",
    *,
    latency_ms=4.0,
    iterations=200,
    batch=1,
    engine="fake",
    noisy=False,
    **fields,
):
    """A measurement with numbers, latencies around `latency_ms`.

    If it is noisy, the second block of all was disturbed and the second process never became steady.
    """
    raw = samples(identity, latency_ms=latency_ms, iterations=iterations)
    blocks = tuple(_block(one, disturbed=noisy and place == 1) for place, one in enumerate(raw))
    steady_state_ns = sum(block.duration_ns for block in blocks)
    rate, rate_interval = throughput(blocks, batch)
    medians = process_medians(raw)
    processes = tuple(_process(index, medians[index], blocks, batch, noisy and index == 1) for index in medians)
    whole = Measurement(
        id=identity,
        benchmark_id=benchmark_id,
        target="local",
        engine=EngineRef(engine, "default", "1.0"),
        model_digest="ab" * 32,
        model_name="invented",
        configuration=Configuration("CPU", batch, cores=2),
        status=Status.OK,
        started_at_unix_ns=CREATED_NS,
        effective=processes[0].effective,
        phases=processes[0].phases,
        processes=processes,
        blocks=blocks,
        iterations=iterations,
        steady_state_ns=steady_state_ns,
        cpu_time_ns=None,
        input_set_sha256="cd" * 32,
        latency=summarize(raw),
        throughput_items_per_s=rate,
        throughput_interval=rate_interval,
        process_spread=process_spread(medians),
        captured_outputs=(outputs(),),
    )
    return replace(whole, **fields)


def left_out(identity):
    """A measurement of which one disturbed block counts nowhere, and its samples; the block has both ends of them."""
    raw = samples(identity)
    raw[1].latency_ns[:2] = 1, 10**9
    whole = measured(identity, noisy=True)
    excluded = {(raw[1].process, raw[1].block)}
    return replace(whole, latency=summarize(raw, excluded)), raw


def outputs(shift=0.0):
    """The captured output of one input, two classes of scores; `shift` is added to each element."""
    values = np.linspace(-1, 1, 20, dtype=np.float32) + np.float32(shift)
    return CapturedOutput(0, "scores", "float32", (2, 10), 1, values)


def failed(identity, benchmark_id="b0000001", *, engine="fake-broken", batch=1, **fields):
    """A measurement that ended in a crash."""
    whole = Measurement(
        id=identity,
        benchmark_id=benchmark_id,
        target="local",
        engine=EngineRef(engine, "default"),
        model_digest="ab" * 32,
        model_name="invented",
        configuration=Configuration("CPU", batch, cores=2),
        status=Status.FAILED,
        failure=Failure(
            FailureKind.CRASHED,
            "the engine's process was killed by SIGSEGV while it compiled the model",
            signal="SIGSEGV",
            stderr_tail="Fatal Python error: Segmentation fault",
            phase="compile",
        ),
    )
    return replace(whole, **fields)


def model(digest="ab" * 32, name="invented", **fields):
    """A model version of two files."""
    files = (ModelFile("model.onnx", "01" * 32, 10), ModelFile("weights/data", "02" * 32, 2**33))
    return ModelVersion(digest, name, "onnx", files, CREATED_NS, **fields)


def snapshot(target="local", seen_at_unix_ns=CREATED_NS):
    """What a target says of itself: one engine that works, one that is not installed, one that is hidden."""
    device = Device("CPU", "Invented CPU", ("f32", "bf16"), ("cpu",))
    common = {"environment": "default", "python_version": "3.11.7", "distribution": "enginebench 0.1.0"}
    works = AvailableEngine(name="fake", version="1.0", formats=("onnx",), devices=(device,), **common)
    reason = "fake-broken is not installed; install it"
    return TargetSnapshot(
        target=target,
        address="127.0.0.1:50051",
        seen_at_unix_ns=seen_at_unix_ns,
        host=HostFacts(hostname="invented", cpu_model="Invented CPU", physical_cores=2),
        engines=(
            works,
            UnavailableEngine(name="fake-broken", kind=UnavailableKind.NOT_INSTALLED, reason=reason, **common),
            replace(works, name="fake-hidden", hidden=True),
        ),
    )


def _samples(process, block, latency_ns, open_loop):
    if not open_loop:
        return BlockSamples(process, block, latency_ns)
    scheduled_ns = np.arange(latency_ns.size, dtype=np.int64) * 4_000_000
    return BlockSamples(process, block, latency_ns, scheduled_ns, scheduled_ns + 1_000, scheduled_ns + latency_ns)


def _block(samples, disturbed):
    evidence = Evidence(
        cpu_time_ns=2_000_000,
        other_cpu_time_ns=40_000 if not disturbed else 4_000_000,
        steal_ns=0,
        involuntary_switches=samples.block,
        min_frequency_hz=2_400_000_000,
        max_frequency_hz=3_100_000_000,
        governor="performance",
        turbo=False,
        missing={} if samples.block else {"energy_uj": "there is no /sys/class/powercap/intel-rapl:0"},
    )
    return Block(
        process=samples.process,
        index=samples.block,
        begin_ns=samples.block * 60_000_000,
        duration_ns=int(samples.latency_ns.sum()),
        iterations=samples.latency_ns.size,
        evidence=evidence,
        disturbances=(DISTURBANCE,) if disturbed else (),
        paused_ns=0 if samples.block else None,
    )


def _process(index, median_ns, blocks, batch, unsteady):
    own = [block for block in blocks if block.process == index]
    steady_state_ns = sum(block.duration_ns for block in own)
    return Process(
        index=index,
        started_at_unix_ns=CREATED_NS + index,
        phases=(Phase("compile", 250_000_000, 90_000_000), Phase("steady_state", steady_state_ns)),
        effective=Effective(
            threads=Readback(2, ReadbackSource.OBSERVED),
            precision=Readback("f32", ReadbackSource.ENGINE_API),
            affinity=(0, 1),
        ),
        calibration=MeasuringCost(timer_ns=38.5, empty_loop_ns=95.25, block_ns=100_000_000),
        warm_up=WarmUp(False, 900, UNSTEADY) if unsteady else WarmUp(True, 120),
        stop_reason=StopReason.TARGET_MET,
        iterations=sum(block.iterations for block in own),
        steady_state_ns=steady_state_ns,
        median_ns=median_ns,
        throughput_items_per_s=throughput(own, batch)[0],
    )
