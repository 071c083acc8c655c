"""Jobs are processes of their own: they finish, fail, are cancelled or killed, and say so to whoever looks."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from controller.jobs.waiting import ended, until
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.jobs import control
from enginebench_controller.jobs.control import (
    cancel,
    job,
    job_ids,
    jobs,
    jobs_since,
    jobs_with,
    log_tail,
    open_jobs,
    remove,
    start_job,
)
from enginebench_controller.jobs.folder import JobFolder, JobOrder, identify
from enginebench_controller.jobs.record import CellState, JobEnding, JobProgress, JobState
from enginebench_controller.records import Status
from integration.bench import BRIEF

pytestmark = pytest.mark.slow

LONG = {"duration": "10m", "max_duration": "20m"}


def test_a_job_carries_its_plan_out_cell_by_cell(home, plan):
    one = start_job(home, "two batches", ["run"], plan(batch=[1, 2], name="from a page"))
    assert (one.title, one.kind, one.state) == ("two batches", "run", JobState.QUEUED)

    seen = until(home, one, lambda now: now.progress.total)
    assert seen.state in (JobState.RUNNING, JobState.DONE)
    assert [cell.batch for cell in seen.progress.cells] == [1, 2]
    done = ended(home, one)

    assert (done.state, done.exit_code, done.seconds_left) == (JobState.DONE, 0, None)
    assert [cell.state for cell in done.progress.cells] == [CellState.OK, CellState.OK]
    assert done.created_at_unix_ns < done.started_at_unix_ns < done.ended_at_unix_ns
    (benchmark,) = done.benchmarks
    assert home.store.benchmark(benchmark).name == "from a page"
    stored = {one.id for one in home.store.measurements(benchmark)}
    assert {cell.outcome_id for cell in done.progress.cells} == stored
    assert "batch 2" in log_tail(done)


def test_jobs_are_listed_newest_first_and_forgotten_when_they_are_over(home, plan):
    first = ended(home, start_job(home, "first", ["models", "list"]))
    second = start_job(home, "second", ["run"], plan(**LONG))

    assert [one.title for one in jobs(home)] == ["second", "first"]
    assert (first.kind, first.state, first.progress.total) == ("models list", JobState.DONE, None)
    assert job(home, second.id[:10]).id == second.id
    with pytest.raises(InputError, match="cancel it first"):
        remove(second)
    remove(first)
    assert [one.title for one in jobs(home)] == ["second"]
    with pytest.raises(InputError, match="there is no job '\\.\\./x'"):
        job(home, "../x")


def test_two_jobs_of_one_machine_run_one_after_the_other(home, plan):
    local = plan(targets=())
    both = [start_job(home, f"job {number}", ["run"], local) for number in (1, 2)]
    first, second = sorted((ended(home, one) for one in both), key=lambda one: one.started_at_unix_ns)

    assert (first.state, second.state) == (JobState.DONE, JobState.DONE)
    assert first.benchmarks != second.benchmarks
    # The second waits for the agent of the first to leave, so it begins when no cell of the first is open any more.
    assert second.started_at_unix_ns > first.progress.told_at_unix_ns
    assert "another enginebench command uses this machine" in log_tail(second)


def test_a_cell_that_fails_is_told_with_its_reason_and_stops_no_other(home, plan):
    failing = plan(engines=["fake"], batch=[1, 3], options={"fake.fault": "segfault"})
    failed = ended(home, start_job(home, "crashes", ["run"], failing))

    assert (failed.state, failed.exit_code) == (JobState.FAILED, 1)
    assert [cell.state for cell in failed.progress.cells] == [CellState.FAILED] * 2
    assert "SIGSEGV" in failed.progress.cells[0].reason
    assert len(home.store.measurements(failed.benchmarks[0])) == 2


def test_a_command_that_refuses_says_why_in_its_log(home):
    refused = ended(home, start_job(home, "nonsense", ["run", "no-such-model"]))

    assert (refused.state, refused.exit_code) == (JobState.FAILED, 2)
    assert "no model is called 'no-such-model'" in log_tail(refused, 1)


def test_a_cancelled_job_keeps_what_was_finished(home, plan):
    one = start_job(home, "long", ["run"], plan(batch=[1, 2], **LONG))
    running = until(home, one, lambda now: any(cell.doing == "steady state" for cell in now.progress.cells))
    assert running.seconds_left > 60
    cancel(running)
    assert job(home, one.id).cancelling or job(home, one.id).state.has_ended
    cancelled = ended(home, one)

    assert (cancelled.state, cancelled.exit_code) == (JobState.CANCELLED, 130)
    assert {cell.state for cell in cancelled.progress.cells} == {CellState.CANCELLED}
    (benchmark,) = cancelled.benchmarks
    assert {one.status for one in home.store.measurements(benchmark)} == {Status.CANCELLED}
    assert "Traceback" not in log_tail(cancelled, 100)
    cancel(cancelled)
    assert job(home, one.id).state is JobState.CANCELLED


def test_a_job_can_be_cancelled_where_its_starter_ignores_interruptions(home, plan):
    # As in pages that a shell started in the background: their children inherit that SIGINT is ignored.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        one = start_job(home, "long", ["run"], plan(**LONG))
        cancel(one)  # before Python listens to signals
        two = start_job(home, "long", ["run"], plan(**LONG))
    finally:
        signal.signal(signal.SIGINT, before)
    cancel(until(home, two, lambda now: now.state is JobState.RUNNING))

    assert [ended(home, each).state for each in (one, two)] == [JobState.CANCELLED] * 2


def test_a_job_whose_process_is_killed_is_lost(home, plan):
    # The agent goes on with the run until its time is up, as it would over a broken connection.
    one = start_job(home, "long", ["run"], plan(timeout="5s", duration="3s"))
    until(home, one, lambda now: now.state is JobState.RUNNING)
    os.kill(JobFolder(one.folder).process().pid, signal.SIGKILL)
    lost = ended(home, one)

    assert (lost.state, lost.exit_code, lost.ended_at_unix_ns) == (JobState.LOST, None, None)
    assert {cell.state for cell in lost.progress.cells} == {CellState.CANCELLED}
    remove(lost)
    assert jobs(home) == ()


def test_another_process_that_has_the_number_later_is_never_interrupted(home):
    one = ended(home, start_job(home, "quick", ["models", "list"]))
    folder = JobFolder(one.folder)
    (one.folder / "ending.json").unlink()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as other:
        own = identify(other.pid)
        folder.write_process(type(own)(own.pid, own.started_ticks - 1, own.boot_id))
        assert job(home, one.id).state is JobState.LOST
        cancel(one)
        assert not folder.cancel_file.exists()
        assert other.communicate(b"\n") and other.returncode == 0


def test_a_job_survives_whoever_started_it(home, plan):
    script = "import sys; from pathlib import Path; from enginebench_controller.home import Home; "
    script += (
        "from enginebench_controller.jobs.control import start_job; "
        "print(start_job(Home(Path(sys.argv[1])), 'x', ['list']).id)"
    )
    starter = subprocess.run([sys.executable, "-c", script, str(home.path)], capture_output=True, text=True, check=True)

    assert ended(home, job(home, starter.stdout.strip())).state is JobState.DONE


def test_a_profile_names_the_profiles_it_stored(home, plan):
    wish = plan()
    where = ("--engine", "fake", "--target", wish.targets[0])
    arguments = ["profile", wish.models[0], *where, "--iterations", "3", *BRIEF]
    done = ended(home, start_job(home, "layers", arguments))

    assert done.state is JobState.DONE
    assert [home.store.profile(one).id for one in done.profiles] == list(done.profiles) != []


def test_a_pruned_version_is_named(home, plan):
    done = ended(home, start_job(home, "prune", ["models", "prune", plan().models[0], "--sparsity", "0.5"]))

    assert done.state is JobState.DONE
    assert [home.library.resolve(one).digest for one in done.models] == list(done.models) != []


def test_files_that_are_no_job_are_left_out(home):
    one = ended(home, start_job(home, "quick", ["models", "list"]))
    (one.folder / "progress.json").write_text('{"cells": 3}')
    (home.path / "jobs" / "abcdef").mkdir()
    (home.path / "jobs" / "notes.txt").touch()

    (only,) = jobs(home)
    assert (only.id, only.progress.cells) == (one.id, ())


def test_of_jobs_that_ended_long_ago_nothing_is_read(tmp_path, monkeypatch):
    home, second_ns = Home(tmp_path), 1_000_000_000
    for at_s, identity in enumerate(("aa", "ab", "ac"), start=100):
        folder = JobFolder(home.path / "jobs" / identity)
        folder.path.mkdir(parents=True)
        folder.write_order(JobOrder(identity, ("run",), at_s * second_ns))
        folder.write_process(identify(os.getpid()))
        os.utime(folder.path / "order.json", (at_s, at_s))
        if identity != "ac":
            folder.write_ending(JobEnding(0, (at_s + 10) * second_ns))
            os.utime(folder.path / "ending.json", (at_s + 10, at_s + 10))
    read, order = [], JobFolder.order
    monkeypatch.setattr(JobFolder, "order", lambda folder: read.append(folder.path.name) or order(folder))

    assert (job_ids(home), read) == (("ac", "ab", "aa"), [])
    assert [one.id for one in jobs_since(home, 111 * second_ns)] == ["ac", "ab"]
    assert [one.id for one in open_jobs(home)] == ["ac"]
    assert [one.id for one in jobs_with(home, ["aa", "ac", "ad"])] == ["ac", "aa"]
    assert sorted(read) == ["aa", "ab", "ac", "ac", "ac", "ad"]


def test_of_a_job_that_was_lost_long_ago_its_process_alone_is_read(tmp_path, monkeypatch):
    home, second_ns = Home(tmp_path), 1_000_000_000
    folder = JobFolder(home.path / "jobs" / "aa")
    folder.path.mkdir(parents=True)
    folder.write_order(JobOrder("aa", ("run",), 100 * second_ns))
    folder.write_process(replace(identify(os.getpid()), started_ticks=0))
    folder.write_progress(JobProgress())
    for file in folder.path.iterdir():
        os.utime(file, (100, 100))
    read, progress = [], JobFolder.progress
    monkeypatch.setattr(JobFolder, "progress", lambda folder: read.append(folder.path.name) or progress(folder))

    assert (jobs_since(home, 101 * second_ns), open_jobs(home), read) == ((), (), [])
    assert [one.state for one in (*jobs_since(home, 99 * second_ns), *jobs(home))] == [JobState.LOST, JobState.LOST]


@pytest.mark.fault(20)
def test_a_clock_set_back_by_an_hour_neither_prolongs_a_job_nor_keeps_one_that_never_began(tmp_path, monkeypatch):
    home, before_ns = Home(tmp_path), time.time_ns()
    for identity in ("a", "b"):
        folder = JobFolder(home.path / "jobs" / identity)
        folder.path.mkdir(parents=True)
        folder.write_order(JobOrder("a job", ("run",), before_ns))
        folder.write_progress(JobProgress(seconds_left=10.0, started_at_unix_ns=before_ns, told_at_unix_ns=before_ns))
    JobFolder(home.path / "jobs" / "a").write_process(identify(os.getpid()))
    monkeypatch.setattr(control.time, "time_ns", lambda: before_ns - 3_600_000_000_000)

    assert (job(home, "a").state, job(home, "a").seconds_left) == (JobState.RUNNING, 10.0)
    assert job(home, "b").state is JobState.LOST


def test_the_days_that_a_job_has_left_are_told(tmp_path, monkeypatch):
    folder, now_ns = JobFolder(tmp_path / "jobs" / "a"), time.time_ns()
    folder.path.mkdir(parents=True)
    folder.write_order(JobOrder("a job", ("run",), now_ns))
    folder.write_progress(JobProgress(seconds_left=26 * 3600 + 20, started_at_unix_ns=now_ns, told_at_unix_ns=now_ns))
    folder.write_process(identify(os.getpid()))
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    said = {words: CliRunner().invoke(make_app(words), words) for words in (("jobs", "list"), ("jobs", "show", "a"))}
    assert " 26 h " in said["jobs", "list"].stdout
    assert "about 26 h left" in said["jobs", "show", "a"].stderr


def test_a_job_with_wrong_outputs_is_not_simply_done(home, plan):
    done = ended(home, start_job(home, "wrong", ["run"], plan(batch=[2, 4], options={"fake.wrong": "ignored_input"})))

    assert (done.state, done.exit_code) == (JobState.DONE, 1)
    assert done.state_words == "done, with wrong outputs"
    assert [cell.state for cell in done.progress.cells] == [CellState.WRONG, CellState.WRONG]
    assert all(cell.reason.startswith("outputs: ") for cell in done.progress.cells)
