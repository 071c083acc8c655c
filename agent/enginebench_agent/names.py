"""What callers may call things: digests, run ids, environments and model files, checked before any use as a path."""

import re
from collections import Counter
from pathlib import PurePosixPath

from enginebench_agent.errors import InvalidRequestError
from enginebench_proto.agreed.names import is_sha256

MAX_NAME_CHARS = 1_024
MAX_PART_BYTES = 255
MAX_DEPTH = 8
MAX_FILES = 4_096
"""Files of one model. A message has room for ten times as many, and while they are checked nobody else is served."""

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENGINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_sha256(text: str) -> str:
    """Return `text` if it is a lower-case sha256 in hexadecimal; raises `InvalidRequestError` otherwise."""
    if not is_sha256(text):
        raise InvalidRequestError(f"{_shown(text)} is not a sha256 in lower-case hexadecimal (64 digits).")
    return text


def check_run_id(text: str) -> str:
    """Return `text` if it is a run id; raises `InvalidRequestError` otherwise."""
    if not _RUN_ID.fullmatch(text):
        raise InvalidRequestError(f'{_shown(text)} is not a run id: use 1 to 64 letters, digits, "-" or "_".')
    return text


def check_group_name(text: str) -> str:
    """Return `text` if it can name a group of interleaved runs; raises `InvalidRequestError` otherwise."""
    if not _RUN_ID.fullmatch(text):
        raise InvalidRequestError(f'{_shown(text)} is not a name of a group: use 1 to 64 letters, digits, "-" or "_".')
    return text


def is_engine_name(text: str) -> bool:
    """Whether `text` can name an engine: it becomes a word of command lines, tables and files."""
    return _ENGINE.fullmatch(text) is not None


def is_environment_name(text: str) -> bool:
    """Whether `text` can name an environment, and so a folder."""
    return _ENVIRONMENT.fullmatch(text) is not None


def check_model_file_name(name: str) -> PurePosixPath:
    """Return the relative path a model's file name stands for.

    Raises `InvalidRequestError` for one that is absolute, climbs with "..", is not in its simplest form, holds
    control characters or backslashes, or is too long or too deep.
    """
    if len(name) > MAX_NAME_CHARS or not name.isprintable() or "\\" in name:
        raise InvalidRequestError(f"{_shown(name)} is not a file name a model can use.")
    path = PurePosixPath(name)
    if not name or path.is_absolute() or str(path) != name or ".." in path.parts or name == ".":
        raise InvalidRequestError(
            f'{_shown(name)} is not a relative file name: it must lie below the model, without "..".'
        )
    if len(path.parts) > MAX_DEPTH or any(len(part.encode()) > MAX_PART_BYTES for part in path.parts):
        raise InvalidRequestError(
            f"{_shown(name)} is too deep or too long: at most {MAX_DEPTH} folders of {MAX_PART_BYTES} bytes."
        )
    return path


def check_model_file_names(names: list[str]) -> list[PurePosixPath]:
    """Check every name of a file set, that no two name the same file or a file and its folder, and their number."""
    if len(names) > MAX_FILES:
        raise InvalidRequestError(f"the model has {len(names)} files; an agent takes up to {MAX_FILES}.")
    paths = [check_model_file_name(name) for name in names]
    uses = Counter(paths)
    folders = {folder for path in paths for folder in path.parents}
    for path in paths:
        if uses[path] > 1 or path in folders:
            raise InvalidRequestError(f"the model's files cannot lie beside each other: {_shown(str(path))}.")
    return paths


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
