"""Jobs in one line, for the page that started them."""

from dataclasses import replace
from pathlib import Path

from enginebench_controller.jobs.record import Cell, CellState, Job, JobProgress, JobState, Made, MadeKind
from enginebench_ui.shared.jobs import RECENT_NS, job_line, recent

JOB = Job(
    id="0123456789ab",
    folder=Path("/none"),
    title="Calibrate nuc",
    kind="targets calibrate",
    arguments=("targets", "calibrate", "nuc"),
    plan=None,
    state=JobState.RUNNING,
    created_at_unix_ns=0,
    started_at_unix_ns=0,
    ended_at_unix_ns=None,
    progress=JobProgress(),
    seconds_left=None,
    exit_code=None,
    cancelling=False,
)
DONE = replace(JOB, state=JobState.DONE, ended_at_unix_ns=1_000)


def test_a_running_job_says_what_it_does_how_far_it_is_and_how_long_it_will_take():
    cells = (Cell("openvino, 1 core", CellState.OK), Cell("openvino, 2 cores", CellState.RUNNING, doing="40 %"))
    running = replace(JOB, progress=JobProgress(cells=cells, total=4), seconds_left=100.0)

    line = job_line(running)

    assert line.text == "Calibrate nuc · running · openvino, 2 cores · about 2 min left"
    assert (line.share, line.is_running) == (0.25, True)


def test_nobody_knows_the_share_of_a_job_without_cells():
    line = job_line(replace(JOB, progress=JobProgress(doing="pruning")))

    assert (line.text, line.share) == ("Calibrate nuc · running · pruning", None)


def test_a_failed_job_says_why():
    failed = replace(DONE, state=JobState.FAILED)

    assert job_line(failed, "error: there is no target 'nuc'\n").text.endswith("failed · there is no target 'nuc'")
    assert job_line(failed).text == "Calibrate nuc · failed"


def test_a_job_that_made_a_version_leads_to_it():
    made = replace(DONE, progress=JobProgress(made=(Made(MadeKind.MODEL, "ab" * 32),)))

    assert job_line(made, "the last words of a success are nobody's business").model == "ab" * 6
    assert job_line(DONE).model == ""


def test_jobs_that_ended_long_ago_are_left_out():
    old = replace(DONE, id="old")
    now = 1_000 + RECENT_NS

    assert recent([JOB, old], now) == (JOB,)
    assert recent([JOB, old], now - 1) == (JOB, old)
    assert len(recent([JOB] * 9, now)) == 3


def test_a_benchmark_that_was_made_is_named():
    made = JobProgress(made=(Made(MadeKind.MODEL, "ab" * 32), Made(MadeKind.BENCHMARK, "b0000001")))
    line = job_line(replace(DONE, progress=made))
    assert (line.model, line.benchmark) == ("ab" * 6, "b0000001")


def test_one_that_was_killed_before_it_could_say_when_it_ended_counts_from_its_beginning():
    killed = replace(JOB, state=JobState.CANCELLED)
    assert recent([killed], RECENT_NS - 1) == (killed,)
    assert recent([killed], RECENT_NS) == ()


def test_one_that_is_done_says_what_did_not_come_out():
    cells = (Cell("net", CellState.OK), Cell("net-int8", CellState.FAILED, reason="it crashed"))
    assert job_line(replace(DONE, progress=JobProgress(cells=cells))).text == "Calibrate nuc · done, with failures"
