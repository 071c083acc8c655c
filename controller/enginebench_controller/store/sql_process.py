"""The process in which one query runs: what it may do is settled here before it reads the first word of SQL.

It gets a request as JSON on stdin and prints lines of JSON: the columns, a row each, and how it ended. The file is open
read-only, without access to other files or the network and with its configuration locked; of statements it takes a
single one that reads. The kernel holds it to its memory, forbids it to write files, and ends it when the time is over.
"""

import base64
import json
import math
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from decimal import Decimal
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.memory_limit import limit_memory
from enginebench_controller.store.connection import USUAL_MEMORY_BYTES, reading
from enginebench_controller.store.statements import STREAM

if TYPE_CHECKING:
    from enginebench_controller.store.lake.reading import Ahead


class JsonValues:
    """Converts values, and counts the texts that it had to cut to `most_characters`."""

    def __init__(self, most_characters: int) -> None:
        self._most_characters = most_characters
        self.cut = 0

    def of(self, value: Any) -> Any:
        """The value: numbers, truth and None as they are, lists and structures likewise, all else as text."""
        match value:
            case None | bool() | int():
                return value
            case float() | Decimal():
                return float(value) if math.isfinite(value) else None
            case Mapping():
                return {str(key): self.of(each) for key, each in value.items()}
            case list() | tuple():
                return [self.of(each) for each in value]
            case _:
                return self._text(base64.b64encode(value).decode() if isinstance(value, bytes) else str(value))

    def _text(self, text: str) -> str:
        if len(text) <= self._most_characters:
            return text
        self.cut += 1
        return text[: self._most_characters - 1] + "…"


_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_NAMES = {duckdb.StatementType.MULTI: "more than one statement, as PIVOT is without IN"}
_ROWS_AT_ONCE = 500
_THREADS = 2
_IN_A_ZONE = "WITH TIME ZONE"
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)


def main() -> None:
    """Answer the one request; without one, whoever wanted to ask has gone.

    Lakes that the command line names are opened and shown meanwhile, confined as most requests will have it.
    """
    sys.meta_path.insert(0, _WithoutPandas())
    ahead = _open_ahead(sys.argv[1:])
    if not (text := sys.stdin.read()):
        return
    request = json.loads(text)
    try:
        _run(request, ahead)
    except InputError as error:
        _print({"error": str(error)})
    except StoreError as error:
        _print({"store_error": str(error)})


def _open_ahead(reads: Sequence[str]) -> "Ahead | None":
    """What is wrong with a lake is told who asks."""
    if not reads:
        return None
    from enginebench_controller.store.lake.reading import OWN, Ahead, open_all  # noqa: PLC0415  # seldom

    with suppress(StoreError, InputError):
        if OWN not in reads:
            return Ahead(reads, _confined(USUAL_MEMORY_BYTES))
        open_all(reads)  # without the own file, of which nothing is held while nobody asks
    return None


class _WithoutPandas(MetaPathFinder):
    """Arrow would load it for its datasets, which takes 0.2 s, and nothing here is a frame."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Say that pandas is not there."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


def _run(request: dict[str, Any], ahead: "Ahead | None") -> None:
    limits = request["limits"]
    with _opened(request, _confined(limits["memory_bytes"]), ahead) as connection:
        _confine(limits)
        with _words_of_duckdb():
            query = _only_statement(connection, request["sql"])
            if request["reads"] and _SHOW_TABLES.fullmatch(query):
                from enginebench_controller.store.lake.reading import SHOWN_TABLES  # noqa: PLC0415  # seldom

                query = SHOWN_TABLES
            _answer(connection, query, limits)


def _confined(memory_bytes: int) -> Mapping[str, str]:
    return {
        "memory_limit": f"{memory_bytes // 2}B",
        "temp_directory": "",
        "threads": str(_THREADS),
        # Names that are no table are not looked up among the variables of this program.
        "python_enable_replacements": "false",
    }


def _opened(
    request: dict[str, Any], confined: Mapping[str, str], ahead: "Ahead | None"
) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    path, timeout_s = Path(request["path"]), request["lock_timeout_s"]
    if not request["reads"]:
        return reading(path, timeout_s, confined)
    from enginebench_controller.store.lake.reading import reading_together  # noqa: PLC0415  # seldom

    return reading_together(path, request["reads"], timeout_s, confined, ahead)


def _confine(limits: dict[str, Any]) -> None:
    """From here on. An alarm that nobody handles ends the process, whatever DuckDB is doing."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    limit_memory(resource.RLIMIT_DATA, limits["memory_bytes"])
    signal.setitimer(signal.ITIMER_REAL, limits["seconds"])


def _only_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The statement. Raises `InputError` unless it is one, and one that reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise InputError(f"one statement at a time: this is {len(statements)}")
    (statement,) = statements
    if statement.type not in _READS:
        kind = _NAMES.get(statement.type, statement.type.name)
        raise InputError(
            f"this is {kind}, and the results are only read here: use SELECT, or EXPLAIN, DESCRIBE, SHOW and SUMMARIZE"
        )
    return str(statement.query)


@contextmanager
def _words_of_duckdb() -> Iterator[None]:
    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError):
        raise InputError("the query takes more memory than a query may have; let it group, or narrow it") from None
    except duckdb.Error as error:
        if STREAM in str(error):
            raise  # a file of a lake failed, no query: lake/reading.py tells
        # After an empty line comes the place in the query, drawn with spaces.
        words = " ".join(str(error).partition("\n\n")[0].split())
        raise InputError(f"DuckDB cannot answer this: {words}") from None


def _answer(connection: duckdb.DuckDBPyConnection, query: str, limits: dict[str, Any]) -> None:
    begin = time.perf_counter()
    result = connection.execute(_readable(connection, query))
    _print({"columns": [[name, str(kind)] for name, kind, *_ in result.description]})
    values = JsonValues(limits["cell_characters"])
    printed, printed_bytes, more_rows = 0, 0, False
    while not more_rows and (rows := result.fetchmany(_ROWS_AT_ONCE)):
        for row in rows:
            line = json.dumps([values.of(value) for value in row], allow_nan=False)
            printed_bytes += len(line)
            if printed == limits["rows"] or printed_bytes > limits["answer_bytes"]:
                more_rows = True
                break
            sys.stdout.write(line + "\n")
            printed += 1
    _print({"more_rows": more_rows, "cut_cells": values.cut, "duration_s": time.perf_counter() - begin})


def _readable(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """The query with instants of a time zone as text, which Python could not take without a library for them."""
    try:
        described = connection.execute(f"DESCRIBE {query}").fetchall()
    except duckdb.Error:
        return query  # the query itself says better what is wrong with it
    if not any(_IN_A_ZONE in kind for _, kind, *_ in described):
        return query
    places = [f"c{place}" for place in range(len(described))]
    columns = ", ".join(
        f"{place}{'::VARCHAR' if _IN_A_ZONE in kind else ''} AS {_quoted(name)}"
        for place, (name, kind, *_) in zip(places, described, strict=True)
    )
    return f"SELECT {columns} FROM ({query}\n) AS answer({', '.join(places)})"  # noqa: S608  # reads, like the query


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
