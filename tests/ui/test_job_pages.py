"""The pages of jobs over real processes: nothing yet, failed, cancelled, lost, removed."""

import os
import signal
import time

import pytest

from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel, job, jobs, start_job
from enginebench_controller.jobs.folder import JobFolder, JobOrder
from enginebench_controller.jobs.record import Cell, CellState, JobEnding, JobProgress, JobState
from enginebench_ui.pages import JOB, JOBS
from opened_pages import opened, texts

pytestmark = pytest.mark.slow

HOSTILE = "**b** <img src=x> [x](javascript:1)"
WITHIN_S = 60


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    home = default_home()
    yield home
    for one in jobs(home):
        cancel(one)


def ended(home, one):
    deadline = time.monotonic() + WITHIN_S
    while not (now := job(home, one.id)).state.has_ended:
        assert time.monotonic() < deadline, now
        time.sleep(0.05)
    return now


def buttons(app):
    return [one.label for one in app.button]


def test_without_jobs_the_list_says_how_to_begin(home):
    app = opened(JOBS)

    assert any("Nothing was started from these pages yet" in text for text in texts(app.info))
    assert "enginebench run" in app.code[0].value


def test_a_job_that_failed_shows_what_it_said_last_and_can_be_removed(home):
    failed = ended(home, start_job(home, HOSTILE, ["run", "no-such-model"]))
    (entry,) = opened(JOBS).get("page_link")
    app = opened(JOB, id=failed.id)

    assert texts(app.title) == [HOSTILE] and HOSTILE in entry.label.replace("\u2060", "").replace("\\", "")
    assert "no model is called 'no-such-model'" in app.code[0].value
    assert buttons(app) == ["Run it again", "Remove from the list"]
    app.button(key="remove").click().run()
    assert jobs(home) == ()


def test_a_job_can_be_started_again_as_another(home):
    first = ended(home, start_job(home, "list", ["models", "list"]))
    app = opened(JOB, id=first.id)
    app.button(key="again").click().run()

    second, before = jobs(home)
    assert (before.id, second.arguments, second.title) == (first.id, first.arguments, first.title)
    ended(home, second)


def test_a_running_job_asks_before_it_is_cancelled(home):
    # Waits for a lock that is ours, as it would for another benchmark of this machine.
    from filelock import FileLock

    home.path.mkdir(parents=True)
    with FileLock(home.path / "local-agent.lock"):
        running = start_job(home, "waiting", ["devices"])
        app = opened(JOB, id=running.id)
        assert buttons(app) == ["Cancel the job"]
        assert any("What was finished is stored and stays." in text for text in texts(app.markdown))
        assert not job(home, running.id).cancelling
        app.button(key="cancel_job").click().run()
        assert ended(home, running).state is JobState.CANCELLED
    assert "It was cancelled" in texts(opened(JOB, id=running.id).caption)[1]


def test_a_job_whose_process_was_killed_is_told_as_lost(home):
    from filelock import FileLock

    home.path.mkdir(parents=True)
    with FileLock(home.path / "local-agent.lock"):
        running = start_job(home, "waiting", ["devices"])
        os.kill(JobFolder(running.folder).process().pid, signal.SIGKILL)
        ended(home, running)

    app = opened(JOB, id=running.id)
    assert any("vanished without a word" in text for text in texts(app.caption))


def test_two_hundred_cells_and_their_failures_are_shown(home):
    one = ended(home, start_job(home, "many", ["models", "list"]))
    cells = tuple(
        Cell(
            f"net, batch {batch}",
            CellState.FAILED if batch % 2 else CellState.OK,
            "local",
            "net",
            "x",
            "CPU",
            batch,
            1,
            reason="it crashed" if batch % 2 else "",
        )
        for batch in range(200)
    )
    JobFolder(one.folder).write_progress(JobProgress(cells=cells, total=200))

    app = opened(JOB, id=one.id)
    assert len(app.dataframe[0].value) == 200
    assert texts(app.error) == ["it crashed"]


def test_of_many_jobs_those_are_read_that_are_shown(home, monkeypatch):
    for number in range(50):
        folder = JobFolder(home.path / "jobs" / f"{number:x}")
        folder.path.mkdir(parents=True)
        folder.write_order(JobOrder(f"job {number}", ("run",), number))
        folder.write_ending(JobEnding(0, number))
        for written in ("order.json", "ending.json"):
            os.utime(folder.path / written, ns=(number, number))
    read, order = set(), JobFolder.order
    monkeypatch.setattr(JobFolder, "order", lambda folder: read.add(int(folder.path.name, 16)) or order(folder))

    opened()
    assert read == set()
    app = opened(JOBS)
    assert read == set(range(30, 50))
    assert [link.label for link in app.get("page_link")][:2] == ["**job 49**", "**job 48**"]


def test_an_unknown_job_and_none_at_all_are_told(home):
    assert "there is no job 'abcdef'" in texts(opened(JOB, id="abcdef").error)[0]
    assert "No job is chosen" in texts(opened(JOB).info)[0]
