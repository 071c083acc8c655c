"""What is handed out: the same bytes from the same commit, with all that belongs in it, under the version told."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from enginebench_proto import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULE = "pytest_enginebench.py"


def built(root: Path, folder: Path, *targets: str) -> dict[str, bytes]:
    """What hatchling makes of these sources, by the ending of the name."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    options = [word for target in targets for word in ("--target", target)]
    environment = {"SOURCE_DATE_EPOCH": "1700000000", "PATH": "/usr/bin:/bin"}
    subprocess.run([*command, *options], cwd=root, env=environment, check=True, capture_output=True)
    return {path.name.rpartition(".")[2]: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return built(ROOT, tmp_path_factory.mktemp("first"))


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
def test_the_same_sources_make_the_same_bytes_also_out_of_the_source_archive(
    archives: dict[str, bytes], tmp_path: Path
) -> None:
    assert built(ROOT, tmp_path / "second") == archives
    (tmp_path / "sources.tar.gz").write_bytes(archives["gz"])
    with tarfile.open(tmp_path / "sources.tar.gz") as sources:
        sources.extractall(tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()
    assert built(root, tmp_path / "third", "wheel")["whl"] == archives["whl"]


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
def test_the_wheel_has_all_that_is_tracked_in_its_rooms_and_nothing_else(
    archives: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "one.whl").write_bytes(archives["whl"])
    names = {name for name in zipfile.ZipFile(tmp_path / "one.whl").namelist() if ".dist-info/" not in name}
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    tracked = subprocess.run(["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=True)
    assert names == {path.partition("/")[2] for path in tracked.stdout.splitlines()}
    endings = {Path(name).suffix for name in names}
    assert {".j2", ".proto", ".pyi", ".svg"} <= endings, "templates, the wire, pictures"
    rooms = {Path(package).name for package in packages} - {MODULE}
    assert {name for name in names if name.endswith("py.typed")} == {f"{room}/py.typed" for room in rooms}


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
def test_the_source_archive_has_the_rooms_and_no_tests(archives: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "one.tar.gz").write_bytes(archives["gz"])
    with tarfile.open(tmp_path / "one.tar.gz") as sources:
        tops = {name.split("/")[1] for name in sources.getnames()}
    rooms = {package.partition("/")[0] for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    files = {"pyproject.toml", "constraints.txt", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", ".gitignore"}
    assert tops == rooms | files


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"(?m)^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d|unreleased)$", text)
    assert first is not None and first[1] == __version__


def test_pytest_is_told_of_the_plugin() -> None:
    (found,) = entry_points(group="pytest11", name="enginebench")
    assert f"{found.value}.py" == MODULE
