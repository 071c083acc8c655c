"""`enginebench-agent` where output cannot be written, a folder is somebody else's, or no Linux runs: a sentence."""

import ctypes
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from enginebench_agent import cli

pytestmark = pytest.mark.slow

SAYING = ("environment list", "environment list --json", "tune --dry-run --json", "service unit", "health --help")


def ended(words: str, around: str, folder: Path) -> tuple[int, str]:
    """How a command line ends behind which a shell leads its output somewhere: the code, and what it complained."""
    line = around.format(f"{shlex.quote(sys.executable)} -m enginebench_agent {words}")
    environment = os.environ | {"ENGINEBENCH_AGENT_HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", SAYING)
@pytest.mark.parametrize("around", ["{} | sleep 0; exit ${{PIPESTATUS[0]}}", "{} >&-"])
def test_a_reader_that_has_gone_changes_nothing(words: str, around: str, tmp_path: Path) -> None:
    assert ended(words, around, tmp_path) == (0, "")


@pytest.mark.parametrize("words", SAYING[:-1])
def test_a_full_disk_is_a_sentence(words: str, tmp_path: Path) -> None:
    code, told = ended(words, "{} >/dev/full", tmp_path)
    assert code == 2
    assert told.startswith("enginebench-agent: cannot use standard output (No space left on device)")
    assert len(told.splitlines()) == 1


def test_complaints_that_nobody_reads_change_nothing(tmp_path: Path) -> None:
    assert ended("environment remove nothing", "{} 2>/dev/full", tmp_path) == (2, "")


@pytest.mark.parametrize("words", ["environment remove mine", "environment add mine --package it"])
def test_a_folder_that_is_somebody_elses_is_a_sentence_that_names_it(words: str, tmp_path: Path) -> None:
    (folder := tmp_path / "environments").mkdir(mode=0o000)
    done = subprocess.run(
        [sys.executable, "-m", "enginebench_agent", *words.split()],
        env=os.environ | {"ENGINEBENCH_AGENT_HOME": str(tmp_path)},
        preexec_fn=heed_modes,
        capture_output=True,
        text=True,
        check=False,
    )
    folder.chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert str(folder) in done.stderr and "Permission denied" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", ["serve", "serve --exit-with-stdin", "tune", "tune --dry-run"])
def test_an_agent_elsewhere_than_on_linux_says_so_before_anything_else(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(SystemExit) as ended:
        cli.main([*words.split(), "--data-dir", str(tmp_path / "data")])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told == (
        "enginebench-agent: agents run on Linux, and this is macOS: start one on the machine that is to be measured, "
        "with `enginebench targets bootstrap USER@HOST` from here\n"
    )
    assert not list(tmp_path.iterdir())


def heed_modes() -> None:
    """Let root, for whom modes of files are nothing otherwise, be kept out of what others are kept out of."""
    drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
    prctl = ctypes.CDLL(None).prctl
    prctl(drop_from_bounding_set, dac_override)
    prctl(drop_from_bounding_set, dac_read_search)
