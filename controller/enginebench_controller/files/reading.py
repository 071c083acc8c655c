"""Reading a file that an export wrote: whether it is one, of which schema version, and what is wrong with it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from enginebench_controller.errors import InputError
from enginebench_controller.files.documents import DOCUMENTS, DocumentKind
from enginebench_controller.files.forms import DocumentForm
from enginebench_proto.agreed.typed import typed_text

Content = TypeVar("Content", bound=DocumentForm)

_MAX_REASONS = 3


@dataclass(frozen=True)
class ExportFile:
    """A file that an export may have written, as it was read: once, since a pipe cannot be read again."""

    path: Path
    text: str
    data: Any

    @property
    def document(self) -> str:
        """The name of the document that it holds; "" of one that is no export."""
        kind = self.data.get("kind") if isinstance(self.data, Mapping) else None
        return next((one.name for one in DOCUMENTS.values() if one.export and one.kind == kind), "")


def read_file(path: Path) -> ExportFile:
    """Read a file that is to be imported. Raises `InputError` for one that is missing or no JSON."""
    text = _read(path)
    return ExportFile(path, text, _parse(text, path))


def read_export(file: ExportFile, form: type[Content]) -> Content:
    """Return what an export holds, checked field by field.

    Raises `InputError` for a file that is not an export of this kind, made by a newer enginebench or damaged.
    """
    _check_version(file.data, file.path, DOCUMENTS[form.document])
    try:
        return form.model_validate_json(file.text)
    except ValidationError as error:
        raise InputError(
            f"{file.path} is damaged, or of a newer enginebench, so nothing was imported: {_reasons(error)}"
        ) from None


def _read(path: Path) -> str:
    try:
        return typed_text(path)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path} is not text in UTF-8, so it is no export as it is: save it as UTF-8") from None


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); export it again") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _check_version(data: Any, path: Path, kind: DocumentKind) -> None:
    """Raise `InputError` for anything that is no such export, or is one of another version."""
    if not isinstance(data, Mapping) or data.get("kind") != kind.kind:
        raise InputError(f"{path} is not an export; make one with `{kind.export}`")
    version = data.get("schema_version")
    if type(version) is not int:
        raise InputError(f"{path} has no usable schema_version; export it again")
    known = kind.version or 0
    if version > known:
        raise InputError(
            f"{path} was exported by a newer enginebench (schema {version}; this one knows {known}); "
            "upgrade enginebench to import it"
        )
    if version < known:
        raise InputError(
            f"{path} was exported by an older enginebench (schema {version}; this one knows {known}); "
            f"export it again, with this one, by `{kind.export}`"
        )


def _reasons(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    listed = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:_MAX_REASONS]]
    more = f" and {len(problems) - _MAX_REASONS} more" if len(problems) > _MAX_REASONS else ""
    return "; ".join(listed) + more
