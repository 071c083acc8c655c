"""The data folder: which it is, and on what it lies, which the kernel tells in bytes."""

import contextlib
import os
import pwd
import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

from enginebench_agent.cli import parser
from enginebench_agent.data_folder import DataFolder, _file_system, default_root
from enginebench_agent.errors import SetupError

TABLE = (
    b"/dev/sda1 / ext4 rw,relatime 0 0\n"
    b"tmpfs /run tmpfs rw 0 0\n"
    b"/dev/sdb1 /run/media/Gr\xc3\xb6\xc3\x9fe vfat rw 0 0\n"
    b"/dev/sdc1 /run/media/Gr\xf6\xdfe vfat rw 0 0\n"
    b"/dev/sdd1 /run/media/my\\040disk\\134\\011 exfat rw 0 0\n"
    b"/dev/sde1 /run/media/a\rb xfs rw 0 0\n"
)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/me", "ext4"),
        ("/run/media", "tmpfs"),
        ("/run/media/Größe/agent", "vfat"),
        ("/run/media/Gr\udcf6\udcdfe/agent", "vfat"),
        ("/run/media/my disk\\\t/agent", "exfat"),
        ("/run/media/a\rb", "xfs"),
    ],
)
def test_a_disk_is_found_whatever_the_places_of_disks_are_called(tmp_path: Path, place: str, kind: str) -> None:
    (table := tmp_path / "mounts").write_bytes(TABLE)
    assert _file_system(Path(place), table) == kind


@pytest.mark.parametrize(("is_seen", "kind"), [(True, "tmpfs"), (False, "overlay")])
def test_an_overlay_is_what_is_written_into_it_goes_to(tmp_path: Path, is_seen: bool, kind: str) -> None:
    """As on a board whose disk is only read; a container does not see the folder, which is its host's."""
    upper = tmp_path / "root rw" / "overlay"
    if is_seen:
        upper.mkdir(parents=True)
    written = str(upper).replace(" ", "\\040")
    (table := tmp_path / "mounts").write_text(
        "/dev/mmcblk0p2 /media/root-ro ext4 ro,relatime 0 0\n"
        f"tmpfs-root {written.removesuffix('/overlay')} tmpfs rw 0 0\n"
        f"overlayroot / overlay rw,lowerdir=/media/root-ro,upperdir={written},workdir=/work 0 0\n"
        "/dev/sda1 /data ext4 rw 0 0\n"
    )
    assert _file_system(Path("/home/pi"), table) == kind
    assert _file_system(Path("/data/agent"), table) == "ext4"


def test_where_the_kernel_tells_nothing_no_folder_counts_as_in_memory(tmp_path: Path) -> None:
    assert _file_system(tmp_path, tmp_path / "none") == ""


def test_a_home_may_be_one_that_no_shell_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a unit of systemd; a controller expands it, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ENGINEBENCH_AGENT_HOME", raising=False)
    monkeypatch.setenv("ENGINEBENCH_HOME", "~/bench")
    assert default_root() == tmp_path / "bench" / "agent"
    monkeypatch.setenv("ENGINEBENCH_AGENT_HOME", "~/own")
    assert default_root() == tmp_path / "own"
    assert parser().parse_args(["environment", "list", "--data-dir=~/given"]).data_dir == tmp_path / "given"


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process's account is one of a container's, say: no HOME, and in no list of accounts."""

    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    for variable in ("HOME", "XDG_DATA_HOME", "ENGINEBENCH_HOME", "ENGINEBENCH_AGENT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_what_needs_no_folder_is_done_without_a_home(tmp_path: Path) -> None:
    assert parser().parse_args(["health"]).address
    listing = parser().parse_args(["environment", "list", "--json", "--data-dir", str(tmp_path)])
    listing.run(listing)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_it_is_said_which_folder_to_name() -> None:
    listing = parser().parse_args(["environment", "list"])
    with pytest.raises(SetupError, match=r"set ENGINEBENCH_AGENT_HOME .* --data-dir"):
        listing.run(listing)


def test_an_agent_of_a_command_waits_for_the_one_that_a_killed_command_has_left(tmp_path: Path) -> None:
    folder, left = DataFolder(tmp_path), contextlib.ExitStack()
    left.enter_context(folder.locked(with_stdin=True))
    threading.Timer(0.3, left.close).start()  # it has ended what it had under way
    with folder.locked(with_stdin=True):
        assert (tmp_path / "agent.lock").read_text().split()[0] == str(os.getpid())


@pytest.mark.parametrize(("is_there", "comes"), [(False, True), (True, False), (False, False)])
def test_no_agent_waits_for_one_that_stays_nor_does_one_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, comes: bool
) -> None:
    def wait(seconds: float) -> NoReturn:
        raise AssertionError(f"it waits {seconds} s")

    monkeypatch.setattr(time, "sleep", wait)
    folder = DataFolder(tmp_path)
    refused = pytest.raises(SetupError, match=rf"another agent \(process {os.getpid()}\) uses")
    with folder.locked(with_stdin=is_there), refused, folder.locked(with_stdin=comes):
        raise AssertionError("both have it")
