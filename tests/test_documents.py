"""What the documents point to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(document: Path) -> None:
    places = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
    own = [place for place in places if not place.startswith("http")]
    assert [place for place in own if not (document.parent / place).exists()] == []


def test_every_picture_is_shown_somewhere() -> None:
    shown = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    assert [path.name for path in (ROOT / "docs" / "images").glob("*.png") if path.name not in shown] == []


def test_the_page_of_the_errors_is_up_to_date() -> None:
    printed = subprocess.run(
        [sys.executable, ROOT / "docs" / "reference" / "errors.py"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8") == printed, "run: make docs"


def test_the_errors_say_that_wrong_outputs_end_a_command_as_failures_do() -> None:
    rows = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8").splitlines()
    rule = next(row for row in rows if row.startswith("| 1 |"))
    assert "≠" in rule
    assert [name for name in ("run", "rerun", "resume", "ladder", "compare") if f"`{name}`" not in rule] == []
    assert "jobs" in rule and "`--json`" in rule and "last line" in rule
