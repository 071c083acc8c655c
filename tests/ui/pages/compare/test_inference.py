"""The points A and B as bars and in words."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.verdicts.pairing import compare_pairs
from enginebench_ui.pages.compare.shapes.inference import (
    Bars,
    bars_figure,
    interval_sentences,
    point_rows,
    side_text,
    verdict_line,
)
from enginebench_ui.pages.compare.shapes.points import side
from invented_experiments import experiment

LOOKS = dict(zip("AB", EngineLooks().of_sides("onnxruntime", "openvino"), strict=True))
A = invented.measured("m1", latency_ms=4.0)
B = invented.measured("m2", latency_ms=2.0, engine="fake-fast")


def compared(first, second, latencies=None):
    known = latencies or {"m1": 4.0, "m2": 2.0}
    return compare_pairs([(first, second)], lambda one: invented.samples(one, latency_ms=known[one]))[0]


def test_a_side_names_a_device_that_is_not_the_cpu():
    shown = side("A", [experiment("q", 2, 50)], "", (), None)
    assert side_text(shown, A).startswith(f"{A.model_name} · fake 1.0 · batch 1")
    on_gpu = replace(A, configuration=replace(A.configuration, device="GPU.0"))
    assert " · GPU.0 · batch 1" in side_text(shown, on_gpu)
    assert side_text(shown, None) == "no point"


def test_bars_have_the_colours_of_the_points_and_their_intervals():
    figure = bars_figure({"A": A, "B": B}, Bars.THROUGHPUT, LOOKS)
    (bars,) = figure.data
    assert tuple(bars.marker.color) == (LOOKS["A"].colour, LOOKS["B"].colour)
    assert list(bars.y) == [A.throughput_items_per_s, B.throughput_items_per_s]
    assert bars.error_y.array[0] == pytest.approx(A.throughput_interval.high - A.throughput_items_per_s)
    assert figure.layout.yaxis.title.text == "throughput (items/s)"


def test_latency_is_in_milliseconds():
    (bars,) = bars_figure({"A": A, "B": B}, Bars.LATENCY, LOOKS).data
    assert list(bars.y) == [A.latency.median_ns / 1e6, B.latency.median_ns / 1e6]
    assert bars.error_y.arrayminus[1] == pytest.approx((B.latency.median_ns - B.latency.median_interval.low) / 1e6)


def test_a_side_without_numbers_has_no_bar_and_says_so():
    failed = invented.failed("m3")
    (bars,) = bars_figure({"A": A, "B": failed}, Bars.THROUGHPUT, LOOKS).data
    assert list(bars.x) == ["A"]
    assert bars_figure({"A": failed}, Bars.LATENCY, LOOKS) is None
    assert interval_sentences({"B": failed}, Bars.LATENCY) == ("B has no numbers: failed.",)


def test_an_unknown_interval_is_said_to_be_unknown():
    lonely = replace(A, throughput_interval=None)
    (bars,) = bars_figure({"A": lonely}, Bars.THROUGHPUT, LOOKS).data
    assert bars.error_y.array is None
    assert "how sure that is is unknown" in interval_sentences({"A": lonely}, Bars.THROUGHPUT)[0]


def test_one_wide_interval_does_not_flatten_the_bars():
    wide = replace(A, throughput_interval=replace(A.throughput_interval, low=0.0, high=1e6))
    assert bars_figure({"A": wide, "B": B}, Bars.THROUGHPUT, LOOKS).layout.yaxis.range[1] < 4 * B.throughput_items_per_s
    assert "0 to 1,000,000" in interval_sentences({"A": wide}, Bars.THROUGHPUT)[0]


def test_large_numbers_stand_in_full():
    fast = replace(A, throughput_items_per_s=23456.7)
    figure = bars_figure({"A": fast}, Bars.THROUGHPUT, LOOKS)
    assert figure.layout.xaxis.ticktext == ("<b>A</b><br>23,457 items/s",)
    assert "g}" not in figure.data[0].hovertemplate
    assert "A: 23,457 items/s" in interval_sentences({"A": fast}, Bars.THROUGHPUT)[0]


def test_the_verdict_tells_the_ratio_and_how_sure_it_is():
    sentence = verdict_line(compared(A, B)).sentence
    assert sentence.startswith("B is faster: it takes 0.496 × as long as A (95 % interval 0.4")
    assert "95 % interval" in sentence


def test_rows_tell_how_settings_are_known_and_quote_formulas():
    (row,) = point_rows({"A": replace(A, model_name="=HYPERLINK(1)")})
    assert (row["Point"], row["Precision"], row["Threads"]) == ("A", "f32 (engine)", "2 (observed)")
    assert row["Model"] == "'=HYPERLINK(1)"
