"""Records with made-up numbers, to fill a store of which only the size matters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from enginebench_controller.records import (
    AvailableEngine,
    Benchmark,
    Block,
    BlockSamples,
    CapturedOutput,
    Configuration,
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
    Load,
    Measurement,
    Peak,
    PeakKind,
    Phase,
    Process,
    Rate,
    Readback,
    ReadbackSource,
    Status,
    StopReason,
    TargetSnapshot,
    WarmUp,
)
from enginebench_controller.stats.summary import process_medians, process_spread, summarize, throughput
from enginebench_controller.store.store import BenchmarkBundle

BEGUN_NS = 1_750_000_000_000_000_000
ENGINES = {"onnxruntime": "1.20.0", "openvino": "2025.0.0"}
TARGET = "desk-0"
PROCESSES, BLOCKS = 3, 8
_OUTPUTS, _OUTPUT_ELEMENTS = 8, 250


@dataclass(frozen=True)
class Cell:
    """One configuration of a made-up benchmark."""

    engine: str
    batch: int = 1
    cores: int = 2
    load: Load = Load.SYNC
    hint: Hint = Hint.NONE
    device: str = "CPU"
    fails: bool = False


def bundle(identity: str, name: str, cells: list[Cell], digest: str, samples: int, **plan: Any) -> BenchmarkBundle:
    """A benchmark with a measurement a cell, of so many samples each."""
    document = {"schema_version": 1, "name": name, "models": [digest], **plan}
    raw = {f"{identity}-{place}": _samples(place, cell, samples) for place, cell in enumerate(cells)}
    measurements = tuple(
        _failed(key, identity, cell, digest) if cell.fails else _measured(key, identity, cell, digest, blocks)
        for (key, blocks), cell in zip(raw.items(), cells, strict=True)
    )
    kept = {key: blocks for (key, blocks), cell in zip(raw.items(), cells, strict=True) if not cell.fails}
    return BenchmarkBundle(Benchmark(identity, name, BEGUN_NS, document), measurements, (snapshot(),), kept)


def snapshot(target: str = TARGET) -> TargetSnapshot:
    """What a made-up target says of itself."""
    devices = (Device("CPU", "Made-up CPU", ("f32",), ("cpu",)),)
    engines = tuple(
        AvailableEngine(name=name, environment="default", version=version, formats=("onnx",), devices=devices)
        for name, version in ENGINES.items()
    )
    host = HostFacts(hostname=target, cpu_model="Made-up CPU", physical_cores=10, memory_bytes=2**35)
    return TargetSnapshot(target, f"{target}:50051", BEGUN_NS, host, engines)


def peaks() -> list[Peak]:
    """What every engine reaches at best on the target."""
    kinds = ((PeakKind.FLOPS, "f32", None, 1e11), (PeakKind.BANDWIDTH, None, 2**28, 1e10))
    return [
        Peak(
            target=TARGET,
            engine=EngineRef(name, "default", version),
            device="CPU",
            cores=2,
            kind=kind,
            what="made up",
            measured_at_unix_ns=BEGUN_NS,
            precision=precision,
            working_set_bytes=working_set_bytes,
            rate=Rate(per_s, 0.9 * per_s, 1.1 * per_s, 20),
        )
        for name, version in ENGINES.items()
        for kind, precision, working_set_bytes, per_s in kinds
    ]


def _samples(seed: int, cell: Cell, samples: int) -> tuple[BlockSamples, ...]:
    generator = np.random.default_rng(seed)
    typical_ns = 4e6 * cell.batch**0.9 / cell.cores**0.7 * (1.2 if cell.engine == "openvino" else 1.0)
    latency_ns = (typical_ns * generator.lognormal(0, 0.05, samples)).astype(np.int64)
    parts = np.array_split(latency_ns, PROCESSES * BLOCKS)
    return tuple(BlockSamples(*divmod(place, BLOCKS), part) for place, part in enumerate(parts))


def _measured(
    identity: str, benchmark_id: str, cell: Cell, digest: str, samples: tuple[BlockSamples, ...]
) -> Measurement:
    blocks = tuple(_block(one) for one in samples)
    rate, rate_interval = throughput(blocks, cell.batch)
    medians = process_medians(samples)
    steady_state_ns = sum(block.duration_ns for block in blocks)
    return Measurement(
        **_subject(identity, benchmark_id, cell, digest),
        status=Status.OK,
        started_at_unix_ns=BEGUN_NS,
        effective=_EFFECTIVE,
        phases=_phases(steady_state_ns),
        processes=tuple(_process(index, median, blocks) for index, median in medians.items()),
        blocks=blocks,
        iterations=sum(block.iterations for block in blocks),
        steady_state_ns=steady_state_ns,
        cpu_time_ns=cell.cores * steady_state_ns,
        input_set_sha256="cd" * 32,
        latency=summarize(samples),
        throughput_items_per_s=rate,
        throughput_interval=rate_interval,
        process_spread=process_spread(medians),
        captured_outputs=_OUTPUTS_OF_ALL,
    )


def _failed(identity: str, benchmark_id: str, cell: Cell, digest: str) -> Measurement:
    crashed = Failure(FailureKind.CRASHED, "the engine's process was killed by SIGSEGV", signal="SIGSEGV")
    return Measurement(**_subject(identity, benchmark_id, cell, digest), status=Status.FAILED, failure=crashed)


def _subject(identity: str, benchmark_id: str, cell: Cell, digest: str) -> dict[str, Any]:
    return {
        "id": identity,
        "benchmark_id": benchmark_id,
        "target": TARGET,
        "engine": EngineRef(cell.engine, "default", ENGINES[cell.engine]),
        "model_digest": digest,
        "model_name": "long",
        "configuration": Configuration(cell.device, cell.batch, cell.cores, load=cell.load, hint=cell.hint),
    }


_EFFECTIVE = Effective(
    threads=Readback(2, ReadbackSource.OBSERVED), precision=Readback("f32", ReadbackSource.ENGINE_API), affinity=(0, 1)
)
_OUTPUTS_OF_ALL = tuple(
    CapturedOutput(index, "scores", "float32", (1, 1000), 4, np.linspace(-1, 1, _OUTPUT_ELEMENTS, dtype=np.float32))
    for index in range(_OUTPUTS)
)


def _phases(steady_state_ns: int) -> tuple[Phase, ...]:
    return (
        Phase("compile", 250_000_000, 90_000_000),
        Phase("first_inference", 12_000_000),
        Phase("warm_up", 500_000_000),
        Phase("steady_state", steady_state_ns),
    )


def _process(index: int, median_ns: float, blocks: tuple[Block, ...]) -> Process:
    own = [block for block in blocks if block.process == index]
    steady_state_ns = sum(block.duration_ns for block in own)
    return Process(
        index=index,
        started_at_unix_ns=BEGUN_NS + index,
        phases=_phases(steady_state_ns),
        effective=_EFFECTIVE,
        warm_up=WarmUp(True, 120),
        stop_reason=StopReason.TARGET_MET,
        iterations=sum(block.iterations for block in own),
        steady_state_ns=steady_state_ns,
        median_ns=median_ns,
    )


def _block(samples: BlockSamples) -> Block:
    return Block(
        process=samples.process,
        index=samples.block,
        begin_ns=samples.block * 60_000_000,
        duration_ns=int(samples.latency_ns.sum()),
        iterations=samples.latency_ns.size,
        evidence=Evidence(cpu_time_ns=2_000_000, other_cpu_time_ns=40_000, steal_ns=0, involuntary_switches=3),
        disturbances=(Disturbance(DisturbanceKind.OTHER_PROCESSES, share=0.12),) if samples.block % 7 == 3 else (),
    )
