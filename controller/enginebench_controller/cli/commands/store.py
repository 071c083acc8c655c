"""`enginebench query` and `store …`: the results file, asked in SQL, looked after, and brought into a lake of many."""

import json as json_text
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from enginebench_controller.cli.console import confirmed, plain, print_export, print_json, print_table, remark, stdout
from enginebench_controller.cli.options import Json, Stores
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.store_answers import (
    check_document,
    compact_document,
    query_csv,
    query_document,
    sync_document,
)
from enginebench_controller.home import default_home, home_to_read
from enginebench_controller.store.lake.place import lake_at
from enginebench_controller.store.lake.upkeep import GRACE_HOURS, compact
from enginebench_controller.store.lake.writing import Synced, sync
from enginebench_controller.store.sql_query import QueryLimits, QueryResult
from enginebench_controller.typed_paths import typed_path
from enginebench_controller.verdicts.words import UNKNOWN

LONGEST_S = 20.0
"""A benchmark that wants to store a result waits for a query, and not for ever."""


_MOST_BYTES = 256_000_000


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN.")],
    rows: Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000, help="At most this many rows.")] = 10_000,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=LONGEST_S, help="Longest time; others wait meanwhile.")
    ] = 5.0,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    stores: Stores = None,
) -> None:
    """Ask the results by SQL (DuckDB's), reading only; docs/reference/tables.md lists tables and columns."""
    if json and csv:
        raise InputError("--json and --csv are two forms of one answer; choose one")
    limits = QueryLimits(seconds=seconds, rows=rows, answer_bytes=_MOST_BYTES)
    result = home_to_read(stores or ()).store.query(sql, limits)
    if json:
        print_json(query_document(result))
    elif csv:
        print_export(query_csv(result), None)
    else:
        _print_rows(result)
    for line in result.remarks:
        remark(line)


def _print_rows(result: QueryResult) -> None:
    columns = [(column.name, _holds_numbers(column.type)) for column in result.columns]
    print_table("", columns, [[_cell(value) for value in row] for row in result.rows], whole=True)


def _holds_numbers(kind: str) -> bool:
    """Whether values of DuckDB's type are numbers: TINYINT, UBIGINT, DOUBLE, DECIMAL(5,2), …"""
    return kind.endswith(("INT", "INTEGER", "DOUBLE", "FLOAT")) or kind.startswith("DECIMAL")


def _cell(value: Any) -> Text:
    if value is None:
        return plain(UNKNOWN)
    text = value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)
    return Text("\n").join(map(plain, text.split("\n")))


_OF_OTHERS = 0o077

group = typer.Typer(no_args_is_help=True, help="The file that holds all results: checking it, copying it, sharing it.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("query")(query)
    app.add_typer(group, name="store")


@group.command("check")
def check(json: Json = False) -> int:
    """Read all results, and look for damage and for what belongs to nothing. Exits with 1 when there is a problem."""
    store = default_home().store
    found = store.check()
    if json:
        print_json(check_document(store.path, found))
    else:
        rows: list[list[object]] = [
            [table, UNKNOWN if count is None else f"{count:,}"] for table, count in found.rows.items()
        ]
        stdout().print(plain(store.path), soft_wrap=True)  # a title would be parted to the width of the table
        print_table("", [("table", False), ("rows", True)], rows)
    if store.path.exists() and store.path.parent.stat().st_mode & _OF_OTHERS:
        folder = store.path.parent
        remark(f"others on this machine can look into {folder}; `chmod 700 {quote(str(folder))}` forbids it")
    for problem in found.problems:
        remark(problem)
    if found.damage:
        remark("nothing was changed; `enginebench store restore FILE` puts a backup in its place and keeps this file")
    if found.problems:
        return ExitCode.SOME_FAILED
    remark("no problem was found")
    return ExitCode.OK


@group.command("backup")
def backup(
    to: Annotated[Path, typer.Argument(metavar="[FILE]", help="A new file, or a folder; here by default.")] = Path(),
) -> None:
    """Copy the results to a new file, whole and checked. Others wait meanwhile."""
    remark("copying …")
    copy = default_home().store.backup(typed_path(to).absolute())
    size_mb = copy.stat().st_size / 1e6
    remark(f"checked: {copy} ({size_mb:,.1f} MB); `enginebench store restore {quote(str(copy))}` takes it up")


@group.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `store backup` made.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Put a backup in the place of the results, which are kept under another name; asks first."""
    store = default_home().store
    if not (yes or confirmed(f"put {file} in the place of {store.path}? The present results are kept.")):
        return
    kept = store.restore(typed_path(file).absolute())
    remark(f"restored from {file}")
    if kept:
        remark(f"what was there before: {kept}; `enginebench store restore {quote(str(kept))}` undoes this")


LakePlace = Annotated[str, typer.Argument(metavar="LAKE", help="A folder, or s3://BUCKET/FOLDER.")]


@group.command("sync")
def sync_(lake: LakePlace, json: Json = False) -> None:
    """Write what a lake lacks of these results, for others to read: Delta tables. Repeats change nothing."""
    from enginebench_controller.runs.undertaking import under_way  # noqa: PLC0415  # it brings gRPC

    home, place = default_home(), lake_at(lake)
    waiting = under_way(home.path, home.store.stored_ids)
    found = sync(home.store.path, place, waiting)
    if json:
        print_json(sync_document(place.url, found, waiting))
        return
    remark(f"{place.url}: {'; '.join(map(_words, found))}")
    if waiting:
        remark(f"left out, as they are under way or wait for `enginebench resume`: {', '.join(sorted(waiting))}")
    for behind in (one for each in found for one in each.behind):
        remark(f"{behind} has more measurements here than in the lake, which keeps what it has")


def _words(synced: Synced) -> str:
    return f"{synced.noun}s: {len(synced.new)} new in it, {synced.known} there already"


@group.command("compact")
def compact_(
    lake: Annotated[
        str | None,
        typer.Argument(metavar="[LAKE]", help="A folder, or s3://BUCKET/FOLDER; the own results by default."),
    ] = None,
    grace: Annotated[
        int | None,
        typer.Option(
            metavar="HOURS",
            min=0,
            help="Replaced files stay for so long, for those who still read them.",
            show_default=str(GRACE_HOURS),
        ),
    ] = None,
    nobody_else: Annotated[
        bool, typer.Option("--nobody-else", help="Nobody reads or writes the lake now: any grace will do.")
    ] = False,
    json: Json = False,
) -> None:
    """Join the small files of a lake, and clear away replaced ones. Others may read and write meanwhile.

    Without LAKE, give the disk what removed results took in the own store. Others wait meanwhile.
    """
    if lake is None:
        if grace is not None or nobody_else:
            raise InputError("--grace and --nobody-else are of a lake; name it, or leave them out")
        _compact_own(json=json)
        return
    if not lake:
        raise InputError("the name of the lake is empty; leave it out for the own results")
    place, hours = lake_at(lake), GRACE_HOURS if grace is None else grace
    found = compact(place, hours, nobody_else=nobody_else)
    if json:
        print_json(compact_document(place.url, found))
        return
    remark(
        f"{found.joined:,} files were joined into {found.into:,}; what was replaced {hours} hours ago is cleared away"
    )


def _compact_own(*, json: bool) -> None:
    store = default_home().store
    before, after = found_bytes = store.compact()
    if json:
        print_json(compact_document(None, found_bytes))
        return
    changed = f"took {before / 1e6:,.1f} MB, and takes {after / 1e6:,.1f} MB now"
    remark(f"{store.path} {changed if after < before else f'takes {after / 1e6:,.1f} MB, as little as it can'}")
