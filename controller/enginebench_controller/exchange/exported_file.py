"""Reading a file that an export wrote: whether it is one, of which schema version, and what is wrong with it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from enginebench_controller.errors import InputError

Content = TypeVar("Content", bound=BaseModel)

_MAX_REASONS = 3


@dataclass(frozen=True)
class ExportKind(Generic[Content]):
    """A kind of export: the word its files bear, the command that makes one, and its form in each schema version."""

    name: str
    command: str
    forms: Mapping[int, type[Content]]


def read_export(path: Path, kind: ExportKind[Content]) -> Content:
    """Return what an export holds, checked field by field.

    Raises `InputError` for a file that is missing, not an export of this kind, made by a newer enginebench or damaged.
    """
    text = _read(path)
    version = _version(_parse(text, path), path, kind)
    try:
        return kind.forms[version].model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{path} is damaged, nothing was imported: {_reasons(error)}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text, so it is no export") from None


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); export it again") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _version(data: Any, path: Path, kind: ExportKind[Content]) -> int:
    """Return the schema version of an export; raise `InputError` for anything that is none, or too new."""
    if not isinstance(data, Mapping) or data.get("kind") != kind.name:
        raise InputError(f"{path} is not an export; make one with `{kind.command}`")
    version, newest = data.get("schema_version"), max(kind.forms)
    if type(version) is int and version > newest:
        raise InputError(
            f"{path} was exported by a newer enginebench (schema {version}; this one knows {newest}); "
            "upgrade enginebench to import it"
        )
    if type(version) is not int or version not in kind.forms:
        raise InputError(f"{path} has no usable schema_version; export it again")
    return version


def _reasons(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    listed = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_MAX_REASONS]]
    more = f" and {len(problems) - _MAX_REASONS} more" if len(problems) > _MAX_REASONS else ""
    return "; ".join(listed) + more
