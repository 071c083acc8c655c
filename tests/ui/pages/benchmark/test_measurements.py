"""The views say what the records say: nothing added, unknown kept apart from zero, names from elsewhere made inert."""

import re
from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import (
    Arrivals,
    Configuration,
    Effective,
    EngineRef,
    InputSet,
    Load,
    Readback,
    ReadbackSource,
)
from enginebench_ui.pages.benchmark.shapes.measurements import (
    failure_views,
    measurement_rows,
    process_rows,
    series_names,
    throughput_figure,
)
from enginebench_ui.shared.text import inert, readback


def test_a_row_shows_what_ran_and_how_that_is_known():
    (row,) = measurement_rows([invented.measured("m1", batch=4)])

    assert (row["Engine"], row["Version"], row["Device"]) == ("fake", "1.0", "CPU")
    assert (row["Batch"], row["Cores"]) == (4, 2)
    assert (row["Precision"], row["Threads"]) == ("f32 (engine)", "2 (observed)")
    assert row["Median (ms)"] == pytest.approx(4.0, rel=0.05)
    assert row["p95 (ms)"] > row["Median (ms)"]
    assert row["Items/s"] == pytest.approx(4 / 4e-3, rel=0.05)
    assert (row["Status"], row["Remarks"]) == ("ok", None)


def test_a_row_shows_how_far_its_numbers_can_be_trusted():
    measurement = invented.measured("m1", noisy=True)
    (row,) = measurement_rows([measurement])

    assert row["± (%)"] == pytest.approx(100 * measurement.latency.median_relative_half_width)
    assert row["Spread (%)"] == pytest.approx(100 * measurement.process_spread)
    assert row["Disturbed (%)"] == pytest.approx(100 / 12, rel=0.1)
    assert invented.UNSTEADY in row["Remarks"]


def test_a_row_says_whether_the_outputs_are_those_of_other_engines():
    wrong = invented.measured("m2", engine="fake-fast", captured_outputs=(invented.outputs(shift=0.5),))
    rows = measurement_rows([invented.measured("m0"), invented.measured("m1", engine="fake-other"), wrong])

    assert sorted(row["Outputs"] for row in rows[:2]) == ["agree", "reference"]
    assert rows[2]["Outputs"] not in ("agree", "reference", None)


def test_columns_that_would_say_nothing_are_left_out():
    (row,) = measurement_rows([invented.measured("m1")])
    assert not row.keys() & {"Environment", "Target", "p99 (ms)", "Outputs", "Load"}

    elsewhere = invented.measured("m2", target="nuc", engine="x", iterations=700)
    elsewhere = replace(elsewhere, engine=EngineRef("x", "newest", "2.0"))
    first, second = measurement_rows([invented.measured("m1"), elsewhere])
    assert (first["Environment"], second["Environment"]) == ("default", "newest")
    assert (first["Target"], second["Target"]) == ("local", "nuc")
    assert first["p99 (ms)"] is None  # 200 samples, and it needs 662
    assert second["p99 (ms)"] > second["p95 (ms)"]


def test_a_process_is_shown_with_what_the_machine_did_meanwhile():
    quiet, noisy, _ = process_rows([invented.measured("m1", noisy=True)])

    assert (quiet["Process"], quiet["Series"], quiet["Warm-up"]) == (1, "fake 1.0", "steady")
    assert (quiet["Blocks"], quiet["Disturbed blocks"], noisy["Disturbed blocks"]) == (4, 1, 0)
    assert quiet["Other processes (ms)"] == pytest.approx(3 * 0.04 + 4)
    assert noisy["Warm-up"] == f"never steady: {invented.UNSTEADY}"
    assert (quiet["Lowest clock (GHz)"], quiet["Hottest (°C)"]) == (2.4, None)
    assert process_rows([invented.failed("m2")]) == ()


def test_open_loops_at_different_rates_are_different_series():
    slow = invented.measured("m1", configuration=invented.OPEN_LOOP)
    fast = invented.measured("m2", configuration=replace(invented.OPEN_LOOP, arrivals=Arrivals(500.0)))

    assert set(series_names([slow, fast]).values()) == {"fake 1.0 · 250/s poisson", "fake 1.0 · 500/s poisson"}


def test_rows_that_differ_only_in_their_load_say_so():
    one_by_one = invented.measured("m1")
    in_flight = replace(one_by_one, id="m2", configuration=Configuration("CPU", 1, 2, load=Load.ASYNC, requests=3))

    rows = measurement_rows([one_by_one, in_flight])

    assert [(row["Load"], row["Requests"]) for row in rows] == [("sync", "1 in flight"), ("async", "3 in flight")]
    assert "Load" not in measurement_rows([one_by_one])[0]


def test_rows_that_differ_only_in_options_or_inputs_say_so():
    plain = invented.measured("m1")
    tuned = replace(plain, id="m2", configuration=replace(plain.configuration, options={"level": "low"}))
    given = replace(plain.configuration.input_set or InputSet(), name="photos")
    fed = replace(plain, id="m3", configuration=replace(plain.configuration, input_set=given))
    rows = measurement_rows([plain, tuned, fed])
    assert [row["Options"] or "" for row in rows] == ["", "level=low", ""]
    assert [row["Inputs"] for row in rows] == ["inputs random", "inputs random", "inputs photos"]
    assert len(set(series_names([plain, tuned, fed]).values())) == 3


def test_options_that_differ_past_what_is_shown_of_long_ones_are_two_series_and_a_column():
    tuned = {"cpu_mem_arena": "false", "denormals_as_zero": "true", "mem_pattern": "false"}
    levels = ("all", "disabled")
    measurements = [
        invented.measured(
            level, configuration=Configuration("CPU", 1, 2, options=tuned | {"graph_optimization_level": level})
        )
        for level in levels
    ]

    assert ["level=all" in name for name in series_names(measurements).values()] == [True, False]
    assert ["level=disabled" in row["Options"] for row in measurement_rows(measurements)] == [False, True]
    assert len(throughput_figure(measurements, EngineLooks()).data) == 2


def test_a_failed_row_has_no_number_and_says_how_it_ended():
    (row,) = measurement_rows([invented.failed("m1")])

    assert (row["Median (ms)"], row["p95 (ms)"], row["Items/s"], row["Version"]) == (None,) * 4
    assert (row["Precision"], row["Threads"]) == ("unknown", "unknown")
    assert (row["Status"], row["Remarks"]) == ("failed", "crashed, SIGSEGV, in compile")


def test_a_row_is_flagged_where_what_ran_is_not_what_was_asked_for():
    bf16 = Effective(precision=Readback("bf16", ReadbackSource.ENGINE_API))

    assert measurement_rows([invented.measured("m1", effective=bf16)])[0]["Remarks"].startswith("precision: f32")


def test_failures_with_the_same_words_are_told_once():
    views = failure_views(
        [
            invented.failed("m1"),
            invented.measured("m2"),
            invented.failed("m3", batch=4),
            invented.failed("m4", engine="x"),
        ]
    )

    assert [view.heading for view in views] == [
        "fake-broken: crashed, SIGSEGV, in compile",
        "x: crashed, SIGSEGV, in compile",
    ]
    assert views[0].message == "the engine's process was killed by SIGSEGV while it compiled the model"
    assert views[0].detail == "Fatal Python error: Segmentation fault"
    assert views[0].configurations == (
        "invented, local, CPU, batch 1, 2 cores",
        "invented, local, CPU, batch 4, 2 cores",
    )


def test_a_series_is_an_engine_and_only_the_axes_that_vary():
    one_core = Configuration("CPU", 1, cores=1)
    measurements = [
        invented.measured("m1"),
        invented.measured("m2", configuration=one_core),
        invented.measured("m3", batch=4),
    ]

    assert series_names(measurements) == {
        "m1": "fake 1.0 · 2 cores",
        "m2": "fake 1.0 · 1 core",
        "m3": "fake 1.0 · 2 cores",
    }
    assert series_names(measurements[:1]) == {"m1": "fake 1.0"}


def test_two_versions_and_environments_of_an_engine_are_two_series():
    old = invented.measured("m1", **{"engine": "x"})
    new = replace(old, id="m2", engine=EngineRef("x", "newest", "2.0"))

    assert series_names([old, new]) == {"m1": "x 1.0", "m2": "x 2.0 (newest)"}


def test_throughput_is_drawn_by_batch_for_each_series_and_model():
    measurements = [
        invented.measured("m1"),
        invented.measured("m2", batch=4),
        invented.measured("m3", engine="fake-fast"),
        invented.measured("m4", model_name="other"),
        invented.failed("m5"),
    ]

    figure = throughput_figure(measurements, EngineLooks())

    assert [annotation.text for annotation in figure.layout.annotations] == ["invented", "other"]
    first = figure.data[0]
    assert (first.name, list(first.x)) == ("fake 1.0", ["1", "4"])
    assert list(first.y) == [one.throughput_items_per_s for one in measurements[:2]]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["fake 1.0", "fake-fast 1.0"]


def test_nothing_is_drawn_when_nothing_has_numbers():
    assert throughput_figure([invented.failed("m1")], EngineLooks()) is None


def test_names_do_not_speak_plotlys_html():
    hostile = invented.measured("m1", engine='<a href="https://example.com">x</a>', model_name="<b>m</b>")

    figure = throughput_figure([hostile], EngineLooks())

    assert figure.data[0].name == '&lt;a href="https://example.com"&gt;x&lt;/a&gt; 1.0'
    assert figure.layout.annotations[0].text == "&lt;b&gt;m&lt;/b&gt;"


@pytest.mark.parametrize(
    "text", ["**b**", "<img src=x>", "[x](javascript:1)", "$x^2$", "# h", ":red[x]", "``c``", "`]![x](y)`"]
)
def test_inert_text_reads_the_same_with_every_mark_escaped(text):
    escaped = inert(text).replace("\u2060", "")

    assert escaped.replace("\\", "") == text
    assert not re.search(r"(?<!\\)[*<>\[\]()$#:`^]", escaped)


def test_commands_in_sentences_stay_code():
    assert inert("free it (`rm -r a.b`), it`s *full*") == "free it \\(`rm -r a.b`\\)\\, it\\`s \\*full\\*"


def test_inert_text_holds_no_address_and_no_line_break():
    assert inert("https://example.com") == "https\\:\u2060\\/\\/example\\.com"
    assert inert("www.example.com me@example.com") == "www\u2060\\.example\\.com me\\@\u2060example\\.com"
    assert inert("two\n\nparagraphs") == "two paragraphs"


def test_a_table_that_is_downloaded_holds_no_formula():
    hostile = invented.measured("m1", engine="=HYPERLINK(1)", model_name="-1")

    (row,) = measurement_rows([hostile])
    assert (row["Engine"], row["Model"]) == ("'=HYPERLINK(1)", "'-1")


def test_an_unknown_readback_says_so():
    assert readback(None) == "unknown"
    assert readback(Readback(0, ReadbackSource.ASSUMED)) == "0 (assumed)"
