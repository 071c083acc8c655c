"""The table of a run: every number with how far it can be trusted, within the width of a terminal."""

from dataclasses import replace

import pytest

import invented
import invented_ladders
from enginebench_controller.cli.commands.ladder import print_ladder
from enginebench_controller.cli.tables import print_measurements
from enginebench_controller.records import (
    Arrivals,
    Configuration,
    Effective,
    Hint,
    Load,
    Readback,
    ReadbackSource,
    Status,
)
from enginebench_controller.verdicts.ladder import ladder_of

TERMINAL_COLUMNS = 160


@pytest.fixture
def printed(capsys):
    """Prints measurements; returns the table's lines, and the remarks below it."""

    def show(*measurements):
        print_measurements("title", measurements)
        out, err = capsys.readouterr()
        return out.splitlines(), err

    return show


def row(lines, number=0):
    return [line for line in lines if line.startswith("│")][number]


def test_the_median_stands_with_its_interval_and_the_processes_with_their_spread(printed):
    measurement = invented.measured("m1")
    lines, remarks = printed(measurement)

    half_width = measurement.latency.median_relative_half_width
    assert f"{measurement.latency.median_ns / 1e6:.3f} ±{100 * half_width:.1f}%" in row(lines)
    assert f"{100 * measurement.process_spread:.1f}%" in row(lines)
    assert "± half of the median's 95 % interval" in remarks


def test_a_percentile_with_too_few_samples_says_how_many_it_needs(printed):
    lines, _ = printed(invented.measured("m1", iterations=100), invented.measured("m2", iterations=700))

    assert "n<130" in row(lines)
    assert "n<" not in row(lines, 1)


def test_a_model_that_takes_half_a_minute_has_a_rate(printed):
    lines, _ = printed(invented.measured("m1", latency_ms=25_000.0, iterations=12, throughput_items_per_s=0.041234))

    assert "0.04123" in row(lines)


def test_a_slow_rung_has_images_a_second_and_an_interval(capsys):
    measurements = invented_ladders.measurements(fps={"pytorch": 0.04, "batch-4": 131.86})
    print_ladder(ladder_of(invented_ladders.benchmark(), measurements))

    lines = capsys.readouterr().out.splitlines()
    assert "0.0400 ± 0.0012" in row(lines)
    assert "131.9 ± 4.0" in row(lines, 1)


def test_a_ladder_whose_lowest_rung_has_no_numbers_says_what_gains_on_the_first_are_on(capsys):
    told = "gains on the first are gains on + batch 4, as PyTorch has no numbers"
    for pytorch, is_told in ((None, True), (47.67, False)):
        measurements = invented_ladders.measurements(fps={"pytorch": pytorch, "batch-4": 131.86, "throughput": 249.34})
        print_ladder(ladder_of(invented_ladders.benchmark(), measurements))
        assert (told in capsys.readouterr().err) is is_told


def test_columns_that_would_say_nothing_are_left_out(printed):
    single = replace(invented.measured("m1"), process_spread=None)
    lines, _ = printed(single)
    assert not any(heading in "".join(lines) for heading in ("spread", "p99", "streams", "target"))

    streams = replace(single, id="m2", target="nuc", configuration=Configuration("CPU", 1, 2, streams=4))
    lines, _ = printed(single, streams)
    assert all(heading in "".join(lines) for heading in ("streams", "target"))


def test_an_open_loop_shows_its_rate_and_an_unsure_result_its_status(printed):
    chosen = Configuration("CPU", 1, 2, load=Load.OPEN_LOOP, requests=2, arrivals=Arrivals(62.5))
    lines, _ = printed(invented.measured("m1", status=Status.INCONCLUSIVE, configuration=chosen))

    assert "open-loop 62.5/s poisson" in row(lines)
    assert "inconclusive" in row(lines)


def test_what_to_know_before_trusting_a_number_stands_below(printed):
    _, remarks = printed(invented.measured("m1", noisy=True))

    assert "note: invented on fake 1.0 (local, batch 1, 2 cores): never became steady" in remarks
    assert "other processes" in remarks


def test_measurements_that_differ_in_load_hint_or_precision_alone_are_counted_and_named_each(capsys):
    """Each never became steady, and says so of its own process."""
    usual = invented.measured("m0", noisy=True)
    unlike = {"hint": Hint.THROUGHPUT}, {"load": Load.ASYNC, "requests": 4}, {"precision": "bf16"}
    others = [
        replace(usual, id=f"m{n}", configuration=replace(usual.configuration, **one)) for n, one in enumerate(unlike, 1)
    ]
    print_measurements("title", [usual, *others])
    assert "note: 4 of 4: never became steady" in capsys.readouterr().err

    print_measurements("title", [usual, *others], notes=True)
    told = [line for line in capsys.readouterr().err.splitlines() if "never became steady" in line]
    where = ("", ", hint throughput", ", async 4", ", bf16")
    assert sorted(line.split(": ")[1] for line in told) == sorted(
        f"invented on fake 1.0 (local, batch 1, 2 cores{one})" for one in where
    )


def test_a_wrong_answer_is_marked_however_fast(printed):
    wrong = invented.measured("m2", engine="fake-quick", captured_outputs=(invented.outputs(shift=0.5),))
    lines, remarks = printed(invented.measured("m0"), invented.measured("m1", engine="fake-other"), wrong)

    assert ["≠" in row(lines, number) for number in range(3)] == [False, False, True]
    assert "≠ outputs: invented on fake-quick 1.0" in remarks


def test_a_typical_table_fits_a_wide_terminal(printed):
    measurements = [
        invented.measured("m1", engine="onnxruntime", model_name="mobilenet_v2"),
        invented.measured("m2", engine="deepsparse", model_name="mobilenet_v2", status=Status.INCONCLUSIVE),
        invented.failed("m3", model_name="mobilenet_v2"),
    ]
    lines, _ = printed(*measurements)

    assert max(map(len, lines)) <= TERMINAL_COLUMNS


def test_what_was_prepared_stands_once_below_the_table(printed):
    measurement = invented.measured("m1")
    told = replace(measurement, effective=replace(measurement.effective, prepared=("5 weights folded", "inlined")))
    _, remarks = printed(told, replace(told, id="m2", configuration=replace(told.configuration, batch=4)), measurement)
    assert remarks.count("Prepared: 5 weights folded; inlined") == 1


def test_only_marks_that_are_there_are_explained(printed):
    plain = invented.measured("m1", iterations=700)
    stated = ReadbackSource.ENGINE_API
    known = Effective(threads=Readback(2, stated), precision=Readback("f32", stated))
    latency = replace(plain.latency, median_interval=None)
    _, remarks = printed(replace(plain, effective=known, latency=latency, process_spread=None))
    assert not any(mark in remarks for mark in ("°", "±", "spread", "n<130", "assumed", "inconclusive"))

    _, remarks = printed(invented.measured("m1"))
    assert "° observed" in remarks and "± half" in remarks and "spread:" in remarks and "assumed" not in remarks

    _, remarks = printed(replace(invented.measured("m1"), status=Status.INCONCLUSIVE))
    assert "inconclusive: a wider interval, less time or fewer iterations than asked for" in remarks
