"""Whether what commands print is what docs/reference/schemas/ says: no key missing, and none that it does not know."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from typer.testing import CliRunner

from enginebench_controller.files.documents import DOCUMENTS, DocumentKind

SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"
UNASKED = ("export", "profiles export")
"""Commands that print a document without `--json`."""


def check_command(words: Sequence[object], printed: str) -> str | None:
    """The name of the document that a command line printed; None where it was not to print any.

    Raises `AssertionError` for one that is none of those which the table has for this command.
    """
    line = [str(word) for word in words]
    if not printed.strip() or not ("--json" in line or any(_is_of(one, line) for one in UNASKED)):
        return None
    if "--json" not in line and not printed.startswith('{"schema_version"'):
        return None  # a profile as CSV, or as a trace
    kinds = _kinds(line)
    assert kinds, f"the table of documents knows none of {line}"
    document = json.loads(printed)
    wrong = {kind.name: _problem(kind.name, document) for kind in kinds}
    assert None in wrong.values(), "\n".join(f"{line} printed no {name}: {why}" for name, why in wrong.items())
    return next(name for name, why in wrong.items() if why is None)


def check_document(name: str, document: Any) -> None:
    """Raise `AssertionError` unless it is a document of this name."""
    problem = _problem(name, document)
    assert problem is None, f"no {name}: {problem}"


def check_all_commands() -> None:
    """Have every command that a test runs in its own process checked."""
    plain = CliRunner.invoke

    def checked(self: CliRunner, app: Any, args: Any = None, **options: Any) -> Any:
        done = plain(self, app, args, **options)
        check_command(args if isinstance(args, list | tuple) else (), done.stdout)
        return done

    CliRunner.invoke = checked  # type: ignore[method-assign]


def _kinds(line: Sequence[str]) -> list[DocumentKind]:
    """Those of the command that says most of the line: `run --dry-run` prints something else than `run`."""
    found = [(len(one.split()), kind) for kind in DOCUMENTS.values() for one in _commands(kind) if _is_of(one, line)]
    return [kind for length, kind in found if length == max(found, key=lambda one: one[0])[0]]


def _commands(kind: DocumentKind) -> tuple[str, ...]:
    """`export` prints what `profiles export` does, too."""
    return (*kind.commands, *(one for one in UNASKED if f"{one} " in kind.export))


def _is_of(command: str, line: Sequence[str]) -> bool:
    words = [word for word in command.split() if not word.startswith("-")]
    return list(line[: len(words)]) == words and set(command.split()) <= set(line)


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(_closed(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))))


def _closed(schema: Any) -> Any:
    """The same, which forbids keys that it does not know."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    return closed | {"additionalProperties": False} if isinstance(schema.get("required"), list) else closed


def _problem(name: str, document: Any) -> str | None:
    found: ValidationError | None = best_match(_validator(name).iter_errors(document))
    return None if found is None else f"{found.json_path}: {found.message[:500]}"
