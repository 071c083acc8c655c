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
    """Also where both failed in one run: else the second one would pass for both. What then passes is forgotten."""
    here = Path(__file__).parent
    shutil.copy(here / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = xdist_group\n")
    (tmp_path / "test_alone.py").write_text(
        "import os\nimport pytest\n\n\n@pytest.mark.parametrize('x', ['a@b'])\n"
        "def test_one(x) -> None:\n    assert os.path.exists('mended')\n"
    )
    (tmp_path / "test_group.py").write_text(
        "import os\nimport pytest\n\n\n@pytest.fixture(scope='module')\n"
        "def made():\n    assert os.path.exists('mended')\n\n\n"
        "def test_two(made) -> None:\n    pass\n"
    )

    def said(*more: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "1", "--dist", "loadgroup", *more],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(here)},
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    once_more = ("--last-failed", "--last-failed-no-failures", "none")
    assert "1 failed, 1 error" in said()
    assert "1 failed, 1 error" in said(*once_more)
    (tmp_path / "mended").touch()
    assert "2 passed" in said(*once_more)
    assert "passed" not in said(*once_more)


def test_others_are_none(request: pytest.FixtureRequest) -> None:
    assert list(request.node.iter_markers("xdist_group")) == []
