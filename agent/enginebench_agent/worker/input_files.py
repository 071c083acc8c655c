"""One file of an input set: a .npy file that is what its digest, the model's input and nothing else say it is."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_plugins.spec import TensorSpec, UnsupportedSettingsError
from enginebench_proto.v1.configuration_pb2 import InputFile

_SHA256 = re.compile(r"[0-9a-f]{64}")


def read_input_file(folder: Path, file: InputFile, tensor: TensorSpec) -> NDArray[Any]:
    """The array of a file, C-contiguous and in this machine's byte order.

    Raises `UnsupportedSettingsError` where the file is missing, not the one the digest names, no .npy file of plain
    numbers, or of another shape or type than `tensor`.
    """
    path = _checked_path(folder, file)
    mapped = _mapped(path, file)
    if mapped.dtype.name != tensor.dtype or mapped.shape != tensor.shape:
        raise UnsupportedSettingsError(
            f"{_described(file)} is {mapped.dtype.name} {mapped.shape}; the model takes {tensor.dtype} {tensor.shape}."
        )
    return np.array(mapped, dtype=tensor.dtype, order="C")


def _checked_path(folder: Path, file: InputFile) -> Path:
    if not _SHA256.fullmatch(file.sha256):  # it becomes a path
        raise UnsupportedSettingsError(f"The file for the input '{file.input}' is named by no sha256: '{file.sha256}'.")
    path = folder / file.sha256
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UnsupportedSettingsError(f"{_described(file)} cannot be read: {error.strerror}.") from error
    if digest != file.sha256:
        raise UnsupportedSettingsError(f"{_described(file)} is damaged: its content has another digest.")
    return path


def _mapped(path: Path, file: InputFile) -> NDArray[Any]:
    try:
        # Mapped first: the header is a stranger's, and must not make NumPy allocate what it claims.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # what is no such file may be a damaged archive, or anything to its header's parser
        raise UnsupportedSettingsError(f"{_described(file)} is not a .npy file of plain numbers: {error}.") from error
    if not isinstance(array, np.ndarray):  # NumPy opens a .npz archive by its content, whatever its name
        raise UnsupportedSettingsError(f"{_described(file)} is an archive; it takes one .npy file for each input.")
    return array


def _described(file: InputFile) -> str:
    return f"The file {file.sha256[:12]} for the input '{file.input}'"
