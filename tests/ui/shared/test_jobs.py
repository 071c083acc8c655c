"""A job as a person looks at it."""

from dataclasses import replace
from pathlib import Path

import pytest

from enginebench_controller.jobs.record import Cell, CellState, Job, JobProgress, JobState, Made, MadeKind
from enginebench_controller.records import Status
from enginebench_controller.store.measurements import Headline
from enginebench_ui.shared.jobs import job_view, made_kinds

S = 1_000_000_000
NOW = 1_800_000_000 * S


def cell(batch, state, **fields):
    return Cell(f"net, batch {batch}", state, "local", "net", "x 1.0", "CPU", batch, 2, **fields)


CELLS = (
    cell(1, CellState.OK, outcome_id="m1"),
    cell(2, CellState.FAILED, reason="it crashed", outcome_id="m2"),
    cell(4, CellState.RUNNING, doing="warm up"),
    cell(8, CellState.QUEUED),
)
RUNNING = Job(
    id="0123456789ab",
    folder=Path("/none"),
    title="net on x",
    kind="run",
    arguments=("run",),
    state=JobState.RUNNING,
    created_at_unix_ns=NOW - 40 * S,
    started_at_unix_ns=NOW - 30 * S,
    ended_at_unix_ns=None,
    progress=JobProgress(cells=CELLS, total=4),
    seconds_left=30.0,
    exit_code=None,
    cancelling=False,
)


def test_a_running_job_says_where_it_is_cell_by_cell():
    view = job_view(RUNNING, NOW, {"m1": Headline(Status.OK, 3_210_000.0, 311.0)})

    assert (view.badge[0], view.is_active) == ("running", True)
    assert view.progress == "2 of 4 cells · about 30 s left (estimated)"
    assert job_view(replace(RUNNING, seconds_left=0.0), NOW).progress.endswith("nearly done, or longer than estimated")
    assert view.doing == "net, batch 4: warm up"
    assert [text for text, _ in view.tallies] == ["1 ok", "1 failed", "1 running", "1 waiting"]
    assert "running for 30 s" in view.facts and "Benchmark" in view.facts
    assert [row["State"] for row in view.cell_rows] == ["✓ ok", "✗ failed", "▶ running", "… waiting"]
    assert [row["What"] for row in view.cell_rows] == [None, "it crashed", "warm up", None]
    assert view.cell_rows[0]["Median (ms)"] == pytest.approx(3.21)
    assert view.cell_rows[1]["Median (ms)"] is None
    assert view.failures == (("it crashed", ("net, batch 2",)),)


def test_the_share_done_is_one_of_time_and_never_whole_before_the_end():
    assert job_view(RUNNING, NOW).share == pytest.approx(0.5)
    assert job_view(replace(RUNNING, seconds_left=3 * 30.0), NOW).share == 0.5, "two of four cells"
    assert job_view(replace(RUNNING, seconds_left=0.0), NOW).share == 0.99
    assert job_view(replace(RUNNING, progress=JobProgress(), seconds_left=None), NOW).share is None
    of_a_budget = replace(RUNNING, progress=JobProgress(doing="looking"))
    assert job_view(of_a_budget, NOW).share == pytest.approx(0.5), "without cells, of the time alone"


def test_a_job_that_waits_says_for_whom():
    queued = replace(RUNNING, id="q", state=JobState.QUEUED, started_at_unix_ns=None, progress=JobProgress())
    older = replace(RUNNING, id="o", title="the night's gate", created_at_unix_ns=NOW - 90 * S)
    ended = replace(older, state=JobState.DONE, created_at_unix_ns=NOW - 99 * S)
    assert (
        "until “the night's gate” has left" in job_view(queued, NOW, others=[queued, RUNNING, older, ended]).explanation
    )
    assert "until another job has left" in job_view(queued, NOW, others=[queued, ended]).explanation
    assert job_view(RUNNING, NOW, others=[older]).explanation == ""


def test_columns_that_would_say_nothing_are_left_out():
    done = replace(RUNNING, state=JobState.DONE, progress=JobProgress(cells=CELLS[:1], total=1))
    assert list(job_view(done, NOW).cell_rows[0]) == ["State", "Model", "Engine", "Device", "Batch", "Cores"]
    elsewhere = replace(CELLS[0], target="nuc")
    two = replace(RUNNING, progress=JobProgress(cells=(CELLS[0], elsewhere), total=2))
    assert [row["Target"] for row in job_view(two, NOW).cell_rows] == ["local", "nuc"]


def test_steps_that_are_no_configurations_are_named():
    steps = JobProgress(cells=(Cell("openvino, 1 core", CellState.RUNNING, doing="40 %"),), total=3)
    (row,) = job_view(replace(RUNNING, kind="targets calibrate", progress=steps), NOW).cell_rows
    assert row == {"State": "▶ running", "Step": "openvino, 1 core", "What": "40 %"}


def test_how_a_job_ended_is_explained():
    ended = replace(RUNNING, ended_at_unix_ns=NOW, seconds_left=None, progress=RUNNING.progress.stopped())
    lost = job_view(replace(ended, state=JobState.LOST, ended_at_unix_ns=None), NOW)
    cancelled = job_view(replace(ended, state=JobState.CANCELLED), NOW)

    assert "vanished" in lost.explanation and "took" not in lost.facts
    assert "took 30 s" in cancelled.facts
    assert [text for text, _ in cancelled.tallies] == ["1 ok", "1 failed", "2 not measured"]
    assert job_view(replace(RUNNING, cancelling=True), NOW).badge[0] == "cancelling"
    assert "waits until another job" in job_view(replace(RUNNING, state=JobState.QUEUED), NOW).explanation


def test_the_same_failure_is_told_once():
    failing = tuple(cell(batch, CellState.FAILED, reason="it crashed") for batch in range(200))
    view = job_view(replace(RUNNING, progress=JobProgress(cells=failing, total=200)), NOW)

    ((reason, titles),) = view.failures
    assert (reason, len(titles)) == ("it crashed", 200)
    assert view.tallies == (("200 failed", "red"),)


def test_names_in_the_table_compute_nothing_in_a_spreadsheet():
    hostile = replace(CELLS[0], model="=HYPERLINK(1)")
    (row,) = job_view(replace(RUNNING, progress=JobProgress(cells=(hostile,), total=1)), NOW).cell_rows
    assert row["Model"] == "'=HYPERLINK(1)"


def test_what_was_made_is_kept_apart_by_kind():
    made = [Made(MadeKind.PROFILE, "p1"), Made(MadeKind.BENCHMARK, "b1"), Made(MadeKind.PROFILE, "p2")]
    assert made_kinds(made) == {MadeKind.PROFILE: ["p1", "p2"], MadeKind.BENCHMARK: ["b1"]}


def test_what_a_job_does_is_told_before_between_and_after_its_cells():
    def doing(*states: CellState, total: int | None = 2) -> str:
        cells = tuple(cell(one, state) for one, state in enumerate(states))
        return job_view(replace(RUNNING, progress=JobProgress(cells=cells, total=total)), NOW).doing

    assert doing(total=None) == "Planning …"
    assert doing(CellState.OK, CellState.QUEUED) == "Between two cells …"
    assert doing(CellState.OK, CellState.FAILED) == "Finishing …"
