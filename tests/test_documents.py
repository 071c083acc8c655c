"""What the documents point to is there."""

import importlib
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from enginebench_agent.cli import parser
from enginebench_controller.cli import make_app

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


def slug(heading: str) -> str:
    """What GitHub calls the place of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_a_heading_lead_to_one(document: Path) -> None:
    places = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", document.read_text(encoding="utf-8"))
    wanted = [(document.parent / name if name else document, place) for name, place in places if "://" not in name]
    assert [(path.name, place) for path, place in wanted if place not in places_of(path)] == []


def places_of(document: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"(?m)^#+ (.+)$", document.read_text(encoding="utf-8"))}


PRINTED = re.compile(r"<!-- ([\w-]+) -->.*?<!-- /\1 -->", re.S)
PRINTED_WHOLE = {"docs/evidence/faults.md", "docs/reference/tables.md", "docs/reference/errors.md"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_person_wrote_can_be_read_in_one_go(document: Path) -> None:
    if str(document.relative_to(ROOT)) not in PRINTED_WHOLE:
        written = PRINTED.sub("", document.read_text(encoding="utf-8"))
        assert len(written.splitlines()) <= 300


MADE = ("benchmarks/results", "docs/images")
"""Folders whose content is made where it is wanted."""
ROOMS = ("agent", "benchmarks", "controller", "docs", "enginebench", "plugins", "proto", "tests", "ui")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_are_there(document: Path) -> None:
    if document.name == "CHANGELOG.md":  # it tells of what was
        return
    named = re.findall(rf"(?<![\w/.])((?:{'|'.join(ROOMS)})/[\w./-]*\w)", document.read_text(encoding="utf-8"))
    kept = [name for name in named if not name.startswith(MADE)]
    bases = (ROOT, ROOT / "tests", document.parent)
    assert [name for name in kept if not any((base / name).exists() for base in bases)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_ours_exist(document: Path) -> None:
    if document.name == "CHANGELOG.md" or document.parent.name == "evidence":  # they tell of what was
        return
    text = document.read_text(encoding="utf-8")
    dotted = re.findall(r"\benginebench_(?:agent|controller|plugins|proto|ui)(?:\.\w+)+", text)
    dotted += re.findall(r"-m (benchmarks(?:\.\w+)*)", text)
    assert [name for name in dict.fromkeys(dotted) if not exists(name)] == []
    makes = re.findall(r"(?m)`make ([a-z-]+)|^ {4}make ([a-z-]+)", text)
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {one or other for one, other in makes} <= set(targets)


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.removesuffix(".py").split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found is not None
    return False


COMMAND = re.compile(r"(?m)^(?: {4}|\$ )(?:sudo (?:-u \S+ )?|[A-Z_]+=\S+ )*(?:\S*/)?(enginebench(?:-agent)?) (.*)$")
SHELL = re.compile(r"[;|&>]|\d?>&?\d?")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_are_shown_have_the_options_they_are_shown_with(document: Path) -> None:
    if document.name == "CHANGELOG.md" or document.parent.name == "evidence":  # they tell of what was
        return
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    assert [f"{program} {words}" for program, words in COMMAND.findall(text) if not is_known(program, words)] == []


def is_known(program: str, line: str) -> bool:
    """Whether a command has all the options that stand in a line."""
    words = []
    for word in shlex.split(re.sub(r"[][]|  #.*", "", line)):
        if SHELL.match(word):
            break
        words.append(word.rstrip(";"))
        if word.endswith(";"):
            break
    if program == "enginebench-agent":
        return options_of_the_agent(words)
    command = command_line()
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    known = {"--help", "-h", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
    asked = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return asked <= known and not (hasattr(command, "commands") and words and not words[0].startswith("-"))


@cache
def command_line() -> Any:
    """All commands; their classes are typer's own copies of click's."""
    return typer.main.get_command(make_app())


def options_of_the_agent(words: list[str]) -> bool:
    try:
        return not parser().parse_known_args(words)[1]
    except SystemExit:
        return False


def test_an_option_that_there_is_not_is_seen() -> None:
    assert is_known("enginebench", "run zoo:squeezenet --batch 1,4; echo done")
    assert not is_known("enginebench", "run zoo:squeezenet --batches 1,4")
    assert not is_known("enginebench", "models improve zoo:squeezenet")
    assert is_known("enginebench-agent", "environment add old --engine onnxruntime==1.20.1")
    assert not is_known("enginebench-agent", "environment add old --motor onnxruntime")
