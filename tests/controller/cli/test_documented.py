"""Every command, exit code and top-level key that the documents promise exists, and the other way round."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from enginebench_controller.cli import app
from enginebench_controller.errors import ExitCode

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_in_a_document_exists(document: Path) -> None:
    root = typer.main.get_command(app)
    for line in re.findall(r"^ {4}enginebench (.+)$", document.read_text(encoding="utf-8"), re.M):
        words = shlex.split(line, comments=True)
        command = root.commands[words[0]]  # type: ignore[attr-defined]  # a group, as the application is one
        command = getattr(command, "commands", {}).get(words[1] if len(words) > 1 else "", command)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def _commands() -> set[str]:
    root = typer.main.get_command(app)
    names = set()
    for name, command in root.commands.items():  # type: ignore[attr-defined]  # a group, as the application is one
        names |= {f"{name} {sub}" for sub in getattr(command, "commands", {})} or {name}
    return names


def test_every_command_is_documented_and_nothing_else() -> None:
    rows = re.findall(r"^\| `enginebench ([^`]+)` \|", DOCUMENT, re.M)
    documented = {" ".join(word for word in row.split() if word.islower()) for row in rows}
    assert documented == _commands()


def test_every_exit_code_is_documented() -> None:
    of_enginebench = ERRORS.split("## ")[1]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", of_enginebench, re.M)}
    assert codes == {int(code) for code in ExitCode} | {130}


def test_every_command_and_option_has_a_help_text() -> None:
    root = typer.main.get_command(app)
    silent = []
    for name, command in root.commands.items():  # type: ignore[attr-defined]  # a group, as the application is one
        for sub_name, sub in (getattr(command, "commands", None) or {name: command}).items():
            silent += [sub_name] if not sub.help else []
            silent += [f"{sub_name} {p.name}" for p in sub.params if not getattr(p, "help", None)]
    assert not silent
