"""Measurements as CSV: units in the headings, unknown empty, and nothing that a spreadsheet would compute."""

import csv
import io
from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.csv_cells import cell, harmless
from enginebench_controller.files.csv_tables import measurements_csv


def rows(measurements):
    return list(csv.DictReader(io.StringIO(measurements_csv(measurements), newline="")))


def test_a_row_says_what_was_asked_what_ran_and_what_came_of_it():
    measurement = invented.measured("m1", batch=4, iterations=700, noisy=True)
    (row,) = rows([measurement])

    assert (row["engine"], row["batch"], row["cores"], row["status"]) == ("fake", "4", "2", "ok")
    assert (row["effective_precision"], row["effective_precision_source"]) == ("f32", "engine_api")
    assert float(row["median_ns"]) == measurement.latency.median_ns
    assert float(row["median_low_ns"]) == measurement.latency.median_interval.low
    assert float(row["p99_ns"]) == measurement.latency.percentile_ns(99)
    assert float(row["throughput_items_per_s"]) == measurement.throughput_items_per_s
    assert float(row["disturbed_share"]) == pytest.approx(1 / 12, rel=0.1)
    assert invented.UNSTEADY in row["flags"]
    assert row["p99.9_ns"] == ""  # it needs 6,636 samples


def test_a_failure_has_no_number_and_says_why():
    (row,) = rows([invented.failed("m1")])

    assert (row["median_ns"], row["throughput_items_per_s"], row["engine_version"]) == ("", "", "")
    assert (row["status"], row["failure_kind"]) == ("failed", "crashed")
    assert "killed by SIGSEGV" in row["failure"]


def test_wrong_outputs_and_formulas_are_told_and_made_harmless():
    wrong = invented.measured("m3", engine="=1+1", captured_outputs=(invented.outputs(shift=0.5),))
    found = rows([invented.measured("m1"), invented.measured("m2", engine="other"), wrong])

    assert [bool(row["output_problem"]) for row in found] == [False, False, True]
    assert found[2]["engine"] == "'=1+1"


def test_nothing_is_an_empty_text():
    assert measurements_csv([]) == ""


def test_what_was_prepared_is_a_column():
    measurement = invented.measured("m1")
    prepared = replace(measurement, effective=replace(measurement.effective, prepared=("5 weights folded", "inlined")))
    assert [row["prepared"] for row in rows([prepared, measurement])] == ["5 weights folded; inlined", ""]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("\t=1+1", "'\t'=1+1"),
        ("a;=1+1;b", "a;'=1+1;b"),
        ('a;"=1+1"', 'a;\'"=1+1"'),
        ("a\n@b", "a\n'@b"),
        ("a;b; -c = d", "a;b; -c = d"),
    ],
)
def test_no_part_that_a_spreadsheet_may_split_off_is_a_formula(text, shown):
    """A comma is the only sign at which ours are split; in many countries spreadsheets split at ; instead."""
    assert cell(text) == harmless(text) == shown
    assert harmless(shown) == shown, "pages do it to what was done already"
