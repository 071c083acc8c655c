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
    """A kind of export: the word its files bear, the command that makes one, its schema version and form."""

    name: str
    command: str
    schema_version: int
    form: type[Content]


def read_export(path: Path, kind: ExportKind[Content]) -> Content:
    """Return what an export holds, checked field by field.

    Raises `InputError` for a file that is missing, not an export of this kind, made by a newer enginebench or damaged.
    """
    text = _read(path)
    _check_version(_parse(text, path), path, kind)
    try:
        return kind.form.model_validate_json(text)
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


def _check_version(data: Any, path: Path, kind: ExportKind[Content]) -> None:
    """Raise `InputError` for anything that is no such export, or is one of another version."""
    if not isinstance(data, Mapping) or data.get("kind") != kind.name:
        raise InputError(f"{path} is not an export; make one with `{kind.command}`")
    version = data.get("schema_version")
    if type(version) is not int:
        raise InputError(f"{path} has no usable schema_version; export it again")
    if version > kind.schema_version:
        raise InputError(
            f"{path} was exported by a newer enginebench (schema {version}; this one knows {kind.schema_version}); "
            "upgrade enginebench to import it"
        )
    if version < kind.schema_version:
        raise InputError(
            f"{path} was exported by an older enginebench (schema {version}; this one knows {kind.schema_version}); "
            f"export it again, with this one, by `{kind.command}`"
        )


def _reasons(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    listed = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_MAX_REASONS]]
    more = f" and {len(problems) - _MAX_REASONS} more" if len(problems) > _MAX_REASONS else ""
    return "; ".join(listed) + more
