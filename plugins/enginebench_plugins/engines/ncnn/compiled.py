"""From a .param and its .bin to a net of ncnn: what it runs, tells about itself and times."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import own_inputs

INPUT = "Input"
"""The layer that stands for an input."""

AS_IT_IS = 1
"""Of `extract`: the blob in the packing and precision that the next layer takes it in."""

INT8 = "int8"

INT8_PARAMETERS = {
    **dict.fromkeys(("Convolution", "ConvolutionDepthWise", "GRU", "InnerProduct", "LSTM", "RNN"), "8"),
    **dict.fromkeys(("Gemm", "MultiHeadAttention", "SDPA"), "18"),
}
"""Of the layers that ncnn can compute in integers, the parameter that says so: int8_scale_term, or quantize_term."""

WEIGHTS_ALONE = 400
"""From here on a quantize_term says how weights are stored, in blocks, which floats are multiplied with
(ncnn's docs/developer-guide/operators.md)."""

FLOAT_PRODUCTS = frozenset(
    {"Convolution1D", "Convolution3D", "ConvolutionDepthWise1D", "ConvolutionDepthWise3D", "DeformableConv2D"}
    | {f"Deconvolution{kind}" for kind in ("", "1D", "3D", "DepthWise", "DepthWise1D", "DepthWise3D")}
    | {"Einsum", "MatMul"}
)
"""The other layers that the time goes into."""


class CompiledNcnn(spec.CompiledModel):
    """A net, of which any number of extractors may run at once."""

    def __init__(self, ncnn: Any, param: Path, source: spec.ModelSource, settings: spec.Settings) -> None:
        self._ncnn = ncnn
        self._net = net = ncnn.Net()
        net.opt.use_vulkan_compute = False
        net.opt.num_threads = max(1, settings.cores // settings.requests)
        half = settings.precision is spec.Precision.F16 or (
            settings.precision is spec.Precision.DEFAULT and ncnn.cpu_support_arm_asimdhp()
        )
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = half
        weights = param.with_suffix(".bin")
        for load, path in ((net.load_param, param), (net.load_model, weights)):
            if load(str(path)) != 0:
                raise ValueError(f"ncnn does not load {path.name}: what it says of it stands in the child's output")
        text = param.read_text(encoding="utf-8", errors="replace")
        self._precision = quantized(text) or ("f16" if half else "f32")
        self._inputs = own_inputs(tuple(declared_inputs(text, source)), source, settings.batch)
        for tensor in self._inputs:
            if tensor.shape[:1] != (1,):
                sizes = "x".join(map(str, tensor.shape))
                raise spec.UnsupportedSettingsError(f"input {tensor.name} is one item: 1x{sizes}, and not {sizes}")
        self._outputs = list(net.output_names())

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The inputs with the shapes of this run."""
        return self._inputs

    def effective(self) -> spec.Effective:
        """What follows from options and layers; ncnn tells nothing itself: its threads are left to be observed."""
        return spec.Effective(
            streams=spec.Readback(1, spec.Source.ASSUMED),
            precision=spec.Readback(self._precision, spec.Source.ASSUMED),
        )

    def create_request(self) -> spec.InferRequest:
        """A request that runs in the caller's thread and those of OpenMP."""
        return NcnnRequest(self._ncnn, self._net, self._inputs, self._outputs)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """Every layer by the clock: ncnn runs what a blob needs, so that each is asked for behind the one before."""
        layers = [layer for layer in self._net.layers() if layer.type != INPUT]
        times: list[list[int]] = [[] for _ in layers]
        shapes: list[tuple[tuple[int, ...], ...]] = [() for _ in layers]
        latency_ns = []
        for inference in range(iterations):
            extractor = _fed(self._ncnn, self._net, inputs[inference % len(inputs)])
            begin_ns = time.perf_counter_ns()
            for place, layer in enumerate(layers):
                layer_begin_ns = time.perf_counter_ns()
                blobs = [_extracted(extractor, blob, AS_IT_IS) for blob in layer.tops]
                times[place].append(time.perf_counter_ns() - layer_begin_ns)
                shapes[place] = tuple(map(_sizes, blobs))
                del blobs  # held here, the next layer could not work in its place
            latency_ns.append(time.perf_counter_ns() - begin_ns)
            between()
        return spec.ModelProfile(tuple(self._told(layers, times, shapes)), tuple(latency_ns))

    def _told(
        self, layers: Sequence[Any], times: Sequence[Sequence[int]], shapes: Sequence[tuple[tuple[int, ...], ...]]
    ) -> Iterator[spec.LayerProfile]:
        names = [blob.name for blob in self._net.blobs()]
        for order, (layer, time_ns, sizes) in enumerate(zip(layers, times, shapes, strict=True)):
            yield spec.LayerProfile(
                name=layer.name,
                type=layer.type,
                order=order,
                time_ns=tuple(time_ns),
                output_shapes=sizes,
                source_nodes=(layer.name,),
                inputs=tuple(names[blob] for blob in layer.bottoms),
                outputs=tuple(names[blob] for blob in layer.tops),
            )

    def close(self) -> None:
        """Drop layers and weights."""
        self._net.clear()


class NcnnRequest(spec.InferRequest):
    """An extractor for each inference: it keeps what it has computed, and would not compute that again."""

    def __init__(self, ncnn: Any, net: Any, inputs: Sequence[spec.TensorSpec], outputs: Sequence[str]) -> None:
        self._ncnn, self._net, self._outputs = ncnn, net, outputs
        self._shapes = {tensor.name: tensor.shape for tensor in inputs}

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run what the outputs need, and copy them into new arrays.

        Raises `ValueError` for an input of another shape, which ncnn would take, and `RuntimeError` where ncnn stops.
        """
        for name, array in inputs.items():
            if array.shape != self._shapes[name]:
                raise ValueError(f"the input {name} has the shape {array.shape}, and {self._shapes[name]} is compiled")
        extractor = _fed(self._ncnn, self._net, inputs)
        return {name: np.array(_extracted(extractor, name))[np.newaxis] for name in self._outputs}

    def close(self) -> None:
        """End the request's thread and let go of the net."""
        super().close()
        del self._net


def declared_inputs(param: str, source: spec.ModelSource) -> Iterator[spec.TensorSpec]:
    """The inputs of a .param: one item of a batch of 1, in ncnn's own order of dimensions, channels first.

    ncnn's tensors have no batch; those who write its files leave out the first dimension, which stands for it here, so
    that inputs and outputs are those that other engines have of the same model. Of an input's parameters 0 is the
    width, 1 the height, 11 the depth and 2 the channels (ncnn's docs/developer-guide/operators.md). Raises
    `UnsupportedSettingsError` for an input whose shape neither the file nor the caller tells.
    """
    given = {tensor.name: tensor.shape for tensor in source.inputs}
    for kind, blobs, told in _layers(param):
        if kind == INPUT:
            name = blobs[0]
            sizes = tuple(int(told[key]) for key in ("2", "11", "1", "0") if int(told.get(key, 0)))
            if not sizes and name not in given:
                raise spec.UnsupportedSettingsError(
                    f"the file does not tell the shape of input {name}: give it, such as --shape {name}=1x3x224x224"
                )
            yield spec.TensorSpec(name, "float32", (1, *sizes) if sizes else given[name])


def quantized(param: str) -> str | None:
    """ "int8" where the products of a .param are computed in integers, with how many unless it is all; None where none.

    A layer with the scales of its input and of its weights is: ncnn's use_int8_inference is on from the start.
    """
    in_integers = [
        0 < int(told.get(INT8_PARAMETERS.get(kind, ""), 0)) < WEIGHTS_ALONE
        for kind, _, told in _layers(param)
        if kind in INT8_PARAMETERS or kind in FLOAT_PRODUCTS
    ]
    if not any(in_integers):
        return None
    return INT8 if all(in_integers) else f"{INT8} ({sum(in_integers)} of {len(in_integers)} products)"


def _layers(param: str) -> Iterator[tuple[str, Sequence[str], Mapping[str, str]]]:
    """The type of every layer of a .param, its blobs, and its parameters by their numbers.

    A line has a layer's type and name, how many blobs it reads and makes, these, and its parameters. Those at the top,
    of what begins such a file and of how many layers and blobs there are, are shorter.
    """
    for words in map(str.split, param.splitlines()):
        if len(words) >= 4:
            parameters = 4 + int(words[2]) + int(words[3])
            yield words[0], words[4:parameters], dict(word.partition("=")[::2] for word in words[parameters:])


def _sizes(blob: Any) -> tuple[int, ...]:
    """The sizes of a blob, packed channels counted one by one."""
    sizes = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}.get(blob.dims, "")
    found = [getattr(blob, size) for size in sizes]
    return (found[0] * blob.elempack, *found[1:]) if found else ()


def _fed(ncnn: Any, net: Any, inputs: spec.Tensors) -> Any:
    extractor = net.create_extractor()
    for name, array in inputs.items():
        # A copy: channels stand aligned there, and layers may work in its place.
        if extractor.input(name, ncnn.Mat(array[0]).clone()) != 0:
            raise RuntimeError(f"ncnn does not take the input {name}")
    return extractor


def _extracted(extractor: Any, blob: Any, form: int = 0) -> Any:
    status, found = extractor.extract(blob, form)
    if status != 0:
        raise RuntimeError(f"ncnn stopped with status {status} on the way to blob {blob}")
    return found
