"""A cell is shown with units, intervals and status; without numbers it says why in words."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Arrivals, Configuration, Grounds, Interval, IntervalMethod, Load, Status
from enginebench_controller.stats.comparison import Verdict
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.verdicts.pairing import compare_cells
from enginebench_ui.pages.benchmark.shapes.cell import cell_view, comparison_rows, distribution_rows, remarks_on, unlike
from enginebench_ui.pages.benchmark.shapes.figures import Lens, Statistic, figure_of, interval_text
from enginebench_ui.pages.benchmark.shapes.lines import labelled, lines_of

CELL = (4, 2)


def measured(identity, engine="fake", **fields):
    return invented.measured(identity, engine=engine, batch=4, configuration=Configuration("CPU", 4, 2), **fields)


def lines(*measurements):
    return labelled(lines_of(measurements))


def test_the_cards_are_the_three_figures_with_their_intervals():
    measurement = measured("m1", noisy=True, status=Status.INCONCLUSIVE)
    view = cell_view(*lines(measurement), CELL, Lens(problems={"m1": "the outputs differ"}))

    assert [card.unit for card in view.cards] == ["ms/item", "ms/batch", "items/s"]
    latency = measurement.latency
    assert float(view.cards[0].value) == pytest.approx(latency.median_ns / 4e6, rel=1e-3)
    assert float(view.cards[1].value) == pytest.approx(latency.median_ns / 1e6, rel=1e-3)
    assert float(view.cards[2].value.replace(",", "")) == pytest.approx(measurement.throughput_items_per_s, rel=1e-3)
    assert view.cards[0].interval.endswith("(95 % over processes)")
    assert view.status is Status.INCONCLUSIVE
    assert view.remarks[0] == "A wider interval, less time or fewer iterations than was asked for."
    assert any(invented.UNSTEADY in remark for remark in view.remarks)
    assert view.remarks[-1] == "the outputs differ"
    assert "threads 2 (observed)" in view.effective


@pytest.mark.parametrize(
    ("rate", "fields", "words"),
    [
        (1000.0, {}, ""),
        (2000.0, {"load": Load.ASYNC, "requests": 2}, "2 requests in flight, 2 at work on average"),
        (100.0, {"load": Load.OPEN_LOOP, "arrivals": Arrivals(25.0)}, "25 requests/s arrive, and a latency"),
        (500.0, {}, "is not the median: some take much longer or shorter"),
    ],
)
def test_items_a_second_that_are_not_the_batch_by_the_latency_say_why(rate, fields, words):
    """Batch 4 in about 4 ms: 1000 items/s one after the other."""
    chosen = Configuration("CPU", 4, 2, **fields)
    measurement = replace(measured("m1"), configuration=chosen, throughput_items_per_s=rate)
    card = cell_view(*lines(measurement), CELL, Lens()).cards[2]

    assert words in card.interval and (" · " in card.interval) == bool(words)


def test_the_mean_has_its_own_value_and_interval_and_throughput_stays():
    measurement = measured("m1")
    interval = Interval(3_900_000.0, 4_100_000.0, 0.95, IntervalMethod.PROCESSES_T)
    lens = Lens(Statistic.MEAN, {"m1": interval})

    time = figure_of(measurement, Quantity.TIME_PER_ITEM, lens)

    assert time.value == measurement.latency.mean_ns / 4e6
    assert (time.low, time.high) == (3.9 / 4, 4.1 / 4)
    rates = [figure_of(measurement, Quantity.ITEMS_PER_S, one) for one in (lens, Lens())]
    assert rates[0] == rates[1]
    assert figure_of(measurement, Quantity.TIME_PER_ITEM, Lens(Statistic.MEAN)).interval is None


def test_a_cell_without_numbers_says_why():
    failed = invented.failed("m1", batch=4, configuration=Configuration("CPU", 4, 2))
    (line,) = lines(failed)

    view = cell_view(line, CELL, Lens())
    assert (view.cards, view.status) == ((), Status.FAILED)
    assert "crashed, SIGSEGV, in compile" in view.missing
    assert "killed by SIGSEGV" in view.missing
    assert cell_view(line, (8, 2), Lens()).missing == "Batch 8 on 2 cores was not measured with fake-broken."


def test_others_stand_beside_the_base_with_ratio_and_verdict():
    fast, slow = measured("m1", "a"), measured("m2", "b", latency_ms=8.0)
    failed = invented.failed("m3", engine="c", batch=4, configuration=Configuration("CPU", 4, 2))
    base, other, broken = lines(fast, slow, failed)
    compared = {one.second.id: one for one in compare_cells(fast, [slow], {})}

    first, second, third = comparison_rows(base, (other, broken), CELL, compared, Lens())

    assert (first[""], first["Time ÷ base"], second["It is"]) == ("based on", None, "slower")
    assert second["Time ÷ base"] == pytest.approx(2, rel=0.05)
    assert second["ms/item"] == pytest.approx(2, rel=0.05)
    assert (third["ms/item"], third["Status"], third["Remarks"]) == (None, "failed", "crashed, SIGSEGV, in compile")
    assert unlike(compared.values()) == ()


def test_one_process_each_tells_nothing_however_far_apart_they_are():
    alone = [
        replace(one, processes=one.processes[:1]) for one in (measured("m1", "a"), measured("m2", "b", latency_ms=40.0))
    ]
    base, other = lines(*alone)
    compared = {one.second.id: one for one in compare_cells(alone[0], alone[1:], {})}

    row = comparison_rows(base, (other,), CELL, compared, Lens())[1]

    assert (row["It is"], row["Time ÷ base"], row["95 % interval"]) == ("cannot be told", None, None)
    assert "one process each tells nothing" in row["Remarks"]


def test_a_difference_that_its_interval_does_not_confirm_is_within_noise():
    first, second = measured("m1", "a"), measured("m2", "b")
    base, other = lines(first, second)
    (one,) = compare_cells(first, [second], {})
    unsure = replace(one, comparison=replace(one.comparison, verdict=Verdict.INCONCLUSIVE))

    assert comparison_rows(base, (other,), CELL, {"m2": unsure}, Lens())[1]["It is"] == "within noise"


def test_what_is_known_of_cells_is_told_in_whole_sentences():
    (line,) = lines(measured("m1", noisy=True))

    (about, *_), *_rest = [(one.about, one.sentence) for one in remarks_on([line], [CELL, (8, 2)], Lens())]
    assert about == "fake 1.0, batch 4 on 2 cores"
    assert remarks_on(lines(measured("m2")), [CELL], Lens()) == ()


def test_a_distribution_leaves_out_percentiles_that_too_few_samples_support():
    (row,) = distribution_rows(lines(measured("m1")), CELL)

    assert row["Least"] <= row["Median"] <= row["p95"] <= row["Most"]
    assert (row["p99"], row["p99.9"]) == (None, None)
    assert distribution_rows(lines(invented.failed("m2")), (1, 2)) == ()


def test_a_missing_interval_is_said():
    assert interval_text(None) == "no interval: too few blocks or processes"


def test_what_is_emulated_has_a_mark_beside_its_status():
    (line,) = lines(measured("m1", grounds=Grounds(emulation="by QEMU")))
    assert [mark.value for mark in cell_view(line, CELL, Lens()).marks] == ["emulated"]
