"""Images as tensors: resized, laid out and scaled as asked, with a sentence that says how."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from enginebench_controller.errors import InputError
from enginebench_controller.records import InputTensor

SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
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
