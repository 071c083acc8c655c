"""What a job says of itself is the least that it does: where nothing can be written, it goes on and ends as ever."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from enginebench_controller.home import JOB_VARIABLE
from enginebench_controller.jobs import folder, reporting
from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.record import JobEnding, JobProgress
from enginebench_controller.jobs.reporting import ProgressWriter
from enginebench_controller.jobs.telling import telling_how_it_ends


def test_what_could_not_be_written_is_told_with_what_comes_next(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "job")
    writer = ProgressWriter(folder)
    writer.note("while nothing could be written")
    folder.path.mkdir()
    writer.note("afterwards")

    progress = folder.progress()
    assert progress is not None and progress.notes == ("while nothing could be written", "afterwards")


def test_a_command_leaves_with_its_code_though_its_end_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JOB_VARIABLE, str(tmp_path / "job"))
    with pytest.raises(SystemExit) as leaving, telling_how_it_ends():
        raise SystemExit(3)
    assert leaving.value.code == 3


def test_an_end_that_a_full_disk_has_no_room_for_is_told_once_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, slept = folder.write_whole, list[float]()

    def full_for_a_moment(*file: Any, **how: Any) -> None:
        if len(slept) < 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(*file, **how)

    monkeypatch.setattr(folder, "write_whole", full_for_a_moment)
    monkeypatch.setattr(folder.time, "sleep", slept.append)
    monkeypatch.setenv(JOB_VARIABLE, str(tmp_path))
    with telling_how_it_ends():
        pass
    ending = JobFolder(tmp_path).ending()
    assert ending is not None and ending.exit_code == 0 and len(slept) == 2


def test_a_disk_that_stays_full_keeps_no_job_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folder, "write_whole", full)
    monkeypatch.setattr(folder.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(folder.time, "sleep", lambda s: now_s.__setitem__(0, now_s[0] + s))
    JobFolder(tmp_path).write_ending(JobEnding(0, 1))
    assert now_s[0] == 1000.0 + folder.ROOM_WITHIN_S


def test_what_takes_long_to_write_is_written_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, written = [1000.0], []

    def take_40_ms(_: JobFolder, progress: JobProgress) -> None:
        now_s[0] += 0.04
        written.append(progress)

    monkeypatch.setattr(JobFolder, "write_progress", take_40_ms)
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now_s[0])
    writer = ProgressWriter(JobFolder(tmp_path))
    for _ in range(400):
        writer.step(0, 2, "a cell", 0.5)
        now_s[0] += 0.05

    assert len(written) == 5, "of 20 s once in four"
    writer.note("what is new waits for nothing")
    assert len(written) == 6
