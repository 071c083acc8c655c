"""Every example is answered, and by columns that its chart names."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Configuration, EngineRef, Status
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.disturbances import summarize_evidence
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


def rows_of(store, question):
    """The rows of the answer to an example, by the names of their columns."""
    (example,) = (one for one in EXAMPLES if one.question == question)
    return answer_frame(store.query(example.sql)).to_dict("records")


def test_an_engine_that_was_profiled_more_often_does_not_take_longer(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    for number in range(5):
        store.add_profile(invented_profiles.profile(f"p{number}"))
    store.add_profile(invented_profiles.profile("p5", engine=EngineRef("other", "default", "1.0")))

    rows = rows_of(store, "Where does each engine spend its time, by layer type?")

    found = {(row["engine"], row["type"]): row["percent_of_time"] for row in rows}
    conv, reorder = 6, 10 / 3  # the mean of each in a profile
    shares = {"Conv": 100 * conv / (conv + reorder), "Reorder": 100 * reorder / (conv + reorder)}
    every = {(engine, kind): share for engine in ("fake", "other") for kind, share in shares.items()}
    assert found == pytest.approx(every)


def test_latencies_by_batch_are_of_one_model_on_one_target_and_number_of_cores(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())

    def keep(identity, batch, latency_ms, cores=2, **fields):
        asked = Configuration("CPU", batch, cores)
        one = invented.measured(identity, latency_ms=latency_ms, batch=batch, configuration=asked, **fields)
        store.add_measurement(one, invented.samples(identity, latency_ms=latency_ms))

    for place, odd in enumerate(({"model_name": "other"}, {"target": "elsewhere"}, {"cores": 8})):
        for batch in (1, 4):
            keep(f"odd{place}-{batch}", batch, 1.0, **odd)
    later, last = ({"started_at_unix_ns": invented.CREATED_NS + nanoseconds} for nanoseconds in (1, 2))
    keep("m1", 1, 8.0, **later)
    keep("m4", 4, 20.0, model_name="invented-batch4", **later)
    keep("single", 1, 1.0, model_name="of one batch", **last)

    rows = rows_of(store, "How does latency grow with the batch?")

    assert [(row["model"], row["batch"]) for row in rows] == [("invented", 1), ("invented", 4)]
    assert [row["median_ms"] for row in rows] == pytest.approx([8, 20], rel=0.05)


def test_a_measurement_is_disturbed_for_as_much_of_its_time_as_everywhere(tmp_path):
    whole = invented.measured("m1")
    disturbed, paused, *others = whole.blocks
    blocks = (
        replace(disturbed, duration_ns=3 * disturbed.duration_ns, disturbances=(invented.STEAL,)),
        replace(paused, paused_ns=20_000_000_000, disturbances=(invented.PAUSED,)),
        *others,
    )
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    store.add_measurement(replace(whole, blocks=blocks))
    store.add_measurement(invented.measured("quiet"))

    rows = rows_of(store, "Which measurements were disturbed the most?")

    percent = pytest.approx(100 * summarize_evidence(blocks).disturbed_share)
    assert [(row["id"], row["disturbed_percent"]) for row in rows] == [("m1", percent), ("quiet", 0)]


def test_examples_fit_the_editor():
    assert max(len(line) for example in EXAMPLES for line in example.sql.splitlines()) <= 70
