"""Records with invented numbers, for tests of what keeps and shows them. Nothing here was measured."""

from dataclasses import replace

import numpy as np

from enginebench_controller.records import (
    Benchmark,
    Configuration,
    Effective,
    EngineRef,
    Failure,
    FailureKind,
    Hint,
    InputTensor,
    Layer,
    Load,
    Measurement,
    ModelFile,
    ModelVersion,
    Phase,
    Profile,
    Readback,
    Source,
    Status,
    StopRule,
    TargetSnapshot,
)
from enginebench_controller.stats.summary import summarize, throughput_items_per_s

CREATED_NS = 1_700_000_000_123_456_789

CONFIGURATION = Configuration(
    device="CPU",
    batch=1,
    cores=2,
    hint=Hint.LATENCY,
    load=Load.ASYNC,
    requests=3,
    inputs=(InputTensor("ids", "int64", (1, 16), 30_522), InputTensor("pixels", "float32", (1, 3, 8, 8))),
    input_seed=7,
    options={"invented": "yes"},
    stop=StopRule(min_iterations=11),
)


def benchmark(identity="b0000001", name="invented", **fields):
    """A benchmark without measurements."""
    return Benchmark(identity, name, CREATED_NS, {"schema_version": 1, "models": ["zoo:invented"]}, **fields)


def measured(identity, benchmark_id="b0000001", *, latency_ms=4.0, iterations=200, batch=1, engine="fake", **fields):
    """A measurement with numbers: latencies around `latency_ms`, drawn from a generator seeded by the id."""
    generator = np.random.default_rng(list(identity.encode()))
    samples_ns = (latency_ms * 1e6 * generator.lognormal(0, 0.05, iterations)).astype(np.int64)
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
        effective=Effective(
            threads=Readback(2, Source.OBSERVED),
            precision=Readback("f32", Source.ENGINE_API),
            affinity=(0, 1),
        ),
        phases=(Phase("compile", 250_000_000, 90_000_000), Phase("steady_state", int(samples_ns.sum()))),
        iterations=iterations,
        steady_state_ns=int(samples_ns.sum()),
        cpu_time_ns=None,
        input_set_sha256="cd" * 32,
        latency=summarize(samples_ns),
        throughput_items_per_s=throughput_items_per_s(iterations, batch, int(samples_ns.sum())),
        samples_ns=samples_ns,
    )
    return replace(whole, **fields)


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


def profile(identity="p0000001"):
    """A profile of two layers, one of which never ran."""
    ran = Layer("conv1", "Conv", 0, "executed", (5, 6, 7), 1, "jit_avx2", "f32", ((1, 8, 4, 4),), ("Conv_0", "Relu_1"))
    gone = Layer("drop1", "Dropout", 1, "optimized_away", (), 0, "", "", (), ("Dropout_2",))
    return Profile(
        id=identity,
        name="invented",
        target="local",
        engine=EngineRef("fake", "default", "1.0"),
        model_digest="ab" * 32,
        model_name="invented",
        configuration=CONFIGURATION,
        status=Status.OK,
        created_at_unix_ns=CREATED_NS,
        effective=Effective(isa=Readback("avx2", Source.ASSUMED)),
        iterations=3,
        profiled_latency_ns=20,
        unprofiled_latency_ns=None,
        layers=(ran, gone),
    )


def model(digest="ab" * 32, name="invented", **fields):
    """A model version of two files."""
    files = (ModelFile("model.onnx", "01" * 32, 10), ModelFile("weights/data", "02" * 32, 2**33))
    return ModelVersion(digest, name, "onnx", files, CREATED_NS, **fields)


def snapshot(target="local", seen_at_unix_ns=CREATED_NS):
    """What a target says of itself: one engine that works, one that is not installed, one that is hidden."""
    device = {"name": "CPU", "full_name": "Invented CPU", "precisions": ["f32", "bf16"], "resources": ["cpu"]}
    works = {"version": "1.0", "formats": ["onnx"], "devices": [device | {"properties": {}}]}
    missing = {"kind": "not_installed", "reason": "fake-broken is not installed; install it", "detail": ""}
    common = {"environment": "default", "python_version": "3.11.7", "distribution": "enginebench 0.1.0"}
    return TargetSnapshot(
        target=target,
        address="127.0.0.1:50051",
        seen_at_unix_ns=seen_at_unix_ns,
        host={"hostname": "invented", "cpu_model": "Invented CPU", "physical_cores": 2, "memory_bytes": None},
        engines=(
            {**common, "name": "fake", "hidden": False, "available": works, "unavailable": None},
            {**common, "name": "fake-broken", "hidden": False, "available": None, "unavailable": missing},
            {**common, "name": "fake-hidden", "hidden": True, "available": works, "unavailable": None},
        ),
    )
