"""The table that stands above the bar: what runs, and what has finished with its numbers."""

import io

import pytest
from rich.console import Console

import invented
from enginebench_controller.cli import progress
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import EngineRef, Status
from enginebench_controller.store.store import Store

CASES = [
    Case("local", EngineRef(f"engine-{place}", "default", "1.0"), invented.model(), invented.CONFIGURATION, ("cpu",))
    for place in range(40)
]


@pytest.fixture
def results(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    return store


def drawn(reporter, width=80):
    console = Console(width=width, file=io.StringIO())
    for one in reporter.above():
        console.print(one)
    return console.file.getvalue()


def test_the_table_has_what_runs_and_the_numbers_of_what_has_finished(results):
    reporter = progress.TableReporter(results.path)
    reporter.begin(CASES, "b0000001")
    assert drawn(reporter) == ""
    first, second = CASES[:2]
    reporter.running(first, 1, "steady_state", 1, 2)
    reporter.running(second, 0, "compile", 0, 0)
    assert drawn(reporter, 120).count("engine-") == 2 and "steady state" in drawn(reporter, 120)
    measured = invented.measured(first.outcome_id)
    results.add_measurement(measured)
    reporter.finished(first, first.outcome_id, Status.OK, None)
    lines = [line for line in drawn(reporter).splitlines() if "engine-" in line]
    assert ["engine-1" in line for line in lines] == [True, False]
    assert f"{measured.latency.median_ns / 1e6:.3f}" in lines[1] and "ok" in lines[1]


def test_it_is_no_longer_than_the_terminal_and_outlives_damaged_results(results):
    reporter = progress.TableReporter(results.path)
    reporter.begin(CASES, "b0000001")
    results.path.write_bytes(b"no database")
    for case in CASES:
        reporter.finished(case, case.outcome_id, Status.FAILED, None)
    text = drawn(reporter)
    assert "engine-39" in text and "engine-0 " not in text


def test_without_a_terminal_there_are_lines_and_it_says_so(results, capsys):
    with progress.announcing(results.path) as announce:
        pass
    assert callable(announce)
    assert "--watch needs a terminal" in capsys.readouterr().err
