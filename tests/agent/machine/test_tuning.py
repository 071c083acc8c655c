"""Tuning sets what can be set, keeps what was there before, and puts it back."""

import json
import os
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from agent_process import Client, run_command
from machine import CPU, write, write_policies

from agent_server import AgentProcess
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import SetupError
from enginebench_agent.machine.tuning import RECORD, pending, tune, undo
from enginebench_proto.v1 import agent_pb2

GOVERNORS = [f"{CPU}/cpufreq/policy{number}/scaling_governor" for number in (0, 1)]
NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
BOOST = f"{CPU}/cpufreq/boost"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A laptop with Intel's driver: governor powersave, turbo on, and a bias towards saving power."""
    root = tmp_path / "machine"
    write_policies(root)
    write(root, NO_TURBO, 0)
    for number in (0, 1):
        write(root, f"{CPU}/cpufreq/policy{number}/energy_performance_preference", "balance_power")
        write(root, f"{CPU}/cpufreq/policy{number}/energy_performance_available_preferences", "default performance")
        write(root, f"{CPU}/cpu{number}/power/energy_perf_bias", 6)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "home" / "agent")


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text().strip() for path in root.rglob("*") if path.is_file()}


def test_everything_that_can_be_set_is_set(root: Path, folder: DataFolder) -> None:
    before = contents(root)
    changed = tune(folder, root)
    after = contents(root)
    assert {name: after[name] for name in before if before[name] != after[name]} == {
        NO_TURBO: "1",
        **dict.fromkeys(GOVERNORS, "performance"),
        **{f"{CPU}/cpufreq/policy{number}/energy_performance_preference": "performance" for number in (0, 1)},
        **{f"{CPU}/cpu{number}/power/energy_perf_bias": "0" for number in (0, 1)},
    }
    assert len(changed) == 7


def test_the_other_driver_has_another_switch_for_turbo(tmp_path: Path, folder: DataFolder) -> None:
    write(tmp_path, BOOST, 1)
    tune(folder, tmp_path)
    assert (tmp_path / BOOST).read_text() == "0"


def test_undo_restores_every_file_and_forgets_the_record(root: Path, folder: DataFolder) -> None:
    before = contents(root)
    tune(folder, root)
    assert len(undo(folder, root)) == 7
    assert contents(root) == before
    assert not (folder.root / RECORD).exists()
    assert undo(folder, root) == []


def test_a_second_tuning_keeps_the_first_originals(root: Path, folder: DataFolder) -> None:
    before = contents(root)
    tune(folder, root)
    write(root, GOVERNORS[0], "schedutil")  # something else set it meanwhile
    assert [setting.before for setting in tune(folder, root)] == ["schedutil"]
    assert tune(folder, root) == []
    undo(folder, root)
    assert contents(root) == before


def test_what_is_set_already_is_neither_touched_nor_recorded(root: Path, folder: DataFolder) -> None:
    write(root, GOVERNORS[0], "performance")
    tune(folder, root)
    assert GOVERNORS[0] not in (folder.root / RECORD).read_text()
    undo(folder, root)
    assert (root / GOVERNORS[0]).read_text().strip() == "performance"


def test_a_governor_the_kernel_does_not_offer_is_not_asked_for(root: Path) -> None:
    write(root, f"{CPU}/cpufreq/policy0/scaling_available_governors", "powersave userspace")
    assert GOVERNORS[0] not in {setting.path.removeprefix("/") for setting in pending(root)}


def test_a_machine_that_lets_nothing_be_set_is_left_alone(tmp_path: Path, folder: DataFolder) -> None:
    assert tune(folder, tmp_path) == []
    assert not folder.root.exists()


def test_where_one_file_may_not_be_written_nothing_is_changed(
    root: Path, folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, access = contents(root), os.access
    # Root, who runs tests in containers, may write everything.
    monkeypatch.setattr(os, "access", lambda path, mode: "scaling_governor" not in str(path) and access(path, mode))
    with pytest.raises(
        SetupError, match=f"may not write /{GOVERNORS[0]} and 1 more, so nothing was changed: run `sudo"
    ):
        tune(folder, root)
    assert contents(root) == before
    assert not folder.root.exists()


@pytest.mark.slow
def test_the_line_that_a_refusal_gives_is_found_under_sudo_and_keeps_its_record_with_the_user(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo` has a PATH and a home of its own: neither leads to an agent in a user's folder, or to its data."""
    folder = DataFolder(tmp_path / "a home" / "agent")
    with monkeypatch.context() as patched, pytest.raises(SetupError) as refused:
        patched.setattr(os, "access", lambda *_: False)
        tune(folder, root)
    (line,) = re.findall(r"run `sudo (.*)`$", str(refused.value))
    as_root = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path / "root")}
    done = subprocess.run(
        [*shlex.split(line), "--root", root], env=as_root, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "The same with `--undo` puts it back."
    assert (folder.root / RECORD).exists()


def refuse_writing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the kernel refuse, as firmware that keeps control of a setting makes it do."""
    opened = os.open

    def open_unless(path: Path, flags: int, *arguments: int, **named: int) -> int:
        if flags & os.O_WRONLY and str(path).endswith(name):
            raise PermissionError(1, "Operation not permitted")
        return opened(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", open_unless)


def test_a_refusal_half_way_changes_nothing_more_and_what_was_changed_can_be_undone(
    root: Path, folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(root)
    with monkeypatch.context() as patched:
        refuse_writing(patched, "policy0/scaling_governor")
        with pytest.raises(SetupError, match=r"policy0/scaling_governor to performance .*: 5 settings before it"):
            tune(folder, root)
    assert (root / GOVERNORS[1]).read_text().strip() == "powersave"
    assert len(json.loads((folder.root / RECORD).read_text())["settings"]) == 5
    undo(folder, root)
    assert contents(root) == before


def test_what_cannot_be_restored_stays_recorded(
    root: Path, folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(root)
    tune(folder, root)
    with monkeypatch.context() as patched:
        refuse_writing(patched, "no_turbo")
        with pytest.raises(SetupError, match=f"could not restore /{NO_TURBO} to 0"):
            undo(folder, root)
    assert contents(root) == before | {NO_TURBO: "1"}
    assert [setting.path for setting in undo(folder, root)] == [f"/{NO_TURBO}"]


def test_a_processor_that_is_gone_is_passed_over(root: Path, folder: DataFolder) -> None:
    tune(folder, root)
    (root / GOVERNORS[1]).unlink()
    assert len(undo(folder, root)) == 6
    assert not (folder.root / RECORD).exists()


def test_a_record_cannot_make_undo_write_anything_else(root: Path, folder: DataFolder) -> None:
    write(root, "etc/passwd", "root")
    planted = {"name": "x", "path": "/etc/passwd", "before": "mallory", "after": "root"}
    write(folder.root, RECORD, json.dumps({"settings": [planted]}))
    assert undo(folder, root) == []
    assert (root / "etc/passwd").read_text() == "root\n"


def test_the_record_can_be_read_by_the_agent_of_a_user(root: Path, folder: DataFolder) -> None:
    tune(folder, root)
    assert stat.S_IMODE((folder.root / RECORD).stat().st_mode) == 0o644


def test_a_record_that_cannot_be_read_is_named(root: Path, folder: DataFolder) -> None:
    write(folder.root, RECORD, '{"settings": [{}]}')
    for action in (tune, undo):
        with pytest.raises(SetupError, match=f"cannot read the record of what was tuned, {folder.root / RECORD}"):
            action(folder, root)
    assert "performance" not in (root / GOVERNORS[0]).read_text()


@pytest.mark.slow
def test_the_command_line_shows_tunes_and_undoes(root: Path, folder: DataFolder) -> None:
    before = contents(root)
    command = ("tune", "--root", str(root), "--data-dir", str(folder.root))
    shown = run_command(*command, "--dry-run")
    assert shown.stdout.splitlines()[0] == "no_turbo: 0 -> 1"
    assert contents(root) == before
    tuned_now = json.loads(run_command(*command, "--json").stdout)
    assert len(tuned_now["changed"]) == len(tuned_now["in_effect"]) == 7
    assert run_command(*command).stdout == "Everything that can be set is set already.\n"
    assert "governor of policy1: performance -> powersave" in run_command(*command, "--undo").stdout
    assert contents(root) == before
    assert run_command(*command, "--undo").stdout == "Nothing was tuned, so there is nothing to undo.\n"


def test_a_virtual_machine_is_told_that_nothing_can_be_set(tmp_path: Path, folder: DataFolder) -> None:
    shown = run_command("tune", "--root", str(tmp_path), "--data-dir", str(folder.root))
    assert (shown.returncode, shown.stdout.startswith("This machine lets nothing be set")) == (0, True)


async def test_an_agent_tells_what_was_tuned(agent: AgentProcess, client: Client) -> None:
    # A file of this very machine that says the same everywhere stands in for a setting: a test must not tune.
    held = {"name": "ostype", "path": "/proc/sys/kernel/ostype", "before": "Minix", "after": "Linux"}
    write(agent.data_dir, RECORD, json.dumps({"settings": [held]}))
    host = (await client.agent.GetHost(agent_pb2.GetHostRequest())).host
    assert list(host.tuned) == ["ostype: Linux (was Minix)"]
