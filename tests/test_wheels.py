"""The base installs on small boards: every package it needs has a wheel for them, so that nothing is compiled there."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BASE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
ARCHITECTURES = {
    "aarch64": ("manylinux2014", "manylinux_2_17", "manylinux_2_28"),
    "armv7l": ("manylinux2014", "manylinux_2_17", "manylinux_2_31", "manylinux_2_35", "linux"),
}


@pytest.mark.parametrize("python", ["3.11", "3.13"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_base_resolves_to_wheels_alone(tmp_path: Path, architecture: str, python: str) -> None:
    platforms = [f"--platform={tag}_{architecture}" for tag in ARCHITECTURES[architecture]]
    foreign = ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", *platforms]
    report = tmp_path / "report.json"
    plan = ["--dry-run", "--ignore-installed", f"--target={tmp_path / 'nowhere'}", f"--report={report}"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *plan, *foreign, *BASE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = [item["download_info"]["url"].rpartition("/")[2] for item in json.loads(report.read_text())["install"]]
    assert all(file.endswith(".whl") for file in files), files
    assert any(file.startswith("grpcio-") and architecture in file for file in files), files
