"""What was measured of a model version: the newest numbers of each configuration."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Configuration, Status
from enginebench_controller.store.store import Store

DIGEST = "ab" * 32


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    return store


def add(store, identity, *, started=1, latency_ms=4.0, digest=DIGEST, **fields):
    one = invented.measured(identity, latency_ms=latency_ms, **fields)
    store.add_measurement(replace(one, started_at_unix_ns=started, model_digest=digest))


@pytest.mark.slow
def test_the_newest_numbers_of_each_configuration_are_found(store):
    add(store, "m1", latency_ms=4.0, started=1)
    add(store, "m2", latency_ms=6.0, started=2)
    add(store, "m3", batch=4)
    add(store, "m4", configuration=Configuration("CPU", 1, cores=1))
    add(store, "m5", digest="cd" * 32)
    store.add_measurement(invented.failed("m6", batch=8))

    cells = store.measured_cells([DIGEST])

    assert sorted((one.batch, one.cores) for one in cells) == [(1, 1), (1, 2), (4, 2)]
    newest = next(one for one in cells if (one.batch, one.cores) == (1, 2))
    assert newest.median_ns == pytest.approx(6e6, rel=0.05)
    assert (newest.engine, newest.target, newest.status) == ("fake", "local", Status.OK)
    assert {one.model_digest for one in store.measured_cells([DIGEST, "cd" * 32])} == {DIGEST, "cd" * 32}
    assert store.measured_cells([]) == ()


@pytest.mark.slow
def test_the_headlines_of_a_benchmark_say_how_each_measurement_ended(store):
    add(store, "m1")
    store.add_measurement(invented.failed("m2"))

    found = store.headlines("b0000001")

    assert found["m1"].throughput_items_per_s == pytest.approx(250, rel=0.05)
    assert (found["m2"].status, found["m2"].median_ns) == (Status.FAILED, None)
    assert store.headlines("unknown") == {}
