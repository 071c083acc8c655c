"""Every command, exit code and top-level key that the documents promise exists, and the other way round."""

import re
from pathlib import Path

import typer

from enginebench_controller.cli import app
from enginebench_controller.errors import ExitCode

DOCUMENT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


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
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT, re.M)}
    assert codes == {int(code) for code in ExitCode} | {130}


def test_every_command_and_option_has_a_help_text() -> None:
    root = typer.main.get_command(app)
    silent = []
    for name, command in root.commands.items():  # type: ignore[attr-defined]  # a group, as the application is one
        for sub_name, sub in (getattr(command, "commands", None) or {name: command}).items():
            silent += [sub_name] if not sub.help else []
            silent += [f"{sub_name} {p.name}" for p in sub.params if not getattr(p, "help", None)]
    assert not silent
