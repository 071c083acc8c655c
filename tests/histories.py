"""Histories with invented numbers: one configuration measured again and again, which changes at some point."""

from dataclasses import dataclass, replace

import numpy as np

import invented
from enginebench_controller.records import EngineRef
from enginebench_controller.store.store import BenchmarkBundle

STEP_NS = 3_600_000_000_000


@dataclass(frozen=True)
class Change:
    """What becomes of times, of the reference work, and of the version, from a point on."""

    at: int = 10
    factor: float = 1.0
    reference: float | None = 1.0
    version: str = "1.0"
    disturbed: bool = False
    cpu_model: str = "Invented CPU"


def keep_history(
    store,
    name,
    change,
    *,
    points=16,
    first=0,
    noise=0.005,
    target="local",
    configuration=None,
    seed=1,
    imported_from=None,
):
    """Put benchmarks of one measurement each into a store; the model's digest begins with the name in hexadecimal.

    Those before the `first` are there already. With `imported_from`, a processor, they are as from somebody else's
    store, whose target has that one.
    """
    random = np.random.default_rng([seed, *name.encode()])
    luck = random.normal(0, noise, (points, 2))
    bundles = (_point(name, number, change, luck[number], target, configuration) for number in range(first, points))
    store.add_bundles(_imported(one, imported_from) if imported_from else one for one in bundles)


def _imported(bundle, cpu_model):
    own, (one,), (snapshot,) = bundle.benchmark, bundle.measurements, bundle.snapshots
    benchmark = replace(own, id=f"{own.id}-{cpu_model}", imported=True)
    measurement = replace(one, id=f"{one.id}-{cpu_model}", benchmark_id=benchmark.id)
    return BenchmarkBundle(
        benchmark, (measurement,), (replace(snapshot, host=replace(snapshot.host, cpu_model=cpu_model)),), {}
    )


def digest(name):
    return name.encode().hex().ljust(64, "0")


def _point(name, number, change, luck, target, configuration):
    since = number >= change.at
    at_ns = invented.CREATED_NS + number * STEP_NS
    benchmark = replace(invented.benchmark(f"b-{name}-{number:03}", f"{name} {number}"), created_at_unix_ns=at_ns)
    snapshot = invented.snapshot(target)
    host = replace(snapshot.host, cpu_model=change.cpu_model if since else "Invented CPU")
    latency_ms = 4 * np.exp(luck[0]) * (change.factor if since else 1)
    one = invented.measured(f"m-{name}-{number:03}", benchmark.id, latency_ms=latency_ms, iterations=60)
    # Its samples are drawn anew for each id, and this is about the median only.
    latency = replace(one.latency, median_ns=latency_ms * 1e6)
    reference = None if change.reference is None else np.exp(luck[1]) * (change.reference if since else 1)
    blocks = [replace(block, evidence=_evidence(block.evidence, reference)) for block in one.blocks]
    if change.disturbed and since:
        blocks = [replace(block, disturbances=(invented.DISTURBANCE,)) for block in blocks]
    kept = replace(
        one,
        blocks=tuple(blocks),
        latency=latency,
        model_name=name,
        model_digest=digest(name),
        target=target,
        engine=EngineRef("fake", "default", change.version if since else "1.0"),
        started_at_unix_ns=at_ns,
        configuration=configuration or one.configuration,
    )
    return BenchmarkBundle(benchmark, (kept,), (replace(snapshot, host=host),), {})


def _evidence(evidence, reference):
    if reference is None:
        return evidence
    return replace(
        evidence, reference_product_ns=round(300_000 * reference), reference_stream_ns=round(800_000 * reference)
    )
