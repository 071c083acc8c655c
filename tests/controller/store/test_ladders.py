"""The list of ladders: benchmarks whose plan has rungs, and no others."""

import pytest

import invented
import invented_ladders
from enginebench_controller.store.store import Store


@pytest.mark.slow
def test_ladders_are_listed_newest_first_with_their_model_and_target(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    assert store.ladders() == ()
    store.add_benchmark(invented.benchmark())
    store.add_benchmark(invented_ladders.benchmark())
    for one in invented_ladders.measurements(fps=invented_ladders.FPS | {"throughput": None}):
        store.add_measurement(one)
    store.add_benchmark(invented_ladders.benchmark("b000000b", "latency", invented.CREATED_NS + 1))

    newest, measured = store.ladders()

    assert (newest.benchmark.id, newest.kind, newest.model, newest.target) == ("b000000b", "latency", None, None)
    assert (newest.rungs, newest.numbered) == (4, 0)
    assert (measured.kind, measured.model, measured.target) == ("throughput", "invented", "nuc")
    assert (measured.rungs, measured.numbered) == (4, 2)
    store.save_model(invented.model(name="the model as given"))
    assert store.ladders()[0].model == "the model as given"
