"""One file of a user as an array: .npy, .npz, PNG or JPEG, none trusted, and how an image was prepared.

Both are read in two steps: the header says what the file claims, and content is read only once that was accepted.
"""

import contextlib
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from enginebench_controller.errors import InputError
from enginebench_controller.records.configuration import InputTensor

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
MAX_PIXELS = 80_000_000
"""A small file can unpack to any size; a larger image is refused before it is unpacked."""

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's modes by the number of channels a model takes."""

Resize = Literal["stretch", "crop"]
Layout = Literal["nchw", "nhwc"]


@dataclass(frozen=True)
class ImageOptions:
    """How images become tensors: value = (pixel × scale − mean) ÷ std, pixels being 0 to 255 in the order RGB.

    `resize`: "stretch" ignores the aspect ratio, "crop" keeps it and cuts what is over around the centre. `layout` None
    follows the model's shape. `scale` None is 1/255, or 1 for a model that takes integers. `mean` and `std` have one
    number, or one a channel; empty for 0 and 1.
    """

    resize: Resize = "stretch"
    layout: Layout | None = None
    scale: FiniteFloat | None = None
    mean: tuple[FiniteFloat, ...] = ()
    std: tuple[FiniteFloat, ...] = ()


@dataclass(frozen=True)
class ImagePreparation:
    """`ImageOptions` worked out for one input of a model."""

    height: int
    width: int
    channels: int
    layout: Layout
    resize: Resize
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: "np.dtype[Any]"

    @property
    def sentence(self) -> str:
        """What is done, for people and for the record."""
        steps = [
            f"{_MODES[self.channels]} images upright, {_RESIZED[self.resize]} {self.width}×{self.height} (bilinear)"
        ]
        steps.append(f"laid out {self.layout}, pixels × {self.scale:.6g}")
        steps += [f"− {_numbers(self.mean)}"] if any(self.mean) else []
        steps += [f"÷ {_numbers(self.std)}"] if any(one != 1 for one in self.std) else []
        return ", ".join(steps) + f", as {self.dtype.name}"


_RESIZED = {"stretch": "stretched to", "crop": "scaled and cut around the centre to"}


def prepare_images(tensor: InputTensor, dtype: "np.dtype[Any]", options: ImageOptions) -> ImagePreparation:
    """Work out how images fit the input `tensor`, whose shape includes the batch. Raises `InputError`."""
    if len(tensor.shape) != 4:
        raise InputError(f"images cannot feed input {tensor.name!r} of shape {tensor.shape}: it needs four dimensions")
    layout = options.layout or _layout(tensor)
    _, *sizes = tensor.shape
    channels, height, width = sizes if layout == "nchw" else (sizes[2], *sizes[:2])
    if channels not in _MODES:
        raise InputError(
            f"images have 1, 3 or 4 channels, and input {tensor.name!r} of shape {tensor.shape} has {channels} in the "
            f"layout {layout}; give the other layout, or .npy files"
        )
    scale = (1.0 if dtype.kind in "iu" else 1 / 255) if options.scale is None else options.scale
    mean = _each_channel(options.mean, channels, "mean", 0.0)
    std = _each_channel(options.std, channels, "std", 1.0)
    if 0 in std:
        raise InputError("the standard deviation of an image's channel cannot be 0, because values are divided by it")
    return ImagePreparation(height, width, channels, layout, options.resize, scale, mean, std, dtype)


def read_image(path: Path, preparation: ImagePreparation) -> NDArray[Any]:
    """One image as an array of shape (channels, height, width) or (height, width, channels).

    Raises `InputError` for a file that is no PNG or JPEG, is cut off, or has more than `MAX_PIXELS` pixels, and for
    values that the model's element type cannot hold.
    """
    pixels = _read_pixels(path, preparation).astype(np.float64)
    values = (pixels * preparation.scale - np.array(preparation.mean)) / np.array(preparation.std)
    if preparation.layout == "nchw":
        values = values.transpose(2, 0, 1)
    return _as_dtype(values, preparation.dtype, path)


def _read_pixels(path: Path, preparation: ImagePreparation) -> NDArray[np.uint8]:
    """Shape (height, width, channels), 0 to 255."""
    from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415  # most commands need no images

    size = (preparation.width, preparation.height)
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise InputError(f"{path} has {image.width} × {image.height} pixels; at most {MAX_PIXELS} are read")
            upright = ImageOps.exif_transpose(image).convert(_MODES[preparation.channels])
    except UnidentifiedImageError:
        raise InputError(f"{path} is not a PNG or JPEG image; save it as one") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} is not a whole image: {error}; save it again") from error
    if preparation.resize == "crop":
        resized = ImageOps.fit(upright, size, Image.Resampling.BILINEAR)
    else:
        resized = upright.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(resized, np.uint8).reshape(preparation.height, preparation.width, preparation.channels)


def _as_dtype(values: NDArray[np.float64], dtype: "np.dtype[Any]", path: Path) -> NDArray[Any]:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.rint(values)
        if values.min() < limits.min or values.max() > limits.max:
            raise InputError(
                f"{path} becomes values from {values.min():g} to {values.max():g}, which {dtype.name} cannot hold; "
                "change the scale, the mean or the standard deviation"
            )
    return np.ascontiguousarray(values.astype(dtype))


def _layout(tensor: InputTensor) -> Layout:
    """Channels first or last, whichever place holds a number of channels. Raises `InputError` where that is unclear."""
    first, last = (tensor.shape[place] in {1, 3} for place in (1, 3))
    if first == last:
        raise InputError(
            f"the shape {tensor.shape} of input {tensor.name!r} does not tell where an image's channels are: "
            "give the layout, nchw or nhwc"
        )
    return "nchw" if first else "nhwc"


def _each_channel(given: Sequence[float], channels: int, what: str, otherwise: float) -> tuple[float, ...]:
    numbers = tuple(given) or (otherwise,)
    if len(numbers) not in {1, channels}:
        raise InputError(f"{len(numbers)} numbers are given as {what} of {channels} channels: give one each")
    return numbers * channels if len(numbers) == 1 else numbers


def _numbers(values: Sequence[float]) -> str:
    distinct = dict.fromkeys(values)
    return f"{values[0]:g}" if len(distinct) == 1 else "(" + ", ".join(f"{one:g}" for one in values) + ")"


MAX_BYTES = 1 << 30
"""Content of one array; a larger one is refused, whatever its file's size on disk."""

NPY, NPZ = ".npy", ".npz"

_NO_ARRAY = (
    *(ArithmeticError, EOFError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""What NumPy and the standard library raise over bytes that are no array; headers are read as Python is."""


@dataclass(frozen=True)
class ArrayFile:
    """An array in a file: `member` names it within a .npz, None for a .npy. `dtype` is in native byte order."""

    path: Path
    member: str | None
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]

    @property
    def label(self) -> str:
        """How error sentences call it."""
        return str(self.path) if self.member is None else f"{self.path}, array {self.member!r}"

    def read(self) -> NDArray[Any]:
        """The array, C-contiguous, in native byte order. Raises `InputError` where the file is cut off or changed."""
        with _opened(self.path, self.member) as stream:
            header = _read_header(stream, self.label)
            if (header.shape, header.dtype.newbyteorder("=")) != (self.shape, self.dtype):
                raise InputError(f"{self.label} changed while it was read; run the command again")
            size_bytes = math.prod(self.shape) * self.dtype.itemsize
            content = stream.read(size_bytes)
        if len(content) < size_bytes:
            raise InputError(
                f"{self.label} is cut off: its header promises {size_bytes} bytes of content; save it again"
            )
        values = np.frombuffer(content, header.dtype).reshape(self.shape, order=header.order)
        return np.ascontiguousarray(values, self.dtype)


def npz_names(path: Path) -> list[str]:
    """Names of the arrays in a .npz, in the file's order. Raises `InputError`."""
    with _as_sentence(str(path)), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(NPY) for name in archive.namelist() if name.endswith(NPY)]


def open_array(path: Path, member: str | None = None) -> ArrayFile:
    """Read the header of a .npy file, or of the array `member` of a .npz.

    Raises `InputError` for pickled objects, a damaged file, and an array above `MAX_BYTES`.
    """
    label = ArrayFile(path, member, np.dtype(np.uint8), ()).label
    with _opened(path, member) as stream:
        header = _read_header(stream, label)
    if header.dtype.hasobject:
        raise InputError(
            f"{label} holds pickled Python objects, which can run code and are not read; save numbers only"
        )
    if any(size < 0 for size in header.shape):
        raise InputError(f"{label} has the impossible shape {header.shape}; save it again with NumPy")
    size_bytes = math.prod(header.shape) * header.dtype.itemsize
    if size_bytes > MAX_BYTES:
        raise InputError(f"{label} comes to {size_bytes} bytes; at most {MAX_BYTES} are read: split it up")
    return ArrayFile(path, member, header.dtype.newbyteorder("="), header.shape)


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    order: Any
    dtype: "np.dtype[Any]"


def _read_header(stream: IO[bytes], label: str) -> _Header:
    """What stands before the content; NumPy bounds its length and evaluates literals only."""
    with _as_sentence(label):
        version = np.lib.format.read_magic(stream)
        if version not in {(1, 0), (2, 0)}:
            raise ValueError(f"its format version is {version[0]}.{version[1]}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        return _Header(tuple(shape), "F" if is_fortran else "C", dtype)


@contextlib.contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    """The bytes of a .npy file, wherever they lie; a compressed one is unpacked as it is read, never whole."""
    label = ArrayFile(path, member, np.dtype(np.uint8), ()).label
    with _as_sentence(label):
        if member is None:
            with path.open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(path) as archive, archive.open(member + NPY) as stream:
                yield stream


@contextlib.contextmanager
def _as_sentence(label: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {label}: {error.strerror or error}") from error
    except _NO_ARRAY as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"{label} is not a whole {NPY} or {NPZ} file: {reason}; save it again with NumPy") from error
