"""The list of benchmarks and the page of one: what a person does there, and the links that say the same."""

import json
import time
from dataclasses import replace
from urllib.parse import parse_qs

import numpy as np
import pytest

import invented
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import jobs
from enginebench_controller.records import Configuration, HostFacts
from enginebench_controller.stats.summary import summarize
from enginebench_controller.store.store import Store
from enginebench_ui.pages import BENCHMARK, BENCHMARKS
from histories import Change, digest, keep_history
from opened_pages import button, opened, texts

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return Store(tmp_path / "results.duckdb")


@pytest.fixture
def grid(store):
    """Two engines on two batches and two core counts, of which one cell failed."""
    store.add_benchmark(invented.benchmark(name="grid"), [invented.snapshot()])
    for engine, factor in (("fast", 1.0), ("slow", 2.0)):
        for batch in (1, 4):
            for cores in (1, 2):
                keep(store, f"{engine}{batch}{cores}", engine, batch, cores, factor * 4.0 * batch / cores)
    return store


def keep(store, identity, engine, batch, cores, latency_ms, benchmark_id="b0000001"):
    asked = Configuration("CPU", batch, cores)
    if (engine, batch, cores) == ("slow", 4, 2):
        store.add_measurement(invented.failed(identity, benchmark_id, engine=engine, configuration=asked))
        return
    fields = {"engine": engine, "latency_ms": latency_ms, "configuration": asked}
    measurement = invented.measured(identity, benchmark_id, batch=batch, **fields)
    store.add_measurement(measurement, invented.samples(identity, latency_ms=latency_ms))


def keep_gate(store, ratio):
    """A gate of three members that took turns; head takes `ratio` as long as base."""
    members = {"base": "m-base", "head": "m-head", "control": "m-control"}
    asked = invented.benchmark("g0000001", "gate of head against base")
    terms = {"base": "fake@old", "head": "fake@new"}
    gate = replace(asked, plan={**asked.plan, "gate": terms, "members": members})
    store.add_benchmark(gate, [invented.snapshot()])
    for role, identity in members.items():
        fields = {"latency_ms": 4.0 * (ratio if role == "head" else 1.0)}
        measurement = invented.measured(identity, gate.id, **fields)
        store.add_measurement(measurement, invented.samples(identity, **fields))
    return gate


def entries(app):
    links = [link for link in app.get("page_link") if link.proto.query_string.startswith("id=")]
    return [link.label.strip("*") for link in links]


def box(app, label):
    return next(one for one in app.selectbox if one.label == label)


def switch(app, label, value):
    """Press one of several options that stand side by side."""
    next(one for one in app.get("button_group") if one.label == label).set_value(value)
    app.run()
    assert not app.exception


def cards(app):
    return {metric.label: metric.value for metric in app.metric}


def matrix(app):
    (drawn,) = app.get("bidi_component")
    return json.loads(drawn.proto.json)


def address(app):
    return {name: value[0] if isinstance(value, list) else value for name, value in app.query_params.items()}


def test_a_link_opens_the_searched_list_at_its_page(store):
    for number in range(45):
        one = invented.benchmark(f"b{number:07}", f"run {number}")
        store.add_benchmark(replace(one, created_at_unix_ns=invented.CREATED_NS + number))

    assert entries(opened(BENCHMARKS))[0] == "run 44"
    assert entries(opened(BENCHMARKS, page="3")) == ["run 4", "run 3", "run 2", "run 1", "run 0"]
    assert entries(opened(BENCHMARKS, search="run b0000004")) == ["run 4"]


def test_a_search_without_a_result_says_what_was_searched(store):
    store.add_benchmark(invented.benchmark())
    app = opened(BENCHMARKS)

    app.text_input[0].set_value("[nothing] like it").run()

    assert "No benchmark has [nothing] like it in its name" in texts(app.info)[0]
    assert "0 of 1 benchmarks" in texts(app.caption)


def test_the_page_begins_with_the_answers(grid):
    app = opened(BENCHMARK, id="b0000001")

    said = [text.replace("\\", "") for text in texts(app.markdown)]
    works = ("batch 1, 1 core", "batch 1, 2 cores", "batch 4, 1 core")
    for work in works:
        assert any(f"invented, {work}: fast is fastest, 2" in text for text in said), work
    assert any("batch 4, 2 cores: only fast has numbers" in text and "slow (crashed)" in text for text in said)


def test_any_cell_is_chosen_by_drop_downs_and_stands_in_the_address(grid):
    app = opened(BENCHMARK, id="b0000001")
    assert texts(app.header)[0] == "Batch 1 on 2 cores: fast 1.0"
    assert float(cards(app)["ms/batch"]) == pytest.approx(2, rel=0.05)

    box(app, "Batch").set_value("4").run()
    box(app, "Cores").set_value("1").run()

    assert texts(app.header)[0] == "Batch 4 on 1 core: fast 1.0"
    assert float(cards(app)["ms/batch"]) == pytest.approx(16, rel=0.05)
    assert float(cards(app)["ms/item"]) == pytest.approx(4, rel=0.05)
    assert float(cards(app)["items/s"]) == pytest.approx(250, rel=0.05)
    assert (address(app)["batch"], address(app)["cores"]) == ("4", "1")

    again = opened(BENCHMARK, **address(app))
    assert texts(again.header)[0] == "Batch 4 on 1 core: fast 1.0"
    assert cards(again) == cards(app)


def test_what_is_done_within_a_latency_ends_where_the_table_beside_it_says(store):
    first, suspended, *others = invented.samples("m1")
    standstill_ns = np.full_like(suspended.latency_ns, 20_000_000_000)
    samples = (first, replace(suspended, latency_ns=standstill_ns), *others)
    whole = invented.measured("m1")
    blocks = (whole.blocks[0], replace(whole.blocks[1], paused_ns=20_000_000_000), *whole.blocks[2:])
    latency = summarize(samples, {(suspended.process, suspended.block)})
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    store.add_measurement(replace(whole, blocks=blocks, latency=latency), samples)

    app = opened(BENCHMARK, id="b0000001")

    specs = [one.proto.spec for one in app.get("plotly_chart")]
    (done,) = (json.loads(one) for one in specs if "share of inferences" in one)
    (iterations,) = (json.loads(one) for one in specs if '"iteration"' in one)
    rows = next(one.value for one in app.dataframe if "Most" in one.value)
    assert done["data"][0]["x"][-1] == rows["Most"][0] == latency.max_ns / 1e6
    assert max(one for one in iterations["data"][0]["y"] if one) == 20_000, "it came, so it is drawn"
    assert iterations["layout"]["yaxis"]["type"] == "log"
    assert any("paused ones and those that were measured again, are not in it" in text for text in texts(app.caption))


def test_the_rate_of_a_slow_model_is_no_zero(store):
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    store.add_measurement(invented.measured("m1", throughput_items_per_s=0.041234), invented.samples("m1"))

    app = opened(BENCHMARK, id="b0000001")

    assert any("<dt>Items/s</dt><dd>0.041234</dd>" in one.proto.body for one in app.get("html"))


def test_what_is_based_on_the_other_engine_shows_its_numbers_and_failure(grid):
    app = opened(BENCHMARK, id="b0000001")
    slow = next(one for one in box(app, "Based on").options if one.startswith("slow"))

    box(app, "Based on").set_value(key_of(grid, "slow")).run()
    assert float(cards(app)["ms/batch"]) == pytest.approx(4, rel=0.05)
    assert slow in texts(app.header)[0]

    box(app, "Batch").set_value("4").run()
    assert not app.metric
    assert "Batch 4 on 2 cores has no numbers with slow 1.0: crashed, SIGSEGV, in compile" in texts(app.error)[-1]


def key_of(store, engine):
    from enginebench_ui.pages.benchmark.shapes.lines import lines_of

    lines = lines_of(store.measurements("b0000001"))
    return next(line.key for line in lines if line.first.engine.name == engine)


@pytest.mark.parametrize(
    ("view", "sizes", "fixed"), [("cores", [1, 2, 1, 2], "Batch"), ("batches", [1, 4, 1, 4], "Cores")]
)
def test_scaling_shows_three_charts_a_table_and_the_gap_in_words(grid, view, sizes, fixed):
    fixed_value = {"cores": {"batch": "4"}, "batches": {"cores": "2"}}[view]
    app = opened(BENCHMARK, id="b0000001", view=view, **fixed_value)

    assert len(app.get("plotly_chart")) == 3, "that of the throughput is drawn once it is opened"
    assert texts(app.header)[:3] == ["ms/item", "ms/batch", "items/s"]
    table = app.dataframe[0].value
    assert list(table["Cores" if view == "cores" else "Batch"]) == sizes
    assert table["Speed-up"][1] == pytest.approx(2 if view == "cores" else 1, rel=0.1)
    gap = next(text for text in texts(app.caption) if "material/close" in text)
    assert "slow 1.0" in gap and "killed by SIGSEGV" in gap
    assert box(app, fixed)


def test_views_switch_and_stand_in_the_address(grid):
    app = opened(BENCHMARK, id="b0000001")

    switch(app, "View", "trend")

    assert address(app)["view"] == "trend"
    assert list(app.dataframe[0].value["Engine"]) == ["slow", "fast"], "the newest first"
    switch(app, "View", "baseline")
    assert "view" not in address(app)


def test_changes_stand_below_the_trend_and_nothing_unconfirmed_is_called_a_regression(store):
    keep_history(store, "net", Change(factor=1.2, version="2.0"))
    app = opened(BENCHMARK, id="b-net-015", view="trend")

    changes = app.dataframe[1].value
    assert list(changes["Time"]) == ["×1.20"]
    assert list(changes["Version"]) == ["1.0 → 2.0"]
    assert list(changes["Cause"]) == ["perhaps the engine"]
    assert list(changes["Found"]) == ["unconfirmed"]
    assert "regression" not in " ".join(texts(app.markdown) + texts(app.caption))


def test_what_a_wrong_clock_dated_is_told_beside_the_trend(store, monkeypatch):
    keep_history(store, "net", Change(), points=3)
    assert not opened(BENCHMARK, id="b-net-002", view="trend").warning
    monkeypatch.setattr(invented, "CREATED_NS", time.time_ns() + 86_400_000_000_000)
    keep_history(store, "net", Change(), first=3, points=4)
    for shown in ("b-net-002", "b-net-003"):
        app = opened(BENCHMARK, id=shown, view="trend")
        assert len(app.dataframe[0].value) == 3
        (told,) = texts(app.warning)
        assert "1 point is left out: 1 benchmark has a date that cannot be, b-net-003 at" in told


def test_changes_of_what_was_measured_as_a_copy_for_a_batch_stand_there_too(store):
    keep_history(store, "net", Change(factor=1.2, version="2.0"))
    copy = replace(invented.model(digest("net"), "net"), parent_digest="ab" * 32, derivation=invented.BATCH_4)
    store.save_model(invented.model("ab" * 32, "net"))
    store.save_model(copy)
    app = opened(BENCHMARK, id="b-net-015", view="trend")
    assert list(app.dataframe[1].value["Time"]) == ["×1.20"]


def test_a_history_that_is_too_short_for_changes_says_so(grid):
    app = opened(BENCHMARK, id="b0000001", view="trend")
    assert not any("points with numbers" in text for text in texts(app.caption)), "measured once is no history"
    grid.add_benchmark(invented.benchmark("b0000002", name="again"), [invented.snapshot()])
    keep(grid, "again11", "fast", 1, 1, 4.0, "b0000002")

    app = opened(BENCHMARK, id="b0000002", view="trend")
    assert any("2 points with numbers, and 10 are needed" in text for text in texts(app.caption))


def test_the_mean_is_selectable_and_has_an_interval_of_its_own(grid):
    app = opened(BENCHMARK, id="b0000001")
    median = cards(app)["ms/batch"]

    switch(app, "Latency by", "mean")

    assert cards(app)["ms/batch"] != median
    assert any(text.endswith("(95 % over processes)") for text in texts(app.caption))
    assert address(app)["stat"] == "mean"


def test_another_benchmark_is_overlaid(grid):
    elsewhere = replace(invented.snapshot(), host=HostFacts(cpu_model="Other CPU"))
    grid.add_benchmark(replace(invented.benchmark("b0000002", "before"), created_at_unix_ns=1), [elsewhere])
    keep(grid, "old12", "fast", 1, 2, 3.0, "b0000002")

    app = opened(BENCHMARK, id="b0000001")
    box(app, "Compared with another benchmark").set_value("b0000002").run()

    assert address(app)["with"] == "b0000002"
    rows = app.dataframe[0].value
    assert list(rows["Line"]) == ["fast 1.0", "fast 1.0 · in before"]
    assert rows["Time ÷ base"][1] == pytest.approx(1.5, rel=0.05)
    assert list(rows["It is"])[1] == "slower"
    assert any("processors differ: Invented CPU and Other CPU" in text for text in texts(app.warning))


def test_addresses_that_mean_nothing_show_the_plain_page(grid):
    plain = opened(BENCHMARK, id="b0000001")
    meaningless = {"view": "x", "batch": "7", "based": "nobody", "beside": "x,y", "stat": "", "with": "nope"}
    odd = opened(BENCHMARK, id="b0000001", **meaningless)

    assert cards(odd) == cards(plain)
    assert any("there is no benchmark 'nope'" in text for text in texts(odd.warning))


@pytest.mark.parametrize("odd", [{"batch": "9" * 5000}, {"batch": "999"}, {"cores": "7"}, {"batch": "٤"}])
def test_from_a_size_that_no_cell_has_n_steps_on_from_the_cell_that_is_shown(grid, odd):
    def stepped(**asked):
        app = opened(BENCHMARK, id="b0000001", **asked)
        assert matrix(app).count('aria-current="true"') == 1
        button(app, "Next cell").click().run()
        return address(app)

    plain = stepped()
    assert "batch" in plain
    assert stepped(**odd) == plain


def test_the_cells_do_not_crown_the_one_that_the_answer_above_them_calls_slower(store):
    store.add_benchmark(invented.benchmark(name="tail"), [invented.snapshot()])
    for engine, latency_ms, rate in (("quick", 2.0, 200.0), ("steady", 4.0, 250.0)):
        one = invented.measured(engine, engine=engine, latency_ms=latency_ms, throughput_items_per_s=rate)
        store.add_measurement(one, invented.samples(engine, latency_ms=latency_ms))

    app = opened(BENCHMARK, id="b0000001")
    assert any("quick is fastest" in text for text in texts(app.markdown))
    assert "☆ 250.0" in matrix(app) and "but by median latency quick 1.0 is faster" in matrix(app)
    assert "★" not in matrix(app)


def test_of_two_models_with_long_names_the_one_that_is_chosen_is_looked_at(store):
    store.add_benchmark(invented.benchmark(name="long"), [invented.snapshot()])
    for precision, digest_, latency_ms in (("fp32", "ab" * 32, 4.0), ("int8", "cd" * 32, 2.0)):
        name = f"facebook_detr_resnet50_coco_2017_{precision}_per_channel_opset17_simplified"
        fields = {"latency_ms": latency_ms, "model_digest": digest_, "model_name": name}
        store.add_measurement(
            invented.measured(precision, **fields), invented.samples(precision, latency_ms=latency_ms)
        )

    app = opened(BENCHMARK, id="b0000001")
    (slow,) = (option for option in box(app, "Based on").options if "fp32" in option)
    box(app, "Based on").select(slow).run()

    assert slow in texts(app.header)[0]
    assert float(cards(app)["ms/batch"]) == pytest.approx(4, rel=0.05)
    assert "beside" not in address(app)


def test_a_rerun_is_a_job_and_the_benchmark_stays_as_it_is(grid):
    before = grid.benchmark_page().listed
    app = opened(BENCHMARK, id="b0000001")

    next(one for one in app.button if one.label == "Re-run").click().run()

    (job,) = jobs(default_home())
    assert (job.arguments, job.title) == (("rerun", "b0000001"), "Re-run of grid")
    assert job.compare_with == "b0000001"
    assert any(link.proto.query_string == f"id={job.id}" for link in app.get("page_link"))
    assert grid.benchmark_page().listed == before


def test_a_rerun_and_what_was_run_again_link_to_each_other(grid):
    grid.add_benchmark(invented.benchmark("b0000002", "again", rerun_of="b0000001"))

    assert any(label.startswith("Re-run on") for label in entries(opened(BENCHMARK, id="b0000001")))
    again = opened(BENCHMARK, id="b0000002")
    assert entries(again) == ["Re-run of b0000001", "Beside it"]
    beside = next(link for link in again.get("page_link") if link.label == "Beside it")
    assert parse_qs(beside.proto.query_string) == {"id": ["b0000002"], "with": ["b0000001"]}


def test_removing_asks_first(grid):
    app = opened(BENCHMARK, id="b0000001")

    assert any("8 measurements" in text for text in texts(app.markdown))

    app.button(key="remove_benchmark").click().run()
    assert grid.benchmark_page().total == 0


def test_remarks_stand_behind_an_expander_and_are_drawn_once_it_is_opened(store):
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    for cores in (1, 2):
        shape = {"noisy": True, "configuration": Configuration("CPU", 1, cores)}
        store.add_measurement(invented.measured(f"m{cores}", **shape), invented.samples(f"m{cores}"))

    def sentences(app):
        return [text for text in texts(app.markdown) if text.startswith("- **") and "never became steady" in text]

    app = opened(BENCHMARK, id="b0000001", view="cores")
    assert any("on these numbers" in one.label for one in app.expander)
    assert not sentences(app)

    app.session_state["remarks on these numbers"] = True
    assert sentences(app.run())


def test_both_exports_are_offered(grid):
    app = opened(BENCHMARK, id="b0000001")

    assert [one.label for one in app.get("download_button")] == [
        "Share",
        "Measurements (CSV)",
        "Everything (JSON)",
    ]


def test_a_single_size_says_how_to_measure_more(store):
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1"), invented.samples("m1"))

    app = opened(BENCHMARK, id="b0000001", view="cores")

    assert "Only one number of cores was measured" in texts(app.info)[0]
    assert "--cores 1,2" in app.code[0].value


def test_a_gate_begins_with_its_verdict_and_a_row_a_metric(store):
    gate = keep_gate(store, 1.5)
    app = opened(BENCHMARK, id=gate.id)
    # Three process pairs are far too few for the gate's rule.
    (said,) = (line for line in texts(app.markdown) if line.startswith(":material/help: **cannot tell: head takes 1.5"))
    assert "3.983 ms → 5.971 ms" in said
    assert any("3 process pairs" in line for line in texts(app.caption))
    (metrics,) = (one.value for one in app.dataframe if "Head ÷ base" in one.value.columns)
    (latency,) = metrics[metrics["Metric"] == "latency"].to_dict("records")
    assert float(latency["Head ÷ base"]) == pytest.approx(1.5, rel=0.05)
    assert latency["Decides"] and latency["Verdict"] == "cannot tell"
