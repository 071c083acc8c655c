"""`plugin new`: a distribution that works as it is, whole or not at all."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.files.plugin_project import write_plugin_project
from enginebench_plugins.spec import SPEC_VERSION


@pytest.mark.slow
def test_its_tests_pass_as_written_and_hold_it_to_the_whole_contract(tmp_path: Path) -> None:
    place = write_plugin_project("my.abacus-2", tmp_path / "abacus")
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    assert project["name"] == "enginebench-my-abacus-2"
    assert project["entry-points"]["enginebench"] == {"my.abacus-2": "enginebench_my_abacus_2.plugin"}
    plugin = (place / "src" / "enginebench_my_abacus_2" / "plugin.py").read_text()
    assert f"spec_version = {SPEC_VERSION}\n" in plugin, "a project says which contract it was begun with"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    variables = os.environ | {"PYTHONPATH": str(place / "src")}
    done = subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout and int(done.stdout.split(" passed")[0].split()[-1]) > 30


def test_it_lies_where_one_said_or_in_a_folder_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(make_app(), ["plugin", "new", "abacus"], catch_exceptions=False)
    assert done.stdout == "enginebench-abacus\n"
    assert CliRunner().invoke(make_app(), ["plugin", "new", "abacus", "--into", "there"]).stdout == "there\n"
    for folder in ("enginebench-abacus", "there"):
        files = {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}
        assert files == {
            "pyproject.toml",
            "README.md",
            "src/enginebench_abacus/__init__.py",
            "src/enginebench_abacus/plugin.py",
            "tests/test_contract.py",
        }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["enginebench-abacus", "there"]


@pytest.mark.parametrize("name", ["", "-x", "x.", "a b", "../x", "x" * 65, "ünique", "all", 'a"b', "a\nb"])
def test_a_name_that_no_engine_may_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot name an engine: use 1 to 64 letters"):
        write_plugin_project(name, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_ours_and_what_exists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'onnxruntime' is an engine of enginebench already: choose another name"):
        write_plugin_project("onnxruntime", tmp_path / "new")
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="there already: name another one with --into"):
        write_plugin_project("abacus", tmp_path / "there")
    with pytest.raises(InputError, match=r"cannot write .*: No such file"):
        write_plugin_project("abacus", tmp_path / "none" / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_what_cannot_be_written_to_its_end_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        write_plugin_project("abacus", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
