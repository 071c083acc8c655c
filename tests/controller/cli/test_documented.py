"""Every command, exit code and top-level key that the documents promise exists, and the other way round."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from enginebench_controller.cli import make_app
from enginebench_controller.errors import ExitCode

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_in_a_document_exists(document: Path) -> None:
    root = typer.main.get_command(make_app())
    for line in re.findall(r"^ {4}enginebench (.+)$", document.read_text(encoding="utf-8"), re.M):
        words = shlex.split(line, comments=True)
        command = root
        for word in words:
            command = getattr(command, "commands", {}).get(word, command)
        assert not hasattr(command, "commands"), line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def _commands(group: Any, before: str = "") -> dict[str, Any]:
    """The commands below a group, and below the groups in it, by the words that call them."""
    found = {}
    for name, command in group.commands.items():
        words = f"{before} {name}".strip()
        found |= _commands(command, words) if hasattr(command, "commands") else {words: command}
    return found


def test_every_command_is_documented_and_nothing_else() -> None:
    rows = re.findall(r"^\| `enginebench ([^`]+)` \|", DOCUMENT, re.M)
    documented = {" ".join(word for word in row.split() if word.islower()) for row in rows}
    assert documented == set(_commands(typer.main.get_command(make_app())))


def test_every_exit_code_is_documented() -> None:
    of_enginebench = ERRORS.split("## ")[1]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", of_enginebench, re.M)}
    assert codes == {int(code) for code in ExitCode} | {130}


def test_every_command_and_option_has_a_help_text() -> None:
    silent = []
    for name, command in _commands(typer.main.get_command(make_app())).items():
        silent += [name] if not command.help else []
        silent += [f"{name} {p.name}" for p in command.params if not getattr(p, "help", None)]
    assert not silent
