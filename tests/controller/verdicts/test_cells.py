"""Cells are compared as benchmarks are, from medians alone."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Effective, Readback, ReadbackSource
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.pairing import compare_cells, compare_pairs


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=5)
    store.add_benchmark(invented.benchmark())
    return store


def kept(store, identity, **fields):
    latency_ms = fields.pop("latency_ms", 4.0)
    store.add_measurement(
        invented.measured(identity, latency_ms=latency_ms, iterations=600, **fields),
        invented.samples(identity, latency_ms=latency_ms, iterations=600),
    )


@pytest.mark.slow
@pytest.mark.parametrize("group", [None, "g1"])
def test_the_same_comes_out_as_from_all_samples(store, group):
    kept(store, "m1", interleaving_group=group)
    kept(store, "m2", engine="slow", latency_ms=6.0, interleaving_group=group)
    kept(store, "m3", engine="same", interleaving_group=group)
    first, *others = store.measurements("b0000001")

    found = compare_cells(first, others, store.block_latencies(["m1", "m2", "m3"]))
    whole = compare_pairs([(first, other) for other in others], store.block_samples)

    for one, expected in zip(found, whole, strict=True):
        assert one.is_paired == (group is not None)
        assert one.comparison.verdict is expected.comparison.verdict
        for figure in ("ratio", "low", "high", "p_value"):
            assert getattr(one.comparison, figure) == pytest.approx(getattr(expected.comparison, figure), rel=1e-6)


def test_what_is_unlike_is_said(store):
    first = invented.measured("m1")
    bf16 = Effective(precision=Readback("bf16", ReadbackSource.ENGINE_API))
    second = replace(invented.measured("m2", engine="fast", effective=bf16), target="nuc")

    (found,) = compare_cells(first, [second], {})

    assert found.remarks[0] == "targets differ: local and nuc"
    assert any("effective precision differs" in remark for remark in found.remarks)
    assert compare_cells(first, [], {}) == ()
