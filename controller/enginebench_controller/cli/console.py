"""Where output goes: data to stdout, remarks to stderr, answers, the last line; names from elsewhere made harmless."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from enginebench_controller.cli.fitting import WHOLE, TableColumn, fitted, kind_of, shortened, told_apart
from enginebench_controller.errors import ExitCode, InputError, printable
from enginebench_controller.files.new_file import kept
from enginebench_controller.home import JOB_VARIABLE
from enginebench_controller.instants import zone_name
from enginebench_proto.agreed.streams import as_shown, refuse_unwritable

if TYPE_CHECKING:  # ours bring NumPy and SciPy, and most commands need neither
    from enginebench_controller.verdicts.answers import Answer
    from enginebench_controller.verdicts.soundness import Soundness

WIDE_COLUMNS = 200
"""Width of tables where none was asked for, as in a pipe: what does not fit is folded, so that nothing is lost."""

NARROWEST, WIDEST = 20, 10_000
"""Between these a width is taken at its word."""

_TIMES = frozenset({"added", "created", "since", "started"})
"""Headings over instants, which are in the reader's time zone."""

_LONGEST_SAID = 60
"""Of what all rows have in common so much is said, in terminal cells."""


def stdout() -> Console:
    """The console for data."""
    return Console(width=asked_width() or WIDE_COLUMNS, highlight=False)


def asked_width() -> int | None:
    """The columns that tables are to fit into: `COLUMNS`, else those of the terminal; None where there is neither."""
    said = os.environ.get("COLUMNS", "")
    if not sys.stdout.isatty() and not (said.isdecimal() and int(said)):
        return None
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)


def stderr() -> Console:
    """The console for progress and remarks. In a log of both streams, data printed before them stands before them.

    Variables such as FORCE_COLOR ask for colours in a log; what is drawn over again needs a terminal all the same.
    """
    sys.stdout.flush()
    return Console(stderr=True, highlight=False, force_interactive=None if sys.stderr.isatty() else False)


def plain(value: object) -> Text:
    """Text without markup or control characters: layer, model and target names are other people's."""
    return Text(printable(str(value)))


def uncut(text: str) -> Text:
    """As `plain`, for a cell that has as many lines as it needs: what differs may stand in its middle."""
    whole = plain(text)
    whole.overflow = "fold"
    return whole


def without_marks(text: str) -> str:
    """Advice as a terminal shows it: its commands stand between backticks for pages, and a shell would run those."""
    return text.replace("`", "")


def check_stdout() -> None:
    """Raises `InputError` where stdout was closed, as by `>&-`, and what a program is to read would be lost in silence.

    Tables may be: whoever closes stdout does not want to look at them.
    """
    if sys.__stdout__ is None and getattr(sys.stdout, "name", "") == os.devnull:  # which `keep_streams` put there
        raise InputError("standard output is closed, and what was asked for would be lost: send it to a file or a pipe")


def print_json(document: Any) -> None:
    """One JSON document on stdout, which `--json` has made sure of."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_export(text: str | None, output: Path | None) -> None:
    """An export on stdout, or, where there is no text, a remark on the file that it went to.

    Raises `InputError` as `check_stdout` does, and where the encoding of stdout lacks a letter of it.
    """
    if text is None:
        remark(f"wrote {output}")
        return
    check_stdout()
    try:
        refuse_unwritable(text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"standard output is in {error.encoding}, which lacks letters of what was asked for: set "
            "PYTHONIOENCODING=utf-8"
        ) from None
    typer.echo(text, nl=False)


def write_asked(path: Path | None, text: Callable[[], str], *, force: bool | None) -> None:
    """Write a text to the new file that a person asked for, if any, and say so. Raises `InputError` as `kept` does."""
    if path is not None:
        kept(text(), path, force=force)
        remark(f"wrote {path}")


def print_table(
    title: str,
    columns: Sequence[tuple[str, bool]],
    rows: Sequence[Sequence[object]],
    *,
    whole: bool = False,
    of: int | None = None,
) -> list[str]:
    """A table on stdout; each column is a heading and whether it holds numbers. Title and headings are plain text.

    It fits into the width that was asked for, and what is missing is said below; if it is to be `whole`, cells have as
    many lines as they need instead. `of` is how many rows there are, where these are the first of them. Returns the
    headings of all that is there to be seen.
    """
    table, shown = make_table(title, columns, rows, None if whole else asked_width())
    stdout().print(table)
    missing = [place for place in range(len(columns)) if place not in shown]
    said = _tell_missing(columns, rows, missing, "in all rows" if (of or 0) <= len(rows) else "in these rows")
    return [columns[place][0] for place in shown] + said


def make_table(
    title: str, columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[object]], room: int | None
) -> tuple[Table, list[int]]:
    """The table, and the places of the columns that are in it.

    These are all where no room is given; else those that it is enough for, with cells of two lines at most, but for
    those that would read alike, and those that are `uncut`.
    """
    cells = [[_shown(cell if isinstance(cell, Text) else plain(cell)) for cell in row] for row in rows]
    widths: Mapping[int, int | None] = dict.fromkeys(range(len(columns)))
    if room is not None:
        widths = fitted([_column(one, [row[place].plain for row in cells]) for place, one in enumerate(columns)], room)
    caption = plain(title)
    caption.stylize("table.title")
    table = Table(title=caption, title_justify="left", header_style="bold")
    for place, width in widths.items():
        heading, is_number = columns[place]
        table.add_column(
            *_in_two_lines([_shown(plain(_with_zone(heading)))], width),
            justify="right" if is_number else "left",
            overflow="fold",
            width=width,
        )
    shown = [_in_two_lines([row[place] for row in cells], width) for place, width in widths.items()]
    for told in zip(*shown, strict=True):
        table.add_row(*told)
    return table, list(widths)


def _with_zone(heading: str) -> str:
    return f"{heading} ({zone_name()})" if heading in _TIMES else heading


def _shown(cell: Text) -> Text:
    """The cell as stdout writes it, so that columns stay below one another."""
    shown = as_shown(cell.plain)
    return cell if shown == cell.plain else Text(shown, style=cell.style, overflow=cell.overflow)


def _column(column: tuple[str, bool], cells: Sequence[str]) -> TableColumn:
    heading, is_number = column
    return TableColumn(plain(heading).plain, cells, is_number or kind_of(heading) in WHOLE)


def _in_two_lines(cells: Sequence[Text], width: int | None) -> Sequence[Text]:
    if width is None:
        return cells
    told = told_apart([cell.plain for cell in cells], width)
    return [
        cell if cell.overflow == "fold" else Text(_in_as_many_cells(text), style=cell.style)
        for text, cell in zip(told, cells, strict=True)
    ]


def _in_as_many_cells(text: str) -> str:
    """What was cut to a width, with a mark of the same width for what is missing where stdout lacks an ellipsis."""
    return text if as_shown(text) == text else text.replace("…", "~")


def _tell_missing(
    columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[object]], gone: Sequence[int], where: str
) -> list[str]:
    """Say what all rows have in common in columns that are gone, and which others are; nothing of empty ones.

    Returns the headings of the first.
    """
    from enginebench_controller.verdicts.words import UNKNOWN  # noqa: PLC0415  # brings the records, for tables alone

    nothing = {"", UNKNOWN}
    alike: dict[str, str] = {}
    others: list[str] = []
    for heading, found in ((columns[place][0], {plain(row[place]).plain for row in rows}) for place in gone):
        if len(found) == 1 and found - nothing:
            alike[heading] = shortened(next(iter(found)), _LONGEST_SAID)
        elif found - nothing:
            others.append(heading)
    if alike:
        remark(f"{where}: {', '.join(f'{heading} {value}' for heading, value in alike.items())}")
    if others:
        remark(f"no room for: {', '.join(others)}; a wider terminal shows them")
    return list(alike)


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
