"""Latencies are reduced in the store without losing a peak, an end or the place where a process began."""

from dataclasses import replace

import numpy as np
import pytest

import invented
from enginebench_controller.records import BlockSamples
from enginebench_controller.store.samples import LEVEL_RATIO
from enginebench_controller.store.store import Store


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    store.add_benchmark(invented.benchmark())
    return store


def raw(store, identity):
    return np.concatenate([one.latency_ns for one in store.block_samples(identity)])


@pytest.mark.slow
def test_few_samples_are_all_there_in_their_order(store):
    for identity in ("m1", "m2"):
        store.add_measurement(invented.measured(identity), invented.samples(identity))

    curves = store.latency_curves(["m1", "m2", "nobody"])

    assert set(curves) == {"m1", "m2"}
    for identity, curve in curves.items():
        assert curve.samples == 200
        assert curve.iterations.tolist() == list(range(200))
        assert np.array_equal(curve.latency_ns, raw(store, identity))


def test_a_process_begins_where_its_first_block_does(store):
    samples = invented.samples("m1", iterations=200)
    store.add_measurement(invented.measured("m1", iterations=200), samples)

    sizes = [sum(one.latency_ns.size for one in samples if one.process == process) for process in range(3)]
    assert store.latency_curves(["m1"])["m1"].process_starts == (0, sizes[0], sizes[0] + sizes[1])


@pytest.mark.slow
def test_many_samples_are_thinned_and_every_peak_stays(store):
    latency_ns = np.full(100_000, 1_000_000)
    latency_ns[[0, 70_000, 99_999]] = [900_000, 50_000_000, 2_000_000]
    blocks = [BlockSamples(0, index, part) for index, part in enumerate(np.array_split(latency_ns, 4))]
    store.add_measurement(invented.measured("m1"), blocks)

    curve = store.latency_curves(["m1"], bins=100)["m1"]

    assert curve.samples == 100_000
    assert curve.iterations.size <= 200
    drawn = dict(zip(curve.iterations.tolist(), curve.latency_ns.tolist(), strict=True))
    assert (drawn[0], drawn[70_000], drawn[99_999]) == (900_000, 50_000_000, 2_000_000)
    assert np.all(np.diff(curve.iterations) > 0)


def test_quantiles_and_levels_are_those_of_all_samples(store):
    store.add_measurement(invented.measured("m1", iterations=1999), invented.samples("m1", iterations=1999))
    curve, latency_ns = store.latency_curves(["m1"])["m1"], raw(store, "m1")

    assert curve.quantiles_ns[[0, -1]].tolist() == [latency_ns.min(), latency_ns.max()]
    assert np.array_equal(curve.quantiles_ns, np.quantile(latency_ns, np.linspace(0, 1, 401), method="inverted_cdf"))
    assert curve.level_shares.sum() == pytest.approx(1)
    inside = (latency_ns >= curve.levels_ns[5]) & (latency_ns < curve.levels_ns[5] * LEVEL_RATIO)
    assert curve.level_shares[5] == pytest.approx(inside.mean())


def test_a_block_that_counts_for_nothing_is_among_the_iterations_only(store):
    first, suspended, *others = invented.samples("m1")
    suspended = replace(suspended, latency_ns=np.full_like(suspended.latency_ns, 20_000_000_000))
    for identity in ("m1", "m2"):
        store.add_measurement(invented.measured(identity), [first, suspended, *others])
    counting_ns = np.concatenate([one.latency_ns for one in (first, *others)])

    found = store.latency_curves(["m1", "m2"], {"m1": {(suspended.process, suspended.block)}})

    assert (found["m1"].samples, found["m1"].counted) == (200, counting_ns.size)
    assert found["m1"].quantiles_ns[[0, -1]].tolist() == [counting_ns.min(), counting_ns.max()]
    assert found["m1"].levels_ns[-1] <= counting_ns.max()
    assert found["m1"].level_shares.sum() == pytest.approx(1)
    assert found["m1"].latency_ns.max() == 20_000_000_000, "it came, so it is drawn"
    assert found["m2"].quantiles_ns[-1] == 20_000_000_000, "of another measurement it counts"


def test_blocks_add_up_to_their_samples(store):
    samples = invented.samples("m1")
    store.add_measurement(invented.measured("m1"), samples)
    store.add_measurement(invented.measured("m2"))

    found = store.block_latencies(["m1", "m2"])

    assert list(found) == ["m1"]
    assert [(one.process, one.block, one.samples, one.total_ns, one.median_ns) for one in found["m1"]] == [
        (one.process, one.block, one.latency_ns.size, one.latency_ns.sum(), np.median(one.latency_ns))
        for one in samples
    ]


def test_a_store_without_a_file_has_neither(tmp_path):
    store = Store(tmp_path / "none.duckdb", timeout_s=5)

    assert (store.latency_curves(["m1"]), store.block_latencies(["m1"])) == ({}, {})
