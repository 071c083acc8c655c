"""Every example is answered, and by columns that its chart names."""

import pytest

import invented
import invented_profiles
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Status
from enginebench_controller.store.store import Store
from enginebench_ui.pages.search.shapes import EXAMPLES, Axes, answer_figure, answer_frame, number_columns

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("examples") / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    first = (invented.Phase("first_inference", 9_000_000, None),)
    store.add_measurement(invented.measured("m1", noisy=True, phases=first), invented.samples("m1"))
    store.add_measurement(invented.failed("m2"))
    store.add_profile(invented_profiles.profile())
    return store


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.question)
def test_an_example_finds_something_and_its_chart_is_drawn(store, example):
    frame = answer_frame(store.query(example.sql))
    assert len(frame) > 0
    if example.kind:
        assert example.y in number_columns(frame)
        axes = Axes(example.kind, example.x, example.y, example.colour)
        assert len(answer_figure(frame, axes, EngineLooks()).data[0].x) > 0


def test_examples_that_ask_how_fast_something_is_count_sure_numbers_only(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    for identity, latency_ms, status in (("m1", 4.0, Status.OK), ("m2", 0.1, Status.INCONCLUSIVE)):
        unsure = invented.measured(identity, latency_ms=latency_ms, status=status, engine=f"engine-{status}")
        store.add_measurement(unsure, invented.samples(identity, latency_ms=latency_ms))

    fast = [one for one in EXAMPLES if {"best_items_per_s", "median_ms"} & {one.y}]
    assert len(fast) == 3
    for example in fast:
        answered = store.query(example.sql).rows
        assert answered and "engine-inconclusive" not in str(answered), example.question


def test_examples_fit_the_editor():
    assert max(len(line) for example in EXAMPLES for line in example.sql.splitlines()) <= 70
