"""Files that a browser sends: whoever uploads names them, so a name is checked before it becomes one of ours."""

from pathlib import PurePosixPath

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.words import SUFFIXES

COMPANIONS = ("bin", "data", "onnx_data", "weights")
"""Suffixes of files that a model may refer to."""

_LONGEST_BYTES = 200


def file_name(sent: str) -> str:
    """Return the last part of a name as sent. Raises `InputError` for one that no file of ours may have."""
    name = PurePosixPath(sent.replace("\\", "/")).name
    if name in ("", ".", "..") or not name.isprintable() or len(name.encode()) > _LONGEST_BYTES:
        raise InputError(f"a file cannot be called {sent[:60]!r} here: rename it and upload it again")
    return name


def model_names(names: list[str]) -> list[str]:
    """Return those of the files that are models. Raises `InputError` where none is."""
    models = [name for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES]
    if not models:
        raise InputError(f"none of these files is a model: its name must end in {', '.join(SUFFIXES)}")
    return models
