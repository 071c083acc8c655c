"""A ladder as bars and as a table: what is missing says so in words and is never 0."""

from dataclasses import replace

import pytest

import invented_ladders
from enginebench_controller.files.ladders import write_chart
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.store.benchmarks import LadderEntry
from enginebench_controller.verdicts.ladder import ladder_of
from enginebench_ui.pages.ladders.shapes import (
    Measure,
    alternative,
    bars,
    best_sentence,
    choices,
    ladder_figure,
    ladder_rows,
    narrowed,
    rung_rows,
)


def ladder(kind="throughput", **fps):
    return ladder_of(
        invented_ladders.benchmark(kind=kind), invented_ladders.measurements(fps=invented_ladders.FPS | fps)
    )


def test_bars_are_images_a_second_with_their_interval_and_gain():
    first, batch, best, _ = bars(ladder(), Measure.THROUGHPUT)
    assert (first.value, first.gain, first.factor) == (47.67, None, None)
    assert (batch.low, batch.high) == (pytest.approx(0.97 * 131.86), pytest.approx(1.03 * 131.86))
    assert batch.gain == "+176.6 %"
    assert best.factor == pytest.approx(249.34 / 47.67)
    assert [best.is_best, batch.is_best] == [True, False]


def test_the_same_ladder_is_judged_by_its_latency():
    first, batch, *_ = bars(ladder(), Measure.LATENCY)
    assert first.value == pytest.approx(1e3 / 47.67)
    assert (first.low, first.high) == (None, None)
    assert batch.gain == "+176.6 %"


@pytest.mark.slow
def test_large_numbers_stand_in_full_on_the_page_and_in_a_file(tmp_path):
    climbed = ladder(throughput=12345.6)
    drawn = bars(climbed, Measure.THROUGHPUT)
    figure = ladder_figure(drawn, Measure.THROUGHPUT, EngineLooks())
    assert any("12,346 FPS" in note.text for note in figure.layout.annotations)
    assert "g}" not in figure.data[0].hovertemplate
    write_chart(climbed, tmp_path / "ladder.svg")
    assert "12,346 FPS" in (tmp_path / "ladder.svg").read_text()


def test_the_first_inference_is_told_apart():
    first, *_, gpu = bars(ladder(), Measure.FIRST_INFERENCE)
    assert first.value == pytest.approx(29.2)
    assert gpu.value is None


def test_a_rung_that_is_missing_or_failed_has_no_bar_but_a_reason():
    climbed = ladder(throughput=None)
    for measure in Measure:
        drawn = bars(climbed, measure)
        failed, gpu = drawn[2:]
        assert (failed.value, gpu.value) == (None, None)
        assert failed.missing.startswith("failed: the engine's process was killed")
        assert gpu.missing == f"not available: {invented_ladders.NO_GPU}"
        figure = ladder_figure(drawn, measure, EngineLooks())
        assert list(figure.data[0].x)[2:] == [None, None]
        words = " ".join(note.text for note in figure.layout.annotations)
        assert "not available: openvino on" in words
        assert "failed:" in words
        assert "not available" in alternative(drawn, measure)


def test_whiskers_stand_only_where_an_interval_is_known():
    assert len(ladder_figure(bars(ladder(), Measure.THROUGHPUT), Measure.THROUGHPUT, EngineLooks()).data[1].x) == 3
    assert not ladder_figure(bars(ladder(), Measure.LATENCY), Measure.LATENCY, EngineLooks()).data[1].x


def test_the_table_has_every_rung_with_unknown_as_none():
    rows = rung_rows(ladder(throughput=None))
    assert [row["Rung"] for row in rows] == ["PyTorch", "batch 4", "THROUGHPUT hint", "THROUGHPUT on GPU"]
    assert rows[0]["Throughput (FPS)"] == 47.67
    assert rows[0]["Per image (ms)"] == pytest.approx(1e3 / 47.67)
    assert rows[1]["On the one before"] == "×2.77"
    for row in rows[2:]:
        assert {row[name] for name in row if name.endswith(("(FPS)", "(ms)")) or name.startswith("On the ")} == {None}
    assert [row["Status"] for row in rows[2:]] == ["failed", "not available"]
    assert "has no device 'GPU'" in rows[3]["Remarks"]


def test_the_best_rung_is_named_with_what_it_brought():
    assert best_sentence(ladder()) == ("THROUGHPUT hint has the most images a second, 5.23 times as fast as PyTorch.")
    assert "1.89 times as fast as + batch 4" in best_sentence(ladder(pytorch=None))
    assert best_sentence(ladder("latency")).startswith("THROUGHPUT hint has the shortest median latency")
    assert best_sentence(ladder(**dict.fromkeys(invented_ladders.FPS))).startswith("No rung has numbers")


def test_names_are_only_text_and_a_long_reason_stays_within_its_rung():
    hostile = "<b>x</b>" + "y" * 1000
    climbed = ladder()
    rungs = tuple(replace(rung, title=hostile, reason=hostile) for rung in climbed.rungs)
    figure = ladder_figure(bars(replace(climbed, rungs=rungs), Measure.THROUGHPUT), Measure.THROUGHPUT, EngineLooks())
    assert not any("<b>x" in note.text for note in figure.layout.annotations)
    assert max(note.text.count("<br>") for note in figure.layout.annotations) <= 1


def entry(identity, model="net", target="nuc", kind="throughput", **fields):
    return LadderEntry(invented_ladders.benchmark(identity, kind, **fields), kind, model, target, 4, 3)


def test_ladders_are_listed_and_narrowed_by_model_target_and_kind():
    entries = (entry("b1"), entry("b2", "other", None, rerun_of="b1"), entry("b3", kind="latency"))
    there = choices(entries)
    assert (there.models, there.targets) == (("net", "other"), ("local", "nuc"))
    assert [one.benchmark.id for one in narrowed(entries, "net")] == ["b1", "b3"]
    assert [one.benchmark.id for one in narrowed(entries, None, "local")] == ["b2"]
    assert [one.benchmark.id for one in narrowed(entries, kind="latency")] == ["b3"]
    assert narrowed(entries, "net", "local") == ()
    row = ladder_rows(entries)[1]
    assert (row["Rungs with numbers"], row["Target"], row["Note"]) == ("3 of 4", "local", "re-run of b1")
