"""Commands of the pages that are typed for other machines: as they stand there, done to something smaller."""

import re
import shlex
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from enginebench_agent.data_folder import DataFolder

DOCS = Path(__file__).parents[2] / "docs"


def commands(page: str, pattern: str) -> list[str]:
    """What a page shows to be typed, of lines like this pattern."""
    return re.findall(rf"^    {pattern}$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)


def packed(folder: Path, build: str) -> Path:
    """A wheel of a build; all have one version, as ours have between two releases."""
    folder.mkdir()
    wheel, info = folder / "enginebench-0.1.0-py3-none-any.whl", "enginebench-0.1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("enginebench.py", f"BUILD = {build!r}\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: enginebench\nVersion: 0.1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.mark.slow
def test_an_upgrade_installs_another_build_of_the_same_version(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = [sys.executable, "-P", "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(packed(tmp_path / "old", "old"))], check=True, capture_output=True)

    new = packed(tmp_path / "new", "new")
    typed = commands("guide/edge.md", r"sudo /opt/enginebench/bin/pip (.*/tmp/enginebench-NEW\.whl.*)")
    for words in typed:
        asked = shlex.split(words.replace("/tmp/enginebench-NEW.whl", str(new)))
        subprocess.run([*pip, *asked], check=True, capture_output=True)

    asked = [python, "-c", "import enginebench; print(enginebench.BUILD)"]
    told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert told == "new\n", typed


AWAY = """
ssh() { (cd away && "${@:2}"); }
scp() { cp "${@:1:2}" "away/${3#*:}"; }
"""
"""The machine over there is a folder here."""


def test_the_files_of_a_machine_that_had_no_agent_are_copied_to_where_its_agent_looks(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "nuc-files").mkdir()
    (tmp_path / "nuc-files" / "agent.key").touch()
    typed = commands("reference/security.md", r"(?:ssh|scp) .*(?<!serve --host 0\.0\.0\.0)")
    subprocess.run(["bash", "-ec", "\n".join([AWAY, *typed])], cwd=tmp_path, check=True, capture_output=True)
    folder = DataFolder(tmp_path / "away" / ".local" / "share" / "enginebench" / "agent")
    assert (folder.tls / "agent.key").exists()
    assert folder.root.stat().st_mode & 0o777 == 0o700, "as the agent makes it"
