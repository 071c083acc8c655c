"""Layers from DeepSparse's debug analysis, which tells each layer's average over the iterations of one call.

A single time an inference therefore takes a call of one iteration, and each call takes an engine of its own: in 1.8 a
second call of one engine ends in "Out of memory", or takes the process with it. So a profile costs a compilation for
each iteration, and within it the same untimed inferences first. Every layer's times add up to the time the analysis
states for the iteration.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.deepsparse.network import DeepSparseNetwork

WARM_UP_ITERATIONS = 3
NS_PER_MS = 1_000_000
NO_ORIGIN = "<none>"
INTERNAL = "_internal_"
NUMBER = re.compile(r"[_ ]\d+$")
SPARSITY = re.compile(r"-[\d.]+%$")
ONNX_RUNTIME = "Naive Subgraph"
"""What DeepSparse calls a part of the graph that it hands to the ONNX Runtime within it."""

CONSTANTS = (
    "input_dims",
    "kernel_dims",
    "strides",
    "required_flops",
    "kernel_sparsity",
    "kernel_bits_per_ele",
    "num_tasks",
)
MEASURED = ("activation_sparsity", "average_utilization", "average_teraflops_per_second", "throughput_mb_per_second")

NOBODY: Mapping[str, str] = MappingProxyType({})

Layer = dict[str, Any]


@dataclass(frozen=True)
class Analysis:
    """How to analyse: as the engine is compiled otherwise, or with other optimizations or pruned weights.

    `imposed_sparsity` is the share of zeros, 0 to 1, that the weights of every layer that can be pruned get; DeepSparse
    names the layer after what it came to: "ks_convolution-89.9%_41".
    """

    cores: int
    scheduler: str
    optimization_level: int = 1
    imposed_sparsity: float | None = None


def profile_layers(
    deepsparse: Any, network: DeepSparseNetwork, inputs: Sequence[list[Any]], analysis: Analysis, between: spec.Between
) -> spec.ModelProfile:
    """The layers of one analysed inference for each of the inputs, in DeepSparse's order.

    Raises `RuntimeError` when two compilations of the model gave different layers, and what DeepSparse raises.
    """
    analyses = []
    for each in inputs:
        analyses.append(_analyse(deepsparse, network, each, analysis))
        between()
    runs: list[list[Layer]] = [each["layer_info"] for each in analyses]
    if len({tuple(layer["name"] for layer in run) for run in runs}) > 1:
        raise RuntimeError("DeepSparse compiled the model to different layers in different iterations: profile again")
    latency_ns = tuple(round(each["iteration_times"][0] * NS_PER_MS) for each in analyses)
    return spec.ModelProfile(tuple(layers_of(runs, network.readers)), latency_ns)


def layers_of(runs: Sequence[Sequence[Layer]], readers: Mapping[str, str] = NOBODY) -> list[spec.LayerProfile]:
    """The layers of analyses that list the same ones. A name that occurs again gets its place in the order added.

    `readers` has the label of the only node that reads a tensor.
    """
    names = Counter(layer["name"] for layer in runs[0])
    return [
        spec.LayerProfile(
            name=calls[0]["name"] if names[calls[0]["name"]] == 1 else f"{calls[0]['name']}#{order}",
            type=_type(calls[0]["name"]),
            order=order,
            time_ns=tuple(round(call["average_run_time_in_ms"] * NS_PER_MS) for call in calls),
            kernel=_kernel(calls[0]["name"]),
            output_shapes=_shapes(calls[0]["output_dims"]),
            source_nodes=tuple(_origins(calls[0]["canonical_name"], readers)),
            parameters=dict(_parameters(calls)),
        )
        for order, calls in enumerate(zip(*runs, strict=True))
    ]


def _analyse(deepsparse: Any, network: DeepSparseNetwork, inputs: list[Any], analysis: Analysis) -> dict[str, Any]:
    report: dict[str, Any] = deepsparse.engine.model_debug_analysis(
        str(network.path),
        inputs,
        batch_size=network.batch,
        num_cores=analysis.cores,
        num_iterations=1,
        num_warmup_iterations=WARM_UP_ITERATIONS,
        optimization_level=analysis.optimization_level,
        imposed_ks=analysis.imposed_sparsity,
        scheduler=analysis.scheduler,
    )
    return report


def _kernel(name: str) -> str:
    """What a layer is called without its number: "ks_convolution-89.9%", "elementwise_sub_2", "Naive Subgraph"."""
    return NUMBER.sub("", name)


def _type(name: str) -> str:
    """The kind of layer within a name such as "elementwise_sub_2_11" or "ks_convolution-89.9%_41"."""
    return "ORT" if name.startswith(ONNX_RUNTIME) else SPARSITY.sub("", _kernel(name))


def _shapes(dims: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    """The output in DeepSparse's own five dimensions; it does not tell those of what ONNX Runtime runs (-1)."""
    shape = tuple(dims[axis] for axis in ("batches", "channels", "z", "y", "x"))
    return () if min(shape) < 0 else (shape,)


def _origins(names: str, readers: Mapping[str, str]) -> Iterator[str]:
    """The tensors a layer makes on its way; one that DeepSparse put in is named after what its only reader reads."""
    for name in filter(None, names.split(",")):
        tensor, internal, _ = name.partition(INTERNAL)
        if name == NO_ORIGIN or (internal and tensor not in readers):
            continue
        yield readers[tensor] if internal else name


def _parameters(calls: Sequence[Layer]) -> Iterator[tuple[str, str]]:
    """What else an analysis tells: constants from the first, and the mean over all of what it measured."""
    for key in CONSTANTS:
        if text := _text(calls[0].get(key)):
            yield key, text
    for key in MEASURED:
        if values := [call[key] for call in calls if call.get(key)]:
            yield key, f"{sum(values) / len(values):.6g}"


def _text(value: Any) -> str:
    """A number, or sizes by axis ("x=3,y=3"); nothing for what DeepSparse does not know (-1) or has none of."""
    if isinstance(value, dict):
        return ",".join(f"{axis}={size}" for axis, size in value.items() if size >= 0)
    return f"{value:.10g}" if value else ""
