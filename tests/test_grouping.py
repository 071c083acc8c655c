"""What a module makes for its tests is made once, also where several processes share the tests: see conftest.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def made() -> str:
    return "once"


def test_tests_that_share_what_their_module_makes_are_one_group(request: pytest.FixtureRequest, made: str) -> None:
    marks = [mark.args for mark in request.node.iter_markers("xdist_group")]
    assert marks == [("tests/test_grouping.py",)]
    if getattr(request.config.option, "loadgroup", False):  # as one of several processes
        assert request.node.nodeid.endswith("@tests/test_grouping.py"), "xdist has read the marks before they were set"


@pytest.mark.slow
def test_what_failed_is_run_once_more_whether_it_was_of_a_group_or_not(tmp_path: Path) -> None:
    """Also where both failed in one run: else the second one would pass for both."""
    here = Path(__file__).parent
    shutil.copy(here / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = xdist_group\n")
    (tmp_path / "test_alone.py").write_text("def test_one() -> None:\n    assert False\n")
    (tmp_path / "test_group.py").write_text(
        "import pytest\n\n\n@pytest.fixture(scope='module')\ndef made():\n    raise OSError\n\n\n"
        "def test_two(made) -> None:\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "--dist", "loadgroup"]
    found = [
        subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(here)},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for more in ((), ("--last-failed", "--last-failed-no-failures", "none"))
    ]
    assert ["1 failed, 1 error" in said for said in found] == [True, True], found


def test_others_are_none(request: pytest.FixtureRequest) -> None:
    assert list(request.node.iter_markers("xdist_group")) == []
