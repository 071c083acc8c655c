"""Contenders and experiments with invented numbers, for tests of what compares them. Nothing here was measured."""

from dataclasses import replace

import invented
from enginebench_controller.records import Status
from enginebench_controller.store.models import Contender, Experiment


def contender(**fields):
    """The invented model on one engine of this machine."""
    whole = Contender(
        model_digest="ab" * 32,
        model_name="invented",
        engine="fake",
        environment="default",
        target="local",
        device="CPU",
        experiments=1,
        with_numbers=1,
        profiles=0,
        best_items_per_s=100.0,
        best_benchmark_id="b0000001",
        last_at_unix_ns=invented.CREATED_NS,
    )
    return replace(whole, **fields)


def experiment(identity, latency_ms=4.0, items_per_s=250.0, **fields):
    """An experiment of batch 1 on two cores; without a latency it came to nothing."""
    known = latency_ms is not None
    whole = Experiment(
        id=identity.ljust(32, "0"),
        benchmark_id="b0000001",
        started_at_unix_ns=invented.CREATED_NS,
        engine_version="1.0",
        batch=1,
        streams=1,
        cores=2,
        requests=1,
        precision="f32",
        hint="none",
        load="sync",
        input_set="random, seed 0",
        options="{}",
        status=Status.OK if known else Status.FAILED,
        failure=None if known else "the engine crashed",
        effective_precision="f32",
        effective_threads=2,
        latency_ns=latency_ms * 1e6 if known else None,
        latency_low_ns=latency_ms * 0.99e6 if known else None,
        latency_high_ns=latency_ms * 1.01e6 if known else None,
        throughput_items_per_s=items_per_s if known else None,
        throughput_low_items_per_s=items_per_s * 0.98 if known else None,
        throughput_high_items_per_s=items_per_s * 1.02 if known else None,
    )
    return replace(whole, **fields)
