"""Operators that make tensors of sizes and a few numbers, at random, or as windows, with the Fourier transforms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from enginebench_plugins.engines.torch.dtypes import dtype_of
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, Node, OnDevice, on_host, operator, single


@operator("DFT", host={1: "", 2: "axis"})
def _dft(node: Node) -> Any:
    onesided, inverse = bool(node.get("onesided", 0)), bool(node.get("inverse", 0))
    usual = 1 if node.opset < 20 else -2

    def transform(x: Any, length: Any = None, axis: Any = None) -> Any:
        along = (usual if axis is None else int(single(axis))) % x.ndim
        size = x.shape[along] if length is None else int(single(length))
        if onesided and inverse:
            size = 2 * (x.shape[along] - 1) if length is None else size
            return torch.fft.irfft(torch.view_as_complex(x.contiguous()), size, along).unsqueeze(-1)
        signal = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)
        if onesided:
            real = signal.real if signal.is_complex() else signal
            return torch.view_as_real(torch.fft.rfft(real, size, along))
        function = torch.fft.ifft if inverse else torch.fft.fft
        return torch.view_as_real(function(signal, size, along))

    return transform


@operator("STFT", host={1: "", 3: ""})
def _stft(node: Node) -> Any:
    onesided = bool(node.get("onesided", 1))

    def transform(x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
        size = window.numel() if length is None else int(single(length))
        real = x.squeeze(-1) if x.ndim == 3 and x.shape[-1] == 1 else x
        signal = torch.view_as_complex(real.contiguous()) if real.ndim == 3 else real
        frames = signal.unfold(1, size, int(single(step)))
        frames = frames if window is None else frames * window
        half = onesided and not signal.is_complex()
        return torch.view_as_real(torch.fft.rfft(frames, size) if half else torch.fft.fft(frames, size))

    return transform


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 1 - 25 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@operator(*_WINDOWS, host={0: ""})
def _window(node: Node) -> Any:
    (a, b, c), periodic = _WINDOWS[node.type], node.get("periodic", 1)
    dtype = dtype_of(node.get("output_datatype", 1))

    def window(device: Any, size: Any) -> Any:
        count = int(single(size))
        turns = torch.arange(count, dtype=torch.float64, device=device) * (
            2 * math.pi / max(1, count if periodic else count - 1)
        )
        return (a - b * torch.cos(turns) + c * torch.cos(2 * turns)).to(dtype)

    return OnDevice(node.type, window)


@operator("MelWeightMatrix", host=dict.fromkeys(range(5), ""))
def _mel(node: Node) -> Any:
    dtype = dtype_of(node.get("output_datatype", 1))

    def matrix(device: Any, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
        bins, length, rate, low, high = map(single, (bins, length, rate, low, high))
        first, last = (2595 * math.log10(1 + hertz / 700) for hertz in (low, high))
        step = (last - first) / (bins + 2)
        hertz = [700 * (10 ** ((first + index * step) / 2595) - 1) for index in range(bins + 2)]
        places = [math.floor((length + 1) * each / rate) for each in hertz]
        result = torch.zeros(length // 2 + 1, bins)
        for column in range(bins):
            start, middle, end = places[column : column + 3]
            for row in range(start, middle + 1 if middle > start else start):
                result[row, column] = (row - start) / (middle - start)
            if start == middle:
                result[middle, column] = 1
            for row in range(middle, end):
                result[row, column] = (end - row) / (end - middle)
        return result.to(device, dtype)

    return OnDevice(node.type, matrix)


@operator("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def _random(node: Node) -> Any:
    wanted = node.get("dtype")

    def draw(device: Any, like: Any = None) -> Any:
        shape = node.get("shape") if like is None else like.shape
        dtype = dtype_of(wanted) if wanted else (torch.float32 if like is None else like.dtype)
        if "Normal" in node.type:
            values = torch.randn(tuple(shape), device=device) * node.get("scale", 1.0) + node.get("mean", 0.0)
        else:
            low, high = node.get("low", 0.0), node.get("high", 1.0)
            values = torch.rand(tuple(shape), device=device) * (high - low) + low
        return values.to(dtype)

    return OnDevice(node.type, draw)


@operator("Bernoulli")
def _bernoulli(node: Node) -> Any:
    wanted = node.get("dtype")
    return lambda x: torch.bernoulli(x.float()).to(dtype_of(wanted) if wanted else x.dtype)


@operator("Multinomial")
def _multinomial(node: Node) -> Any:
    dtype = dtype_of(node.get("dtype", 6))
    count = node.get("sample_size", 1)
    return lambda x: torch.multinomial(torch.softmax(x, -1), count, replacement=True).to(dtype)


@operator("Rfft", "Irfft", domain=MICROSOFT)
def _rfft(node: Node) -> Any:
    axes = tuple(range(-node.get("signal_ndim", 1), 0))
    if node.type == "Rfft":
        return lambda x: torch.view_as_real(torch.fft.rfftn(x, dim=axes))
    return lambda x: torch.fft.irfftn(torch.view_as_complex(x.contiguous()), dim=axes)


RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Operators that are not to be computed ahead: each inference has numbers of its own."""


@operator("ConstantOfShape", host={0: ""})
def _constant_of_shape(node: Node) -> Any:
    value = node.get("value")
    value = torch.zeros(1) if value is None else value
    if isinstance(value, np.ndarray):
        return lambda shape: np.full(tuple(shape), value.ravel()[0], dtype=object)
    return _Filled(value)


class _Filled(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """As many copies of a value as a shape asks for, on the device that the module is on."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.register_buffer("value", value.reshape(()))

    def _get_name(self) -> str:
        return "ConstantOfShape"

    def forward(self, shape: Sequence[int]) -> Any:
        """A new tensor."""
        return self.value.expand(tuple(shape)).clone()


@operator("Range", domain=MICROSOFT)
@operator("Range")
def _range(node: Node) -> Any:
    def numbers(start: Any, limit: Any, delta: Any = 1) -> Any:
        first, last, step = on_host(start), on_host(limit), on_host(delta)
        first, last, step = map(single, (first, last, step))
        count = max(0, int(np.ceil((last - first) / step)))
        places = torch.arange(count, dtype=torch.float64 if start.is_floating_point() else torch.int64)
        return (first + places * step).to(device=start.device, dtype=start.dtype)

    return numbers


@operator("OneHot", host={1: ""})
def _one_hot(node: Node) -> Any:
    axis = node.get("axis", -1)

    def one_hot(indices: Any, depth: Any, values: Any) -> Any:
        size = int(depth[0] if isinstance(depth, list) else depth)
        places = indices.long()
        hot = torch.where(places < 0, places + size, places).unsqueeze(-1)
        chosen = hot == torch.arange(size, device=indices.device)
        return torch.where(chosen, values[1], values[0]).movedim(-1, axis)

    return one_hot


@operator("EyeLike")
def _eye_like(node: Node) -> Any:
    offset, target = node.get("k", 0), node.get("dtype")

    def eye(x: Any) -> Any:
        dtype = x.dtype if target is None else dtype_of(target)
        ones = torch.ones(x.shape, device=x.device)
        return (ones.tril(offset) * ones.triu(offset)).to(dtype)

    return eye
