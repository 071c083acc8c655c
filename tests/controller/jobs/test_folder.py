"""A job's process is known by its number and its start, also where there is no /proc, as on macOS."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.jobs import control, folder
from enginebench_controller.jobs.folder import JobFolder, JobOrder, ProcessIdentity, identify
from enginebench_controller.jobs.record import JobState


@pytest.fixture(autouse=True)
def _without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ps` of this machine still tells, as that of macOS does, which needs no /proc either."""
    monkeypatch.setattr(folder, "_PROC", tmp_path / "proc")


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def seen(child: "subprocess.Popen[bytes]") -> ProcessIdentity:
    found = identify(child.pid)
    assert found is not None
    return found


def test_one_that_runs_is_alive_until_it_ends(child: "subprocess.Popen[bytes]", seen: ProcessIdentity) -> None:
    assert seen.is_alive and identify(child.pid) == seen
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not seen.is_alive, "it only waits to be reaped"
    child.wait()
    assert identify(child.pid) is None and not seen.is_alive


def test_another_with_its_number_is_not_it(seen: ProcessIdentity, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not replace(seen, boot_id="Sun Nov 1 12:00:00 2020").is_alive
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert seen.is_alive, "whoever looks, and from where"


def test_where_ps_tells_nothing_the_number_alone_says_it(
    child: "subprocess.Popen[bytes]", seen: ProcessIdentity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        blind = identify(child.pid)
        assert blind is not None and blind.is_alive and seen.is_alive
    assert blind.is_alive, "as of a job that was started where nobody could ask ps"
    child.kill()
    child.wait()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not blind.is_alive and not seen.is_alive


def test_a_job_that_runs_is_neither_lost_nor_removed_and_can_be_cancelled(
    child: "subprocess.Popen[bytes]", seen: ProcessIdentity, tmp_path: Path
) -> None:
    home, kept = Home(tmp_path), JobFolder(tmp_path / "jobs" / "a")
    kept.path.mkdir(parents=True)
    kept.write_order(JobOrder("a job", ("run",), 0))
    kept.write_process(seen)
    one = control.job(home, "a")
    assert one.state is JobState.QUEUED
    with pytest.raises(InputError, match="cancel it first"):
        control.remove(one)
    control.cancel(one)
    assert child.wait(10) != 0
    assert control.job(home, "a").state is JobState.CANCELLED


def test_the_own_process_is_known() -> None:
    program = "import os; from enginebench_controller.jobs import folder; from pathlib import Path; "
    program += "folder._PROC = Path('none'); print(folder.identify(os.getpid()).is_alive)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "True\n"
