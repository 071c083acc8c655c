"""Where output goes: data to stdout, remarks to stderr, answers, the last line; names from elsewhere made harmless."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from enginebench_controller.errors import ExitCode
from enginebench_controller.home import JOB_VARIABLE

if TYPE_CHECKING:  # both bring NumPy and SciPy, and most commands need neither
    from enginebench_controller.verdicts.answers import Answer
    from enginebench_controller.verdicts.soundness import Soundness

UNKNOWN = "–"
"""How an unknown value is printed."""

WIDE_COLUMNS = 200
"""Width of tables when the output is not a terminal, so that nothing is cut off."""


def stdout() -> Console:
    """The console for data."""
    return Console(width=None if sys.stdout.isatty() else WIDE_COLUMNS, highlight=False)


def stderr() -> Console:
    """The console for progress and remarks."""
    return Console(stderr=True, highlight=False)


def plain(value: object) -> Text:
    """Text without markup or control characters: layer, model and target names are other people's."""
    return Text("".join(c if c.isprintable() else "�" for c in str(value)))


def without_marks(text: str) -> str:
    """Advice as a terminal shows it: its commands stand between backticks for pages, and a shell would run those."""
    return text.replace("`", "")


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_export(text: str | None, output: Path | None) -> None:
    """An export on stdout, or, where there is no text, a remark on the file that it went to."""
    if text is None:
        remark(f"wrote {output}")
    else:
        typer.echo(text, nl=False)


def print_table(title: str, columns: list[tuple[str, bool]], rows: list[list[object]]) -> None:
    """A table on stdout; each column is a heading and whether it holds numbers. Title and headings are plain text."""
    caption = plain(title)
    caption.stylize("table.title")
    table = Table(title=caption, title_justify="left", header_style="bold")
    for heading, is_number in columns:
        table.add_column(plain(heading), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row))
    stdout().print(table)


def remark(text: str) -> None:
    """A remark on stderr."""
    stderr().print(plain(text), soft_wrap=True)


def confirmed(question: str) -> bool:
    """Whether the person says yes to a question on stderr."""
    return typer.confirm(plain(question).plain, err=True)


def complain(text: str) -> None:
    """An error sentence on stderr."""
    lines = text.splitlines() or [""]
    message = Text("error: ", style="bold red") + plain(lines[0])
    stderr().print(message, soft_wrap=True)
    for line in lines[1:]:
        remark(line)


def concluded(found: "Soundness") -> int:
    """0 when all can be used; else 1, and the last line says what cannot. A job tells it, too."""
    if JOB_VARIABLE in os.environ:
        from enginebench_controller.jobs.telling import tell_wrong_outputs  # noqa: PLC0415  # it loads much

        tell_wrong_outputs(found.problems)
    if found:
        return int(ExitCode.OK)
    remark(found.sentence)
    return int(ExitCode.SOME_FAILED)


def print_answers(answers: "Iterable[Answer]") -> None:
    """The sentences that a person came for, each with what must not be missed."""
    for answer in answers:
        first, *others = answer.lines
        text = plain(first)
        text.stylize("bold")
        stdout().print(text, soft_wrap=True)
        for line in others:
            stdout().print(plain(f"  {line}"), soft_wrap=True)
